"""OffsetDelete (47) v0, KIP-496; and what a deleted topic leaves behind (protocol/offsets.md#deletion)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply, TopicsView
from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def decide_offset_delete(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Write tombstones for offsets that nobody works on; deleting what is not there is no error."""
    message = request.message
    assert isinstance(message, OffsetDeleteRequest)
    is_busy = _users_of(groups, message.group_id)
    offsets = groups.offsets.get(message.group_id)
    out = Outcome(round_changed=False)
    held = set(offsets.deletable()) if offsets is not None else set()
    results = []
    for topic in message.topics:
        count = ctx.topics.partition_count(topic.name)
        busy = is_busy(topic.name)
        partitions = []
        for p in topic.partitions:
            code = ErrorCode.NONE
            if count is None or not 0 <= p.partition_index < count:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif busy:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif (topic.name, p.partition_index) in held:
                out.records.append(OffsetCommitted(message.group_id, topic.name, p.partition_index, None))
            partitions.append(OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=code))
        results.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    out.replies.append(Reply(request, OffsetDeleteResponse(topics=results)))
    return out


def _users_of(groups: Groups, group_id: str) -> Callable[[str], bool]:
    """Return what tells whether members of a group subscribe to a topic. Raises GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP
    where nobody can tell."""
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if consumer is not None:
        return consumer.subscribes_to
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is GroupState.EMPTY:
        return lambda _topic: False
    if group.round.protocol_type != PROTOCOL_TYPE:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "what its members work on is not known")
    return group.round.subscribes_to


def refuse_offset_delete(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer an OffsetDelete with ``code``."""
    return Reply(asked, OffsetDeleteResponse(error_code=code))


def decide_topics_deleted(group_id: str, offsets: GroupOffsets, names: Collection[str], topics: TopicsView) -> Outcome:
    """Write tombstones for every offset in the deleted topics, but not for those of a topic made anew under the
    name."""
    out = Outcome(round_changed=False)
    for topic, partition in offsets.deletable():
        if topic not in names:
            continue
        current, value = topics.topic_id(topic), offsets.get(topic, partition)
        if current is None or value is None or value.topic_id != current:
            out.records.append(OffsetCommitted(group_id, topic, partition, None))
    return out
