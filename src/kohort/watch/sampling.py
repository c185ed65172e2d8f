"""Snapshots of a cluster or of its groups, and the racks of replicas.

Committed offsets are requested before log ends, so no lag is negative. The timestamp of a partition's next unread
record costs one lookup, so the number and the duration of these lookups are limited. An unknown value is None, with a
reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from kohort.client.admin.model import FirstRecord, LogEnds, PartitionOffset
from kohort.client.admin.operations import Results
from kohort.errors import ApiError, ErrorCode, KohortError, ProtocolError
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.metrics.cluster import BrokerPlace, ClusterSnapshot, PartitionState, TopicState
from kohort.model import NO_EPOCH, OffsetAndMetadata, TopicPartition
from kohort.pattern import Pattern
from kohort.wire.consumer_protocol import parse_subscription

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription, GroupListing, MemberDescription, TopicDescription


ENDS_AT_ONCE: Final = 10_000
LOOKUPS_AT_ONCE: Final = 500
READABLE: Final = ("", "classic", "consumer")
"""Group types with committed offsets; share and streams groups (KIP-932, KIP-1071) are not sampled."""
MISSING: Final = "the topic or partition does not exist"
REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MISSING,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorised to describe the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorised to describe the group",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log does not have the offset",
}


@dataclass(frozen=True, slots=True)
class SamplingLimits:
    """Limits of a sample.

    A sample takes up to ``append_times`` timestamp lookups within ``append_ms``; 0 means no lookups. ``timeout_ms`` is
    the timeout of each request.
    """

    append_times: int = 1000
    append_ms: int = 2000
    timeout_ms: int = 15_000


@dataclass(slots=True)
class GroupSample:
    """Snapshots of groups, in order of their group ids. ``errors`` has the error of each group without a snapshot."""

    groups: list[GroupSnapshot]
    errors: dict[str, KohortError] = field(default_factory=dict)
    descriptions: dict[str, GroupDescription] = field(default_factory=dict)
    """Description of each group (key: group id), except the groups in ``errors``."""
    unknown_waits: int = 0
    """Number of committed offsets whose time lag is unknown, because a limit was reached or a lookup failed."""


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """Listed groups. ``errors`` has the error of each broker that failed (key: node id)."""

    groups: list[GroupListing]
    errors: dict[int, KohortError]


def list_all_groups(admin: Admin, timeout_ms: int) -> ListedGroups:
    """List the groups of all brokers that respond. Raises the error of one broker if no broker responds."""
    listed = admin.list_groups_by_broker(timeout_ms=timeout_ms)
    responses = [listed[node_id] for node_id in listed if node_id not in listed.errors]
    if not responses:
        listed.check()
    groups = sorted((one for groups in responses for one in groups), key=lambda one: one.group_id)
    return ListedGroups(groups, dict(listed.errors))


Places = dict[TopicPartition, TopicPartition]
"""One object for each partition. Many snapshots share these objects, which saves memory."""


def sample_groups(
    admin: Admin, groups: Iterable[str], limits: SamplingLimits | None = None, places: Places | None = None
) -> GroupSample:
    """Return snapshots of the named groups. Missing or unauthorised groups are in ``errors``.

    With ``places``, snapshots reuse the partition objects of earlier snapshots. Raises the error of the admin client if
    no broker responds.
    """
    bounds = limits or SamplingLimits()
    names = list(dict.fromkeys(groups))
    if not names:
        return GroupSample([])
    described = admin.describe_groups(names, timeout_ms=bounds.timeout_ms)
    found = {name: described[name] for name in names if name not in described.errors}
    offsets = admin.list_offsets_of_groups(found, timeout_ms=bounds.timeout_ms)
    at_ms = time.time_ns() // 1_000_000
    matched = _matched(admin, found.values(), bounds)
    known = (*_partition_counts(admin, found.values(), matched, bounds), matched)
    interned = {} if places is None else places
    committed = {name: _committed(offsets, name) for name in found}
    needed = {name: _wanted(about, committed[name], known, interned) for name, about in found.items()}
    all_partitions = list(dict.fromkeys(tp for partitions in needed.values() for tp in partitions))
    ends = _ends(admin, all_partitions, bounds)
    snapshots = [
        _snapshot(
            about, at_ms, known, tuple(_partition(tp, committed[name].get(tp), ends) for tp in needed[name]), interned
        )
        for name, about in sorted(found.items())
    ]
    refused = {name: _reason(error) for name, error in offsets.errors.items()}
    snapshots = [msgspec.structs.replace(s, error=refused[s.group]) if s.group in refused else s for s in snapshots]
    sample = GroupSample(snapshots, dict(described.errors), found)
    _add_append_times(admin, sample, bounds)
    return sample


def _ends(
    admin: Admin, partitions: Sequence[TopicPartition], bounds: SamplingLimits
) -> Results[TopicPartition, LogEnds]:
    ends: Results[TopicPartition, LogEnds] = Results()
    for at in range(0, len(partitions), ENDS_AT_ONCE):
        found = admin.list_ends(partitions[at : at + ENDS_AT_ONCE], timeout_ms=bounds.timeout_ms)
        for tp in found:
            if tp in found.errors:
                ends.refuse(tp, found.errors[tp])
            else:
                ends.add(tp, found[tp])
    return ends


def missing_values(snapshot: GroupSnapshot) -> str | None:
    """Return the reason why a snapshot lacks offsets of its group; None if the snapshot is complete."""
    if snapshot.error is not None:
        return f"offsets of group {snapshot.group!r}: {snapshot.error}"
    reasons = [p.error for p in snapshot.partitions if p.error is not None and p.error != MISSING]
    if not reasons:
        return None
    many = f"{len(reasons)} partition{'s' * (len(reasons) != 1)}"
    return f"{many} of group {snapshot.group!r}: {reasons[0]}"


def _reason(error: KohortError) -> str:
    return REASONS.get(error.code, str(error)) if isinstance(error, ApiError) else str(error)


Offsets = Mapping[TopicPartition, OffsetAndMetadata | None]


def _committed(offsets: Results[str, Results[TopicPartition, OffsetAndMetadata | None]], name: str) -> Offsets:
    if name in offsets.errors:
        return {}
    of_group = offsets[name]
    return {tp: of_group[tp] for tp in of_group if tp not in of_group.errors}


Matched = Mapping[str, tuple[str, ...] | None]
KnownTopics = tuple[Mapping[str, int], Mapping[str, bytes], Matched]
"""Partition counts of the groups' topics, ids of these topics, and topics that match each subscription pattern."""


