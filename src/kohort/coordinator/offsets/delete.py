"""OffsetDelete (47) v0 (KIP-496). This module also deletes expired offsets and the offsets of deleted topics.

The rules: protocol/offsets.md#deletion, protocol/offsets.md#expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.fencing import group_tombstones
from kohort.coordinator.consumer.group import ConsumerGroupState, ModernGroup
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupDeleted
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, TimerKey, TopicsView
from kohort.coordinator.records import GroupWritten, OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages import offsets as wire
from kohort.wire.messages.group_records import OffsetCommitValue


def decide_offset_delete(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Delete committed offsets of topics that no member subscribes to. A partition without an offset gets no error."""
    message = request.message_as(wire.OffsetDeleteRequest)
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
            partitions.append(wire.OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=code))
        results.append(wire.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    out.replies.append(Reply(request, wire.OffsetDeleteResponse(topics=results)))
    return out


def _users_of(groups: Groups, group_id: str) -> Callable[[str], bool]:
    """Return a function that returns True for the topics that members of the group subscribe to.

    Raises ApiError if the members' topics are unknown, or if the group does not exist.
    """
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if consumer is not None:
        return consumer.subscribes_to
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is GroupState.EMPTY:
        return lambda _topic: False
    if group.round.protocol_type != PROTOCOL_TYPE:
        problem = f"group {group_id!r} has members of another protocol type, so their topics are unknown"
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, problem)
    return group.round.subscribes_to


def refuse_offset_delete(request: GroupRequest, code: ErrorCode) -> Reply:
    return Reply(request, wire.OffsetDeleteResponse(error_code=code))


def decide_topics_deleted(group_id: str, offsets: GroupOffsets, names: Collection[str], topics: TopicsView) -> Outcome:
    """Delete a group's committed offsets of deleted topics. If a topic was recreated, keep offsets of the new topic."""
    out = Outcome(round_changed=False)
    for topic, partition in offsets.deletable():
        if topic not in names:
            continue
        current, value = topics.topic_id(topic), offsets.get(topic, partition)
        if current is None or value is None or value.topic_id != current:
            out.records.append(OffsetCommitted(group_id, topic, partition, None))
    return out


def decide_expiry_in_consumer(group: ModernGroup, offsets: GroupOffsets, ctx: Context) -> Outcome:
    """Delete a consumer group's expired offsets. If the group then has no members and no offsets, delete it, too."""
    out = Outcome(round_changed=False)
    retention_ms = ctx.config.offsets_retention_minutes * 60_000
    kept = 0
    for topic, partition, value in offsets:
        expires_at_ms = (
            value.expire_timestamp if value.expire_timestamp != -1 else value.commit_timestamp + retention_ms
        )
        if ctx.now_ms < expires_at_ms or group.subscribes_to(topic) or offsets.is_pending(topic, partition):
            kept += 1
        else:
            out.records.append(OffsetCommitted(group.group_id, topic, partition, None))
    if not kept and offsets.pending is None and group.state is ConsumerGroupState.EMPTY:
        out.records += group_tombstones(group)
        out.timers.append(CancelTimer(TimerKey("regex", group.group_id)))
        out.journal.append(GroupDeleted(at_ms=ctx.now_ms, group=group.group_id, why="expired"))
    return out


def decide_expiry(group: ClassicGroup, offsets: GroupOffsets, ctx: Context) -> Outcome:
    """Delete a classic group's expired offsets. If the group then has no members and no offsets, delete it, too."""
    out = Outcome(round_changed=False)
    retention_ms = ctx.config.offsets_retention_minutes * 60_000
    kept = 0
    for topic, partition, value in offsets:
        if not offsets.is_pending(topic, partition) and has_expired(group, topic, value, ctx.now_ms, retention_ms):
            out.records.append(OffsetCommitted(group.group_id, topic, partition, None))
        else:
            kept += 1
    if not kept and offsets.pending is None and group.state is GroupState.EMPTY and not group.round.pending_join:
        if group.persisted is not None:
            out.records.append(GroupWritten(group.group_id, None))
        if out.records:
            out.journal.append(GroupDeleted(at_ms=ctx.now_ms, group=group.group_id, why="expired"))
    return out


def has_expired(group: ClassicGroup, topic: str, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    """Return True if a committed offset is past its own expiry time or, if it has none, past the retention time."""
    if value.expire_timestamp != -1:
        return now_ms >= value.expire_timestamp
    rebalance = group.round
    since_ms = value.commit_timestamp
    if not rebalance.protocol_type:
        if rebalance.state is not GroupState.EMPTY:
            return False
    elif rebalance.state is GroupState.EMPTY:
        if rebalance.state_since_ms != -1:
            since_ms = rebalance.state_since_ms
    elif (
        rebalance.protocol_type != PROTOCOL_TYPE
        or rebalance.state is not GroupState.STABLE
        or rebalance.subscribes_to(topic)
    ):
        return False
    return now_ms - since_ms >= retention_ms
