"""The groups that a broker of this process coordinates, as snapshots: from its state, without asking anybody.

What a member says of itself is a blob that is read once, as long as it stays the same. The time of a record is that of
its batch's first one, which costs a look at a header; where the segment is closed, only so many are opened in a look.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from kohort.broker.state import BrokerState
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import Held
from kohort.coordinator.offsets.state import NO_OFFSETS, GroupOffsets
from kohort.errors import ProtocolError, StorageError
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.log.partition import PartitionLog
from kohort.log.segment import Segment
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics

BLOBS_KEPT: Final = 10_000
BLOB_KEPT_BYTES: Final = 2_048
TIMES_KEPT: Final = 200_000
COLD_MOST = 100
"""Closed segments that are opened in one look."""
LATE_MOST: Final = 1_000
AT_ONCE: Final = 50
"""How many partitions are looked at before others may work."""


class ColdLooks:
    """Which closed segments may be opened in a look: to open one reads its indexes from the disk, while everybody
    waits. Those for which there is no room are put off; they go first in the next look."""

    def __init__(self) -> None:
        self._late: dict[Hashable, None] = {}
        self._again: list[Hashable] = []
        self._new: list[Hashable] = []
        self._left = self._left_for_new = COLD_MOST
        self.opened = 0
        """So far, in this look."""

    def begin(self) -> None:
        self._late = dict.fromkeys((self._again + self._new)[:LATE_MOST])
        self._again, self._new = [], []
        self._left, self._left_for_new, self.opened = COLD_MOST, COLD_MOST - len(self._late), 0

    def may_open(self, what: Hashable) -> bool:
        """Tell whether a segment may be opened for something, and take it that it is."""
        is_late = what in self._late
        if self._left <= 0 or (not is_late and self._left_for_new <= 0):
            (self._again if is_late else self._new).append(what)
            return False
        self._left -= 1
        self._left_for_new -= not is_late
        self.opened += 1
        return True


class RecordTimes:
    """When the records at offsets were written, as they were found before: a look at a log costs 20 microseconds."""

    def __init__(self, group: str, cold: ColdLooks) -> None:
        self._group = group
        self._cold = cold
        self._known: dict[TopicPartition, tuple[int, int | None]] = {}

    def of(self, log: PartitionLog, offset: int) -> int | None:
        """Return the time of the first record of the batch that holds ``offset``, or follows it; None if nothing tells
        it, or not in this look."""
        known = self._known.get(log.tp)
        if known is not None and known[0] == offset:
            return known[1]
        segments = _from(log, offset)
        if not segments[0].is_open and not self._cold.may_open((self._group, log.tp)):
            return None
        if len(self._known) >= TIMES_KEPT:
            self._known.clear()
        found = _time_in(segments, offset)
        self._known[log.tp] = offset, found
        return found


def _from(log: PartitionLog, offset: int) -> Sequence[Segment]:
    segments = log.segments
    return segments[max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1) :]


def _time_in(segments: Sequence[Segment], offset: int) -> int | None:
    try:
        for segment in segments:
            for _, header in segment.headers(offset):
                return header.base_timestamp if header.base_timestamp >= 0 else None
    except StorageError:
        return None
    return None


class OwnGroups:
    """The groups of one broker, looked at again and again."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._cold = ColdLooks()
        self._times: dict[str, RecordTimes] = {}
        """By group: each is somewhere else in a log."""

    def look(self, at_ms: int) -> Iterator[GroupSnapshot | None]:
        """Yield the groups one by one, and None in between where one takes longer."""
        seen = set()
        self._cold.begin()
        for _, groups in list(self._state.coordinator.all_groups()):
            for group_id in [*groups.by_id, *groups.consumer]:
                classic, modern = groups.by_id.get(group_id), groups.consumer.get(group_id)
                if classic is not None:
                    whole, members = self._classic(classic, at_ms)
                elif modern is not None:
                    whole, members = self._modern(modern, at_ms)
                else:
                    continue  # it went meanwhile
                seen.add(group_id)
                yield None
                yield from self._filled(whole, members, groups.offsets.get(group_id, NO_OFFSETS))
        for gone in self._times.keys() - seen:
            del self._times[gone]

    def _filled(
        self, whole: GroupSnapshot, members: Iterator[MemberSnapshot], offsets: GroupOffsets
    ) -> Iterator[GroupSnapshot | None]:
        there: list[MemberSnapshot] = []
        for member in members:
            there.append(member)
            if len(there) % AT_ONCE == 0:
                yield None
        subscribed = set[str]().union(*(member.topics for member in there))
        assigned = {place.topic for member in there for place in member.assignment}
        counts = self._counts(subscribed | assigned | offsets.by_topic.keys())
        found: dict[TopicPartition, PartitionSnapshot] = {}
        for many, place in enumerate(_places(there, offsets, {topic: counts.get(topic, 0) for topic in subscribed})):
            opened = self._cold.opened
            if place not in found:
                found[place] = self._partition(whole.group, place, offsets)
            if many % AT_ONCE == AT_ONCE - 1 or self._cold.opened > opened:
                yield None
        yield replace(whole, members=tuple(there), partitions=tuple(found.values()), partition_counts=counts)

    def _classic(self, group: ClassicGroup, at_ms: int) -> tuple[GroupSnapshot, Iterator[MemberSnapshot]]:
        this = group.round
        read = this.protocol_type == PROTOCOL_TYPE
        whole = GroupSnapshot(
            at_ms=at_ms,
            group=group.group_id,
            state=this.state.value,
            protocol="classic",
            protocol_type=this.protocol_type,
            assignor=this.protocol_name,
            coordinator_id=self._state.node.node_id,
            epoch=this.generation_id,
        )
        members = (
            MemberSnapshot(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host,
                instance_id=member.instance_id,
                topics=_subscribed(member.metadata_of(this.protocol_name)) if read else (),
                assignment=_assigned(member.assignment) if read else (),
            )
            for member in list(this.members.values())
        )
        return whole, members

    def _modern(self, group: ModernGroup, at_ms: int) -> tuple[GroupSnapshot, Iterator[MemberSnapshot]]:
        whole = GroupSnapshot(
            at_ms=at_ms,
            group=group.group_id,
            state=group.state.value,
            protocol="consumer",
            assignor=group.assignor_votes.most_common(1)[0][0] if group.assignor_votes else None,
            coordinator_id=self._state.node.node_id,
            epoch=group.epoch,
            assignment_epoch=group.target_epoch,
        )
        members = (
            MemberSnapshot(
                member_id=member.member_id,
                client_id=member.said.client_id,
                host=member.said.client_host,
                instance_id=member.instance_id,
                topics=tuple(sorted(group.topics_of(member.said))),
                assignment=self._named(member.current.assigned),
                epoch=member.epoch,
                protocol="classic" if member.speaks_classic else "consumer",
            )
            for member in list(group.members.values())
        )
        return whole, members

    def _named(self, held: Held) -> tuple[TopicPartition, ...]:
        topics = ((self._state.topics.by_id(topic_id), partitions) for topic_id, partitions in held.items())
        return tuple(
            TopicPartition(topic.name, p) for topic, partitions in topics if topic is not None for p in partitions
        )

    def _partition(self, group_id: str, place: TopicPartition, offsets: GroupOffsets) -> PartitionSnapshot:
        kept = offsets.get(*place)
        log = self._state.topics.log(*place)
        committed = None if kept is None else kept.offset
        if log is None:
            return PartitionSnapshot(
                partition=place, committed=committed, error="there is no such partition", gone=True
            )
        time = None
        if committed is not None and committed < log.high_watermark:
            times = self._times.get(group_id)
            if times is None:
                times = self._times[group_id] = RecordTimes(group_id, self._cold)
            time = times.of(log, max(committed, log.log_start_offset))
        return PartitionSnapshot(
            partition=log.tp,  # the one that stays: there may be very many
            committed=committed,
            committed_at_ms=None if kept is None else kept.commit_timestamp,
            log_start=log.log_start_offset,
            log_end=log.high_watermark,
            last_stable=log.last_stable_offset,
            committed_record_at_ms=time,
        )

    def _counts(self, names: Iterable[str]) -> dict[str, int]:
        known = ((name, self._state.topics.get(name)) for name in names)
        return {name: len(topic.partitions) for name, topic in known if topic is not None}