def _matched(admin: Admin, groups: Iterable[GroupDescription], bounds: SamplingLimits) -> Matched:
    """Return the topics that match each subscription pattern; None for a pattern that is too expensive to match."""
    regexes = sorted({member.topic_regex for g in groups for member in g.members if member.topic_regex})
    names = [topic.name for topic in admin.list_topics(timeout_ms=bounds.timeout_ms)] if regexes else []
    found: dict[str, tuple[str, ...] | None] = {}
    for regex in regexes:
        try:
            pattern = Pattern(regex)
            found[regex] = tuple(name for name in names if pattern.fullmatch(name))
        except ApiError:
            found[regex] = None
    return found


def _partition_counts(
    admin: Admin, groups: Iterable[GroupDescription], matched: Matched, bounds: SamplingLimits
) -> tuple[dict[str, int], dict[str, bytes]]:
    topics = sorted({topic for g in groups for m in g.members for topic in _topics_of(m, matched)})
    if not topics:
        return {}, {}
    found_at = admin.describe_topics(topics, timeout_ms=bounds.timeout_ms)
    known = [name for name in found_at if name not in found_at.errors]
    ids = {name: found_at[name].topic_id for name in known if any(found_at[name].topic_id)}
    return {name: len(found_at[name].partitions) for name in known}, ids


def _topics_of(member: MemberDescription, matched: Matched) -> set[str]:
    return {*member.topics, *(matched.get(member.topic_regex or "") or ()), *(tp.topic for tp in member.assignment)}


def _wanted(about: GroupDescription, committed: Offsets, known: KnownTopics, interned: Places) -> list[TopicPartition]:
    counts, _, matched = known
    subscribed = {t for m in about.members for t in (*m.topics, *(matched.get(m.topic_regex or "") or ()))}
    found = {
        *committed,
        *(tp for member in about.members for tp in member.assignment),
        *(TopicPartition(topic, n) for topic in subscribed for n in range(counts.get(topic, 0))),
    }
    return sorted(interned.setdefault(tp, tp) for tp in found)


