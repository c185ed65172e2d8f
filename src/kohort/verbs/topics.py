"""Topics as the console lists them: size, rate of records, configuration, replicas, groups that read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.errors import KohortError
from kohort.model import TopicPartition, uuid_to_text
from kohort.results.console import ConsoleTopicRow, TopicGroup, TopicOption, TopicPartitionState
from kohort.verbs.cluster import reason, total
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import ConfigEntry, LogEnds, PartitionDescription, TopicDescription
    from kohort.client.admin.operations import Results
    from kohort.insight.findings.groups import GroupFinding

LISTED_OPTIONS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
MOST_GROUPS: Final = 100
"""Maximum number of groups of one topic. The groups with the largest lag are kept."""
NO_DIRS: Final = "no broker reported its log"


class LogSizes(NamedTuple):
    """Sizes in bytes of the largest replica of each partition. ``why_not``: reason if brokers did not report sizes."""

    of: Mapping[TopicPartition, int]
    why_not: str


class TopicFacts(NamedTuple):
    """Answers of the cluster about topics. Each may lack some topics or partitions."""

    described: Results[str, TopicDescription]
    ends: Mapping[TopicPartition, LogEnds]
    ends_errors: Mapping[str, KohortError]
    """First error of each topic whose log ends are not all known."""
    options: Mapping[str, dict[str, ConfigEntry]]
    options_errors: Mapping[str, KohortError]
    sizes: LogSizes


def topic_facts(admin: Admin, names: Sequence[str], most_partitions: int, options: Sequence[str] | None) -> TopicFacts:
    """Query topics. Offsets and sizes are those of the first ``most_partitions`` partitions.

    ``options``: names of the topic options to query; None: all.
    """
    from kohort.client.admin.model import ConfigResource

    described = admin.describe_topics(names, timeout_ms=ADMIN_MS)
    found = [(TopicPartition(n, p.partition), p.leader_id) for n in names for p in _partitions(described, n)]
    places = [place for place, _ in found[:most_partitions]]
    led = [place for place, leader in found[:most_partitions] if leader >= 0]
    ends = admin.list_ends(led, timeout_ms=ADMIN_MS)
    configs = admin.describe_configs([ConfigResource("topic", n) for n in names], names=options, timeout_ms=ADMIN_MS)
    return TopicFacts(
        described,
        {tp: ends[tp] for tp in ends if tp not in ends.errors},
        {tp.topic: error for tp, error in reversed(ends.errors.items())},
        {one.name: configs[one] for one in configs if one not in configs.errors},
        {one.name: error for one, error in configs.errors.items()},
        log_sizes(admin, places),
    )


def _partitions(described: Results[str, TopicDescription], name: str) -> Sequence[PartitionDescription]:
    return () if name in described.errors else described[name].partitions


def log_sizes(admin: Admin, places: Sequence[TopicPartition]) -> LogSizes:
    try:
        brokers = admin.describe_log_dirs(places, timeout_ms=ADMIN_MS)
    except KohortError as error:  # a broker before Kafka 1.0 lacks the API
        return LogSizes({}, reason(error))
    found: dict[TopicPartition, int] = {}
    why_not = NO_DIRS
    for node_id in brokers:
        if node_id in brokers.errors:
            why_not = reason(brokers.errors[node_id])
            continue
        for folder in brokers[node_id]:
            if folder.error is not None:
                why_not = f"a log directory of broker {node_id} is offline"
            for place, size in folder.sizes.items():
                found[place] = max(size, found.get(place, 0))
    return LogSizes(found, why_not)


def partition_states(facts: TopicFacts, name: str) -> list[TopicPartitionState]:
    rows = []
    for p in facts.described[name].partitions:
        place = TopicPartition(name, p.partition)
        ends = facts.ends.get(place)
        rows.append(
            TopicPartitionState(
                partition=p.partition,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=list(p.replicas),
                isr=list(p.isr),
                log_start_offset=None if ends is None else ends.log_start,
                log_end_offset=None if ends is None else ends.log_end,
                size_bytes=facts.sizes.of.get(place),
            )
        )
    return rows


def topic_state(
    facts: TopicFacts,
    name: str,
    rows: Sequence[TopicPartitionState],
    groups: Sequence[TopicGroup],
    rates: Mapping[str, float],
) -> ConsoleTopicRow:
    """Return the state of a topic with the partitions ``rows``. ``unknown`` has the reasons of missing values."""
    topic = facts.described[name]
    size = total(row.size_bytes for row in rows)
    offsets = total(_span(row) for row in rows)
    options = facts.options.get(name)
    unknown: dict[str, str] = {}
    if size is None:
        unknown["size"] = facts.sizes.why_not
    if offsets is None:
        failed = facts.ends_errors.get(name)
        unknown["offsets"] = _without_ends(rows) if failed is None else reason(failed)
    if name not in rates:
        unknown["rate"] = unknown.get("offsets", "a rate needs two samples, some seconds apart")
    if options is None:
        error = facts.options_errors.get(name)
        unknown["options"] = "the cluster did not report them" if error is None else reason(error)
    return ConsoleTopicRow(
        name=name,
        topic_id=uuid_to_text(topic.topic_id),
        internal=topic.internal,
        partitions=len(rows),
        without_leader=sum(row.leader < 0 for row in rows),
        out_of_sync=sum(len(row.isr) < len(row.replicas) for row in rows),
        offsets=offsets,
        size_bytes=size,
        records_per_s=rates.get(name),
        cleanup_policy=_value(options, "cleanup.policy"),
        retention_ms=_value(options, "retention.ms"),
        retention_bytes=_value(options, "retention.bytes"),
        groups=list(groups[:MOST_GROUPS]),
        groups_in_all=len(groups),
        unknown=unknown,
    )


def _without_ends(rows: Sequence[TopicPartitionState]) -> str:
    if any(row.leader < 0 for row in rows):
        return "a partition has no leader"
    return "the topics have more partitions than the console queries at once"


def topic_options(options: Mapping[str, ConfigEntry]) -> list[TopicOption]:
    """Return the options of a topic: those that the topic overrides first."""
    found = [
        TopicOption(name=one.name, value=one.value, source=one.source, secret=one.sensitive) for one in options.values()
    ]
    return sorted(found, key=lambda one: (one.source != "topic", one.source == "default", one.name))


def groups_by_topic(groups: Iterable[GroupFinding]) -> dict[str, list[TopicGroup]]:
    """Return for each topic the groups that have offsets or members on it, the largest lag first."""
    found: dict[str, list[TopicGroup]] = defaultdict(list)
    for group in groups:
        of_topics: dict[str, list[Any]] = defaultdict(list)
        for one in group.partitions:
            of_topics[one.topic].append(one)
        for topic, partitions in of_topics.items():
            lags = [one.lag for one in partitions if one.lag is not None]
            found[topic].append(
                TopicGroup(
                    group=group.group,
                    health=group.health,
                    state=group.state,
                    members=len({one.owner.member_id for one in partitions if one.owner is not None}),
                    partitions=len(partitions),
                    lag=sum(lags) if lags else None,
                    lag_unknown=len(partitions) - len(lags),
                )
            )
    for rows in found.values():
        rows.sort(key=lambda row: (row.lag is None, -(row.lag or 0), row.group))
    return found


def end_sums(partitions: Mapping[str, Sequence[TopicPartitionState]]) -> dict[str, int]:
    """Return the sum of the log ends of each topic, if all are known."""
    ends = {name: total(row.log_end_offset for row in rows) for name, rows in partitions.items()}
    return {name: end for name, end in ends.items() if end is not None}


def _span(row: TopicPartitionState) -> int | None:
    if row.log_start_offset is None or row.log_end_offset is None:
        return None
    return row.log_end_offset - row.log_start_offset


def _value(options: Mapping[str, ConfigEntry] | None, name: str) -> str | None:
    return options[name].value if options is not None and name in options else None
