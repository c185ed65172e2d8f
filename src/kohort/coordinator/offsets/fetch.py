"""OffsetFetch (9) v1-10: KIP-88, KIP-320, KIP-447, KIP-709 (several groups), topic ids (v10).

The rules: protocol/offsets.md#offsetfetch.

Reads what is written, which is on the log when its request ends. With ``require_stable`` a partition for which a
transaction that is open has committed an offset is refused, so that nobody goes on from the offset before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kohort.coordinator.committing import NO_EPOCH
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest, Reply, TopicsView
from kohort.errors import ApiError, ErrorCode
from kohort.model import NO_UUID
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_WITH_ERROR_CODE = 2
FIRST_WITH_STABLE = 7
FIRST_WITH_GROUPS = 8
FIRST_WITH_TOPIC_IDS = 10
NOTHING = OffsetCommitValue(offset=-1, leader_epoch=-1, metadata="")

Lookup = Callable[[str, str | None, int], GroupOffsets]
"""The offsets of a group, none if there is no such group, for whoever asks: member id (None: nobody in particular) and
epoch. Raises ApiError if this broker cannot say, or that member may not know."""


def answer_fetch(request: GroupRequest, offsets_of: Lookup, topics: TopicsView) -> Reply:
    """Answer with what is committed. An unknown group is no error: nothing is committed."""
    message = request.message
    assert isinstance(message, OffsetFetchRequest)
    if request.api_version >= FIRST_WITH_GROUPS:
        by_id = request.api_version >= FIRST_WITH_TOPIC_IDS
        stable = message.require_stable
        groups = [_group(group, offsets_of, topics, by_id=by_id, stable=stable) for group in message.groups]
        return Reply(request, OffsetFetchResponse(groups=groups))
    try:
        offsets = offsets_of(message.group_id, None, NO_EPOCH)
    except ApiError as error:
        return refuse_offset_fetch(request, error.code)
    stable = request.api_version >= FIRST_WITH_STABLE and message.require_stable
    asked: Iterable[tuple[str, Iterable[int]]]
    if message.topics is None:
        asked = [(topic, sorted(partitions)) for topic, partitions in offsets.by_topic.items()]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in message.topics]
    return Reply(
        request,
        OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=name, partitions=[_partition(p, *_valid(offsets, name, p, topics, stable)) for p in partitions]
                )
                for name, partitions in asked
            ]
        ),
    )


def refuse_offset_fetch(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer an OffsetFetch with ``code``: from v8 with each group, from v2 at the top, before that with each partition
    (protocol/offsets.md#offsetfetch)."""
    message, version = asked.message, asked.api_version
    assert isinstance(message, OffsetFetchRequest)
    if version >= FIRST_WITH_GROUPS:
        groups = [OffsetFetchResponseGroup(group_id=g.group_id, error_code=code) for g in message.groups]
        return Reply(asked, OffsetFetchResponse(groups=groups))
    if version >= FIRST_WITH_ERROR_CODE:
        return Reply(asked, OffsetFetchResponse(error_code=code))
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name, partitions=[_partition(p, NOTHING, code) for p in topic.partition_indexes]
        )
        for topic in message.topics or []
    ]
    return Reply(asked, OffsetFetchResponse(topics=topics))


def _group(
    group: OffsetFetchRequestGroup, offsets_of: Lookup, topics: TopicsView, *, by_id: bool, stable: bool
) -> OffsetFetchResponseGroup:
    try:
        offsets = offsets_of(group.group_id, group.member_id, group.member_epoch)
    except ApiError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    if group.topics is None:
        found = _all_topics(offsets, topics, by_id=by_id, stable=stable)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=found)
    results = []
    for topic in group.topics:
        name = topics.topic_name(topic.topic_id) if by_id else topic.name
        unknown = (NOTHING, ErrorCode.UNKNOWN_TOPIC_ID)
        partitions = [
            _partitions(p, *(unknown if name is None else _valid(offsets, name, p, topics, stable)))
            for p in topic.partition_indexes
        ]
        results.append(OffsetFetchResponseTopics(name=name or "", topic_id=topic.topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=results)


def _all_topics(
    offsets: GroupOffsets, topics: TopicsView, *, by_id: bool, stable: bool
) -> list[OffsetFetchResponseTopics]:
    """Return whatever is committed; by id only topics that exist, since no others have one."""
    results = []
    for name, partitions in offsets.by_topic.items():
        topic_id = topics.topic_id(name)
        if by_id and topic_id is None:
            continue
        found = [_partitions(p, *_valid(offsets, name, p, topics, stable)) for p in sorted(partitions)]
        results.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id or NO_UUID, partitions=found))
    return results


def _valid(
    offsets: GroupOffsets, name: str, partition: int, topics: TopicsView, stable: bool
) -> tuple[OffsetCommitValue, ErrorCode]:
    """Return the offset, unless it was committed for an earlier topic of the same name, or may be about to change."""
    if stable and offsets.is_pending(name, partition):
        return NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    value = offsets.get(name, partition)
    if value is None:
        return NOTHING, ErrorCode.NONE
    topic_id = topics.topic_id(name)
    recreated = topic_id is not None and value.topic_id not in (NO_UUID, topic_id)
    return NOTHING if recreated else value, ErrorCode.NONE


def _partition(index: int, value: OffsetCommitValue, code: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=code,
    )


def _partitions(index: int, value: OffsetCommitValue, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=code,
    )