def _partition(
    tp: TopicPartition, at: OffsetAndMetadata | None, ends: Results[TopicPartition, LogEnds]
) -> PartitionSnapshot:
    committed, metadata = (None, "") if at is None else (at.offset, at.metadata)
    leader_epoch = None if at is None or at.leader_epoch == NO_EPOCH else at.leader_epoch
    log_start, last_stable, log_end = (None, None, None) if tp in ends.errors else ends[tp]
    error = ends.errors.get(tp)
    return PartitionSnapshot(
        partition=tp,
        committed=committed,
        metadata=metadata,
        leader_epoch=leader_epoch,
        log_start=log_start,
        log_end=log_end,
        last_stable=last_stable,
        error=None if error is None else _reason(error),
        deleted=isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


def _snapshot(
    about: GroupDescription, at_ms: int, known: KnownTopics, partitions: tuple[PartitionSnapshot, ...], interned: Places
) -> GroupSnapshot:
    counts, ids, matched = known
    topics = {topic for member in about.members for topic in _topics_of(member, matched)}
    return GroupSnapshot(
        at_ms=at_ms,
        group=about.group_id,
        state=about.state,
        protocol="consumer" if about.group_type == "consumer" else "classic",
        protocol_type=about.protocol_type,
        assignor=about.assignor or None,
        coordinator_id=about.coordinator_id,
        epoch=None if about.group_epoch == NO_EPOCH else about.group_epoch,
        assignment_epoch=None if about.assignment_epoch == NO_EPOCH else about.assignment_epoch,
        members=tuple(_member(member, matched, interned) for member in about.members),
        partitions=partitions,
        partition_counts={topic: counts[topic] for topic in sorted(topics) if topic in counts},
        topic_ids={topic: ids[topic] for topic in sorted(topics) if topic in ids},
    )


def _member(member: MemberDescription, matched: Matched, interned: Places) -> MemberSnapshot:
    return MemberSnapshot(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.group_instance_id,
        topics=member.topics,
        assignment=tuple(sorted(interned.setdefault(tp, tp) for tp in member.assignment)),
        target=None if member.target_assignment is None else tuple(sorted(member.target_assignment)),
        epoch=None if member.member_epoch == NO_EPOCH else member.member_epoch,
        protocol="consumer" if member.member_type == "consumer" else "classic",
        rack=member.rack_id or _subscribed_rack(member.raw_metadata),
        regex=member.topic_regex,
        matched=matched.get(member.topic_regex) if member.topic_regex else None,
    )


def _subscribed_rack(subscription: bytes) -> str | None:
    """Return the rack in the subscription of a classic consumer (KIP-881)."""
    try:
        return parse_subscription(subscription).rack_id if subscription else None
    except ProtocolError:
        return None


def _add_append_times(admin: Admin, sample: GroupSample, bounds: SamplingLimits) -> None:
    needed: dict[PartitionOffset, tuple[int, bool]] = {}
    for snapshot in sample.groups:
        for p in snapshot.partitions:
            place = next_position(p)
            if place is not None and p.log_end is not None and p.last_stable is not None:
                lag = p.log_end - place.offset
                if lag > needed.get(place, (0, False))[0]:
                    needed[place] = (lag, place.offset >= p.last_stable)
    order = sorted(needed, key=lambda place: -needed[place][0])[: bounds.append_times if bounds.append_ms else 0]
    found_at = _times_of(admin, order, {place for place in order if needed[place][1]}, bounds)
    sample.unknown_waits = len(needed) - len(found_at)
    if found_at:
        sample.groups = [_with_times(snapshot, found_at) for snapshot in sample.groups]


def next_position(p: PartitionSnapshot) -> PartitionOffset | None:
    if p.committed is None or p.log_end is None or p.last_stable is None:
        return None
    at = max(p.committed, p.log_start or 0)
    return PartitionOffset(p.partition, at) if at < p.log_end else None


def _times_of(
    admin: Admin, places: Sequence[PartitionOffset], unstable: set[PartitionOffset], bounds: SamplingLimits
) -> dict[PartitionOffset, FirstRecord | None]:
    """Look up the first record at or after each offset (None: no such record); stop after ``append_ms``.

    Offsets in ``unstable`` are not below the last stable offset, so they are looked up with read_uncommitted.
    """
    found_at: dict[PartitionOffset, FirstRecord | None] = {}
    deadline = time.monotonic() + bounds.append_ms / 1000
    for at in range(0, len(places), LOOKUPS_AT_ONCE):
        for level, chosen in (
            ("read_committed", [p for p in places[at : at + LOOKUPS_AT_ONCE] if p not in unstable]),
            ("read_uncommitted", [p for p in places[at : at + LOOKUPS_AT_ONCE] if p in unstable]),
        ):
            left_ms = int((deadline - time.monotonic()) * 1000)
            if not chosen:
                continue
            if left_ms <= 0:
                return found_at
            try:
                found = admin.first_records(chosen, isolation_level=level, timeout_ms=left_ms)
            except KohortError:  # after a failed lookup, for example a timeout, the remaining timestamps stay unknown
                return found_at
            found_at |= {place: found[place] for place in chosen if place not in found.errors}
    return found_at


def _with_times(snapshot: GroupSnapshot, found_at: Mapping[PartitionOffset, FirstRecord | None]) -> GroupSnapshot:
    partitions = []
    for p in snapshot.partitions:
        place = next_position(p)
        if place is not None and place in found_at:
            record = found_at[place]
            appended_ms = None if record is None or record.timestamp_ms < 0 else record.timestamp_ms
            p = msgspec.structs.replace(p, committed_record_at_ms=appended_ms, waiting=record is not None)
        partitions.append(p)
    return msgspec.structs.replace(snapshot, partitions=tuple(partitions))


def racks_of(admin: Admin, topics: Iterable[str], *, timeout_ms: int) -> dict[TopicPartition, frozenset[str]]:
    """Return the racks of each partition's replicas; empty if brokers have no racks."""
    racks = {node.node_id: node.rack for node in admin.describe_cluster(timeout_ms=timeout_ms).nodes if node.rack}
    needed = sorted(topics)
    if not racks or not needed:
        return {}
    found_at = admin.describe_topics(needed, timeout_ms=timeout_ms)
    return {
        TopicPartition(name, p.partition): frozenset(racks[node] for node in p.replicas if node in racks)
        for name in found_at
        if name not in found_at.errors
        for p in found_at[name].partitions
    }


NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ClusterSample:
    cluster: ClusterSnapshot
    errors: dict[str, KohortError] = field(default_factory=dict)
    """Error of each group (key: group id) or broker (key: ``broker 3``)."""


def sample_cluster(admin: Admin, limits: SamplingLimits) -> ClusterSample:
    """Return the brokers, topics and groups of a cluster, for a metrics page.

    Unauthorised topics are left out. An unauthorised group has an error. Raises the error of the admin client if no
    broker responds.
    """
    began = time.monotonic()
    about = admin.describe_cluster(timeout_ms=limits.timeout_ms)
    names = [topic.name for topic in admin.list_topics(internal=True, timeout_ms=limits.timeout_ms)]
    described = admin.describe_topics(names, timeout_ms=limits.timeout_ms)
    topics = [described[name] for name in sorted(names) if name not in described.errors]
    places = [
        TopicPartition(topic.name, one.partition) for topic in topics for one in topic.partitions if one.leader_id >= 0
    ]
    ends = admin.list_ends(places, timeout_ms=limits.timeout_ms)
    listed = list_all_groups(admin, limits.timeout_ms)
    sample = sample_groups(admin, [one.group_id for one in listed.groups if one.group_type in READABLE], limits)
    failed = {f"broker {node_id}": error for node_id, error in listed.errors.items()}
    snapshot = ClusterSnapshot(
        at_ms=time.time_ns() // 1_000_000,
        cluster_id=about.cluster_id,
        brokers=tuple(BrokerPlace(node.node_id, f"{node.host}:{node.port}") for node in about.nodes),
        topics=tuple(_topic(topic, ends) for topic in topics),
        groups=tuple(sample.groups),
        took_ms=(time.monotonic() - began) * 1000,
    )
    return ClusterSample(snapshot, failed | sample.errors)


def _topic(topic: TopicDescription, ends: Results[TopicPartition, LogEnds]) -> TopicState:
    parts = []
    for one in topic.partitions:
        place = TopicPartition(topic.name, one.partition)
        known = None if place in ends.errors or one.leader_id == NO_NODE else ends[place]
        parts.append(
            PartitionState(
                partition=one.partition,
                leader=None if one.leader_id == NO_NODE else one.leader_id,
                replicas=len(one.replicas),
                in_sync=len(one.isr),
                first_replica=one.replicas[0] if one.replicas else None,
                log_start=None if known is None else known.log_start,
                log_end=None if known is None else known.log_end,
            )
        )
    return TopicState(topic.name, tuple(parts))
