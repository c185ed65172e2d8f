"""OffsetFetch (9) v1-10: KIP-88, KIP-320, KIP-447, KIP-709 (several groups), topic ids (v10).

The rules: protocol/offsets.md#offsetfetch.

Responses contain persisted offsets. With ``require_stable``, a partition with an uncommitted offset of a transaction
gets an error. So no consumer starts from an older offset while the transaction is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from kohort.coordinator.offsets.committing import NO_EPOCH
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest, Reply, TopicsView
from kohort.errors import ApiError, ErrorCode
from kohort.model import NO_UUID
from kohort.steps import Pace, Steps
from kohort.wire.messages import offsets as wire
from kohort.wire.messages.group_records import OffsetCommitValue

FIRST_WITH_ERROR_CODE = 2
FIRST_WITH_STABLE = 7
FIRST_WITH_GROUPS = 8
FIRST_WITH_TOPIC_IDS = 10
READ_US: Final = 2.5
P = TypeVar("P", wire.OffsetFetchResponsePartition, wire.OffsetFetchResponsePartitions)
NOTHING = OffsetCommitValue(offset=-1, leader_epoch=-1, metadata="")

Lookup = Callable[[str, str | None, int], GroupOffsets]
"""Function that gets group id, member id (or None) and epoch, and returns the group's offsets. Raises ApiError."""


def answer_fetch(request: GroupRequest, offsets_of: Lookup, topics: TopicsView) -> Steps[Reply]:
    """Answer an OffsetFetch with committed offsets. A group that does not exist has no offsets."""
    message = request.message_as(wire.OffsetFetchRequest)
    pace = Pace()
    if request.api_version >= FIRST_WITH_GROUPS:
        reading = _Reading(topics, message.require_stable, pace)
        by_id = request.api_version >= FIRST_WITH_TOPIC_IDS
        groups: list[wire.OffsetFetchResponseGroup] = []
        for group in message.groups:
            found = yield from _group(group, offsets_of, reading, by_id=by_id)
            groups.append(found)
        return Reply(request, wire.OffsetFetchResponse(groups=groups))
    try:
        offsets = offsets_of(message.group_id, None, NO_EPOCH)
    except ApiError as error:
        return refuse_offset_fetch(request, error.code)
    reading = _Reading(topics, request.api_version >= FIRST_WITH_STABLE and message.require_stable, pace)
    requested = None if message.topics is None else [(topic.name, topic.partition_indexes) for topic in message.topics]
    read = []
    for name, partitions in all_of(offsets) if requested is None else requested:
        entries = yield from reading.partitions(offsets, name, partitions, wire.OffsetFetchResponsePartition)
        read.append(wire.OffsetFetchResponseTopic(name=name, partitions=entries))
    return Reply(request, wire.OffsetFetchResponse(topics=read))


def refuse_offset_fetch(request: GroupRequest, code: ErrorCode) -> Reply:
    """Refuse an OffsetFetch: one error per group (from v8 on), per response (v2 to v7) or per partition (v0, v1)."""
    message, version = request.message_as(wire.OffsetFetchRequest), request.api_version
    if version >= FIRST_WITH_GROUPS:
        groups = [wire.OffsetFetchResponseGroup(group_id=g.group_id, error_code=code) for g in message.groups]
        return Reply(request, wire.OffsetFetchResponse(groups=groups))
    if version >= FIRST_WITH_ERROR_CODE:
        return Reply(request, wire.OffsetFetchResponse(error_code=code))
    topics = []
    for topic in message.topics or []:
        partitions = [_refused(wire.OffsetFetchResponsePartition, p, code) for p in topic.partition_indexes]
        topics.append(wire.OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return Reply(request, wire.OffsetFetchResponse(topics=topics))


def _group(
    group: wire.OffsetFetchRequestGroup, offsets_of: Lookup, reading: _Reading, *, by_id: bool
) -> Steps[wire.OffsetFetchResponseGroup]:
    try:
        offsets = offsets_of(group.group_id, group.member_id, group.member_epoch)
    except ApiError as error:
        return wire.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    results = []
    for topic_id, name, partitions in _requested_topics(group, offsets, reading.topics, by_id=by_id):
        if name is None:
            found = [_refused(wire.OffsetFetchResponsePartitions, p, ErrorCode.UNKNOWN_TOPIC_ID) for p in partitions]
        else:
            found = yield from reading.partitions(offsets, name, partitions, wire.OffsetFetchResponsePartitions)
        results.append(wire.OffsetFetchResponseTopics(name=name or "", topic_id=topic_id, partitions=found))
    return wire.OffsetFetchResponseGroup(group_id=group.group_id, topics=results)


def _requested_topics(
    group: wire.OffsetFetchRequestGroup, offsets: GroupOffsets, topics: TopicsView, *, by_id: bool
) -> Iterator[tuple[bytes, str | None, Iterable[int]]]:
    """Yield topic id, topic name (None for an unknown topic id) and partitions of each topic in an OffsetFetch.

    If a request with topic ids asks for all topics, the result omits deleted topics: they have no id.
    """
    if group.topics is None:
        for name, partitions in all_of(offsets):
            topic_id = topics.topic_id(name)
            if topic_id is not None or not by_id:
                yield topic_id or NO_UUID, name, partitions
        return
    for topic in group.topics:
        yield topic.topic_id, topics.topic_name(topic.topic_id) if by_id else topic.name, topic.partition_indexes


def all_of(offsets: GroupOffsets) -> Iterator[tuple[str, list[int]]]:
    """Yield each topic with its committed partitions in ascending order.

    Offsets may change while the caller handles a topic.
    """
    for name in [*offsets.by_topic]:
        yield name, sorted(offsets.by_topic.get(name, ()))


@dataclass(frozen=True, slots=True)
class _Reading:
    topics: TopicsView
    stable: bool
    pace: Pace

    def partitions(self, offsets: GroupOffsets, name: str, numbers: Iterable[int], entry: type[P]) -> Steps[list[P]]:
        found = []
        for p in numbers:
            value, code = _valid(offsets, name, p, self.topics, self.stable)
            found.append(
                entry(
                    partition_index=p,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error_code=code,
                )
            )
            if self.pace.is_due(READ_US):
                yield
        return found


def _refused(entry: type[P], partition: int, code: ErrorCode) -> P:
    return entry(
        partition_index=partition, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
    )


def _valid(
    offsets: GroupOffsets, name: str, partition: int, topics: TopicsView, stable: bool
) -> tuple[OffsetCommitValue, ErrorCode]:
    """Return a partition's committed offset; -1 if the topic was recreated since the commit.

    If ``stable``, a partition with a pending offset of an open transaction gets UNSTABLE_OFFSET_COMMIT.
    """
    if stable and offsets.is_pending(name, partition):
        return NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    value = offsets.get(name, partition)
    if value is None:
        return NOTHING, ErrorCode.NONE
    topic_id = topics.topic_id(name)
    recreated = topic_id is not None and value.topic_id not in (NO_UUID, topic_id)
    return NOTHING if recreated else value, ErrorCode.NONE
