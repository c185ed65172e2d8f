"""Snapshots of the groups that a broker of this process coordinates, read from the broker's memory.

The time of a record is the base timestamp of its batch. Opening a closed log segment reads its indexes from the disk,
so a snapshot opens only ``CLOSED_SEGMENTS_MOST`` closed segments.
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
from kohort.coordinator.consumer.reconcile import AssignedPartitions
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
CLOSED_SEGMENTS_MOST = 100
"""Maximum number of closed log segments that one snapshot opens."""
POSTPONED_MOST: Final = 1_000
YIELD_EVERY: Final = 50
"""Number of partitions that are copied before the event loop serves other tasks."""


class ClosedSegmentBudget:
    """Number of closed segments that a snapshot may open: opening one reads the disk and blocks the event loop.

    Lookups beyond this number are postponed. The next snapshot begins with the postponed lookups.
    """

    def __init__(self) -> None:
        self._postponed: dict[Hashable, None] = {}
        self._postponed_again: list[Hashable] = []
        self._postponed_new: list[Hashable] = []
        self._left = self._left_for_new = CLOSED_SEGMENTS_MOST
        self.opened = 0

    def begin(self) -> None:
        self._postponed = dict.fromkeys((self._postponed_again + self._postponed_new)[:POSTPONED_MOST])
        self._postponed_again, self._postponed_new = [], []
        self._left, self.opened = CLOSED_SEGMENTS_MOST, 0
        self._left_for_new = CLOSED_SEGMENTS_MOST - len(self._postponed)

    def may_open(self, key: Hashable) -> bool:
        """Return True if this snapshot may open a closed segment for the lookup ``key``."""
        is_postponed = key in self._postponed
        if self._left <= 0 or (not is_postponed and self._left_for_new <= 0):
            (self._postponed_again if is_postponed else self._postponed_new).append(key)
            return False
        self._left -= 1
        self._left_for_new -= not is_postponed
        self.opened += 1
        return True


class RecordTimes:
    """Cache of the record timestamps at a group's committed offsets. Reading one timestamp takes 20 microseconds."""

    def __init__(self, group: str, budget: ClosedSegmentBudget) -> None:
        self._group = group
        self._budget = budget
        self._known: dict[TopicPartition, tuple[int, int | None]] = {}

    def of(self, log: PartitionLog, offset: int) -> int | None:
        """Return the timestamp of the record batch that contains or follows ``offset``.

        None if the timestamp is unknown, or if the budget does not allow this snapshot to open the segment.
        """
        known = self._known.get(log.tp)
        if known is not None and known[0] == offset:
            return known[1]
        first = bisect_right(log.segments, offset, key=lambda segment: segment.base_offset) - 1
        segments = log.segments[max(0, first) :]
        if not segments[0].is_open and not self._budget.may_open((self._group, log.tp)):
            return None
        if len(self._known) >= TIMES_KEPT:
            self._known.clear()
        found = _time_in(segments, offset)
        self._known[log.tp] = offset, found
        return found


def _time_in(segments: Sequence[Segment], offset: int) -> int | None:
    try:
        for segment in segments:
            for _, header in segment.headers(offset):
                return header.base_timestamp if header.base_timestamp >= 0 else None
    except StorageError:
        return None
    return None


class CoordinatedGroups:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._budget = ClosedSegmentBudget()
        self._times: dict[str, RecordTimes] = {}

    def snapshots(self, at_ms: int) -> Iterator[GroupSnapshot | None]:
        seen = set()
        self._budget.begin()
        for _, groups in list(self._state.coordinator.all_groups()):
            for group_id in [*groups.by_id, *groups.consumer]:
                classic, consumer = groups.by_id.get(group_id), groups.consumer.get(group_id)
                if classic is not None:
                    whole, members = self._classic(classic, at_ms)
                elif consumer is not None:
                    whole, members = self._consumer(consumer, at_ms)
                else:
                    continue  # the group was deleted after the snapshot listed the groups
                seen.add(group_id)
                yield None
                yield from self._filled(whole, members, groups.offsets.get(group_id, NO_OFFSETS))
        for deleted in self._times.keys() - seen:
            del self._times[deleted]

    def _filled(
        self, whole: GroupSnapshot, members: Iterator[MemberSnapshot], offsets: GroupOffsets
    ) -> Iterator[GroupSnapshot | None]:
        present: list[MemberSnapshot] = []
        for member in members:
            present.append(member)
            if len(present) % YIELD_EVERY == 0:
                yield None
        subscribed = set[str]().union(*(member.topics for member in present))
        assigned = {place.topic for member in present for place in member.assignment}
        counts = self._counts(subscribed | assigned | offsets.by_topic.keys())
        found: dict[TopicPartition, PartitionSnapshot] = {}
        for many, place in enumerate(_places(present, offsets, {topic: counts.get(topic, 0) for topic in subscribed})):
            opened = self._budget.opened
            if place not in found:
                found[place] = self._partition(whole.group, place, offsets)
            if many % YIELD_EVERY == YIELD_EVERY - 1 or self._budget.opened > opened:
                yield None
        yield replace(whole, members=tuple(present), partitions=tuple(found.values()), partition_counts=counts)

    def _classic(self, group: ClassicGroup, at_ms: int) -> tuple[GroupSnapshot, Iterator[MemberSnapshot]]:
        rebalance = group.round
        read = rebalance.protocol_type == PROTOCOL_TYPE
        whole = GroupSnapshot(
            at_ms=at_ms,
            group=group.group_id,
            state=rebalance.state.value,
            protocol="classic",
            protocol_type=rebalance.protocol_type,
            assignor=rebalance.protocol_name,
            coordinator_id=self._state.node.node_id,
            epoch=rebalance.generation_id,
        )
        members = (
            MemberSnapshot(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host,
                instance_id=member.instance_id,
                topics=_subscribed(member.metadata_of(rebalance.protocol_name)) if read else (),
                assignment=_assigned(member.assignment) if read else (),
            )
            for member in list(rebalance.members.values())
        )
        return whole, members

    def _consumer(self, group: ModernGroup, at_ms: int) -> tuple[GroupSnapshot, Iterator[MemberSnapshot]]:
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
                client_id=member.metadata.client_id,
                host=member.metadata.client_host,
                instance_id=member.instance_id,
                topics=tuple(sorted(group.topics_of(member.metadata))),
                assignment=self._named(member.current.assigned),
                epoch=member.epoch,
                protocol="classic" if member.is_classic else "consumer",
            )
            for member in list(group.members.values())
        )
        return whole, members

    def _named(self, held: AssignedPartitions) -> tuple[TopicPartition, ...]:
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
                partition=place, committed=committed, error="there is no such partition", deleted=True
            )
        time = None
        if committed is not None and committed < log.high_watermark:
            times = self._times.get(group_id)
            if times is None:
                times = self._times[group_id] = RecordTimes(group_id, self._budget)
            time = times.of(log, max(committed, log.log_start_offset))
        return PartitionSnapshot(
            partition=log.tp,  # all snapshots share one partition object, which saves memory
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