def _places(
    members: Iterable[MemberSnapshot], offsets: GroupOffsets, subscribed: Mapping[str, int]
) -> Iterator[TopicPartition]:
    for member in members:
        yield from member.assignment
    for topic, partitions in list(offsets.by_topic.items()):
        for partition in list(partitions):
            yield TopicPartition(topic, partition)
    for topic, count in subscribed.items():
        for partition in range(count):
            yield TopicPartition(topic, partition)


def _subscribed(blob: bytes) -> tuple[str, ...]:
    return _subscribed_small(blob) if len(blob) <= BLOB_KEPT_BYTES else _subscribed_small.__wrapped__(blob)


@lru_cache(BLOBS_KEPT)
def _subscribed_small(blob: bytes) -> tuple[str, ...]:
    try:
        return tuple(parse_subscribed_topics(blob))
    except ProtocolError:
        return ()


def _assigned(blob: bytes) -> tuple[TopicPartition, ...]:
    return _assigned_small(blob) if len(blob) <= BLOB_KEPT_BYTES else _assigned_small.__wrapped__(blob)


@lru_cache(BLOBS_KEPT)
def _assigned_small(blob: bytes) -> tuple[TopicPartition, ...]:
    try:
        return tuple(parse_assignment(blob).partitions) if blob else ()
    except ProtocolError:
        return ()
