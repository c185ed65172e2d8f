"""What is asked of the cluster when somebody wants it: members in full, records, nodes, topics, what-if, pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kohort.console.answers import span_of_causes
from kohort.console.routes import AskedRoute, AskedSpan, Route
from kohort.console.sources import ConsoleSource
from kohort.errors import KohortError, UsageError
from kohort.insight.names import printable
from kohort.model import TopicPartition, uuid_to_text
from kohort.results.cluster import TopicRow, TopicsDescribed, TopicsListed
from kohort.results.console import CausesSoftware, ConsoleClients, ConsoleNodes, ConsolePipelines
from kohort.results.groups import GroupDescribed, GroupPeek, GroupWhatIf
from kohort.results.pipelines import PipelineStatus
from kohort.verbs.client_reports import (
    BACK_MS,
    client_rows,
    journaled_software,
    lacks_software,
    read_reports,
    software_of_triggers,
)
from kohort.verbs.cluster import describe_topic, node_rows
from kohort.verbs.describing import coordinators, described
from kohort.verbs.groups import ends_of, is_missing, no_such_group
from kohort.verbs.peeking import Ends, peek, position_of
from kohort.verbs.pipelines import pipeline_status
from kohort.verbs.predicting import check_scenario, predict
from kohort.verbs.refusals import NothingThere
from kohort.watch.asking import ADMIN_MS
from kohort.watch.sampling import SamplingLimits, sample_groups

if TYPE_CHECKING:
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.telemetry.report import ClientReport
    from kohort.watch.opening import WatchClients

MOST_RECORDS: Final = 100
CAUSES_BACK_MS: Final = 3_600_000
"""Age of pushed client metrics to consider."""


class WhatIfAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a what-if: as the options of ``kohort group what-if``."""

    add: int | None = None
    remove: list[str] = []
    kill: list[str] = []
    assignor: str | None = None
    partitions: dict[str, int] | list[str] = []
    rolling_restart: bool = False
    static: bool = False
    to_consumer: bool = False
    in_rate: float | None = None
    drain_rate: float | None = None
    compare: bool = False


class ChangesAtCluster:
    """Asks; every call takes the clients to ask with, which may be those of whoever is logged in."""

    def __init__(self, source: ConsoleSource, pipelines: Sequence[Path] = (), *, is_whole: bool = True) -> None:
        """``is_whole`` is False where the source is narrowed to the rights of a user."""
        self._source, self._pipelines, self._is_whole = source, pipelines, is_whole

    def describe(self, clients: WatchClients, group: str) -> GroupDescribed:
        """Return a group with the targets and epochs of its members."""
        with clients.admin() as admin:
            sample = sample_groups(admin, [group], SamplingLimits(append_times=0, timeout_ms=ADMIN_MS))
            if (error := sample.errors.get(group)) is not None:
                raise no_such_group(admin, group) if is_missing(error) else error
            about = sample.descriptions[group]
            return described(about, sample.groups[0], coordinators(admin).get(about.coordinator_id))

    def clients(self, clients: WatchClients | None, group: str) -> ConsoleClients:
        """Return what is known of the clients of a group's members: their software, limits, polls; and why not."""
        found = self._source.groups(None).groups.get(group)
        if found is None:
            raise NothingThere(f"there is no group {printable(group)!r}")
        entries = self._source.entries(group, None)
        reports, why = _reports(clients, BACK_MS)
        return client_rows(group, [member.who for member in found.members], entries, reports, why)

    def software(
        self, clients: WatchClients | None, since_ms: int | None, group: str | None, span: AskedSpan
    ) -> CausesSoftware:
        """Return which software the members run that rebalances began with, as the journal has it, or as their clients
        pushed it within the hour before now."""
        found = span_of_causes(self._source, since_ms, group, span).every
        groups = {this.group for this in found if this.trigger is not None}
        journal = {name: journaled_software(self._source.entries(name, span.end_ms)) for name in groups}
        asks = any(lacks_software(this, journal) for this in found)
        reports, why = _reports(clients, CAUSES_BACK_MS) if asks else ([], "")
        return software_of_triggers(found, journal, reports, why)

    def nodes(self, clients: WatchClients) -> ConsoleNodes:
        """Return the nodes, and which groups each coordinates."""
        groups: dict[str, list[str]] = {}
        for name, found in sorted(self._source.groups(None).groups.items()):
            if found.coordinator_id is not None:
                groups.setdefault(str(found.coordinator_id), []).append(name)
        with clients.admin() as admin:
            return ConsoleNodes(nodes=node_rows(admin)[0], groups=groups)

    def topics(self, clients: WatchClients) -> TopicsListed:
        """Return all topics, the brokers' own, too."""
        with clients.admin() as admin:
            listed = admin.list_topics(internal=True, timeout_ms=ADMIN_MS)
            told = admin.describe_topics([topic.name for topic in listed], timeout_ms=ADMIN_MS) if listed else {}
            rows = [
                TopicRow(
                    name=name,
                    topic_id=uuid_to_text(told[name].topic_id),
                    partitions=len(told[name].partitions),
                    internal=told[name].internal,
                )
                for name in sorted(topic.name for topic in listed)
                if name not in getattr(told, "errors", {})
            ]
        return TopicsListed(topics=rows)

    def topic(self, clients: WatchClients, name: str) -> TopicsDescribed:
        """Return one topic."""
        with clients.admin() as admin:
            return TopicsDescribed(
                topics=[describe_topic(admin, admin.describe_topics([name], timeout_ms=ADMIN_MS)[name])]
            )

    def peek(self, clients: WatchClients, group: str, place: TopicPartition, around: tuple[int, int]) -> GroupPeek:
        """Return the records around what a group has committed: so many before it, and from it on."""
        with clients.admin() as admin:
            ends = position_of(admin, group, place)
        before, after = (min(MOST_RECORDS, max(0, n)) for n in around)
        return peek(clients.consumer, group, place, ends, range(-before, after))

    def peek_topic(self, clients: WatchClients, place: TopicPartition, at: int | None, many: int) -> GroupPeek:
        """Return records of a partition: from an offset on, else the last; ``committed`` is where they begin."""
        with clients.admin() as admin:
            starts, ends = ends_of(admin, [place], "earliest"), ends_of(admin, [place], "latest")
        if place not in ends:
            raise NothingThere(f"{place}: no such partition")
        first = max(starts[place], ends[place] - many if at is None else min(at, ends[place]))
        known = Ends(first, starts[place], ends[place])
        return peek(clients.consumer, "", place, known, range(min(MOST_RECORDS, max(0, many))))

    def what_if(self, clients: WatchClients | None, group: str, asked: WhatIfAsked) -> GroupWhatIf:
        """Return what a change would do; asks for racks, and executes nothing. Raises UsageError for what cannot be
        asked, NothingThere for a group that was not seen."""
        from kohort.insight.what_if.scenario import Assumptions
        from kohort.watch.sampling import racks_of

        options = _as_options(asked)
        check_scenario(options)
        looks, racks = self._looks(group), {}
        if clients is not None:
            with clients.admin() as admin:
                racks = racks_of(admin, looks[-1].partition_counts, timeout_ms=ADMIN_MS)
        return predict(looks, racks, options, Assumptions(), compare=asked.compare)

    def _looks(self, group: str) -> Sequence[GroupSnapshot]:
        from kohort.console.journal import told_snapshot

        looks = self._source.snapshots(group)
        if looks:
            return looks
        now_ms = self._source.now_ms()
        told = told_snapshot(group, self._source.entries(group, None), now_ms)
        if told is None:
            raise NothingThere(f"there is no group {group!r}")
        return [told[0]]

    def pipelines(self) -> ConsolePipelines:
        """Return the pipelines whose files were given; of one that cannot be read, why."""
        return ConsolePipelines(pipelines=[self._visible(_pipeline_or_why(path)) for path in self._pipelines])

    def _visible(self, found: PipelineStatus) -> PipelineStatus:
        places = [(source.group, {name.rpartition("-")[0] for name in source.partitions}) for source in found.sources]
        if self._is_whole or (places and all(self._source.sees(group, topics) for group, topics in places)):
            return found
        why = "you may not describe all groups and topics of its sources, or they could not be read"
        return PipelineStatus(name=found.name, sources=[], last_run=None, running=None, batches=[], problem=why)


def _reports(clients: WatchClients | None, back_ms: int) -> tuple[list[ClientReport] | None, str]:
    if clients is None:
        return None, "a recording has no metrics of clients beside its journal"
    try:
        with clients.admin() as admin:
            return read_reports(clients.consumer, admin, back_ms), "this cluster keeps no metrics of clients (KIP-714)"
    except KohortError as error:  # the rest is told all the same
        return None, f"metrics of clients could not be read: {error}"


def _pipeline_or_why(path: Path) -> PipelineStatus:
    try:
        return pipeline_status(path)
    except (KohortError, OSError) as error:
        return PipelineStatus(name=path.name, sources=[], last_run=None, running=None, batches=[], problem=str(error))


def _as_options(asked: WhatIfAsked) -> Mapping[str, Any]:
    options: dict[str, Any] = msgspec.structs.asdict(asked)
    if isinstance(asked.partitions, dict):
        options["partitions"] = [f"{topic}={count}" for topic, count in asked.partitions.items()]
    return options


def _peek(cluster: ChangesAtCluster, asked: AskedRoute, names: Sequence[str]) -> GroupPeek:
    around = asked.number("before", 3) or 0, asked.number("after", 3) or 0
    return cluster.peek(asked.with_clients(), names[0], _place(asked, asked.params.get("topic", "")), around)


def _peek_topic(cluster: ChangesAtCluster, asked: AskedRoute, names: Sequence[str]) -> GroupPeek:
    place, many = _place(asked, names[0]), asked.number("count", 20) or 0
    return cluster.peek_topic(asked.with_clients(), place, asked.number("offset"), many)


def _place(asked: AskedRoute, topic: str) -> TopicPartition:
    number = asked.number("partition")
    if not topic or number is None or number >= 2**31:
        raise UsageError("say which topic and which partition")
    return TopicPartition(topic, number)


CLUSTER: Final[tuple[Route[ChangesAtCluster], ...]] = (
    Route("groups/{}/describe", lambda c, q, names: c.describe(q.with_clients(), names[0])),
    Route("groups/{}/clients", lambda c, q, names: c.clients(q.clients_or_none(), names[0]), exported=True),
    Route("groups/{}/peek", _peek),
    Route(
        "groups/{}/what-if", lambda c, q, names: c.what_if(q.clients_or_none(), names[0], q.told(WhatIfAsked)), "POST"
    ),
    Route(
        "groups/{}/causes/software",
        lambda c, q, names: c.software(q.clients_or_none(), q.number("from"), names[0], q.span),
        exported=True,
    ),
    Route(
        "causes/software",
        lambda c, q, _: c.software(q.clients_or_none(), q.number("since"), q.group, q.span),
        exported=True,
    ),
    Route("nodes", lambda c, q, _: c.nodes(q.with_clients())),
    Route("topics", lambda c, q, _: c.topics(q.with_clients())),
    Route("topics/{}", lambda c, q, names: c.topic(q.with_clients(), names[0])),
    Route("topics/{}/peek", _peek_topic),
    Route("pipelines", lambda c, _, __: c.pipelines()),
)
