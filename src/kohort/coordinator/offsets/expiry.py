"""Which offsets have expired (protocol/offsets.md#expiry, KIP-211), and which groups go with their last one."""

from __future__ import annotations

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.ending import group_tombstones
from kohort.coordinator.consumer.group import ConsumerGroupState, ModernGroup
from kohort.coordinator.consumer.timers import regex_timer
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupDeleted
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import CancelTimer, Outcome
from kohort.coordinator.records import GroupWritten, OffsetCommitted
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages.group_records import OffsetCommitValue


def decide_expiry_in_consumer(group: ModernGroup, offsets: GroupOffsets, ctx: Context) -> Outcome:
    """Write tombstones for what has expired in a consumer group, and for the group itself if it is empty and nothing is
    left."""
    out = Outcome(round_changed=False)
    retention_ms = ctx.config.offsets_retention_minutes * 60_000
    used: dict[str, bool] = {}
    kept = 0
    for topic, partition, value in offsets:
        if topic not in used:
            used[topic] = group.subscribes_to(topic)
        if (
            used[topic]
            or offsets.is_pending(topic, partition)
            or ctx.now_ms < expires_at_ms(value, value.commit_timestamp, retention_ms)
        ):
            kept += 1
        else:
            out.records.append(OffsetCommitted(group.group_id, topic, partition, None))
    if not kept and offsets.pending is None and group.state is ConsumerGroupState.EMPTY:
        out.records += group_tombstones(group)
        out.timers.append(CancelTimer(regex_timer(group.group_id)))
        out.journal.append(GroupDeleted(at_ms=ctx.now_ms, group=group.group_id, why="expired"))
    return out


def expires_at_ms(value: OffsetCommitValue, since_ms: int, retention_ms: int) -> int:
    """Return when an offset expires that nobody has needed since ``since_ms``; it may have a moment of its own."""
    return value.expire_timestamp if value.expire_timestamp != -1 else since_ms + retention_ms


def decide_expiry(group: ClassicGroup, offsets: GroupOffsets, ctx: Context) -> Outcome:
    """Write tombstones for what has expired, and for the group itself if it is empty and nothing is left."""
    out = Outcome(round_changed=False)
    retention_ms = ctx.config.offsets_retention_minutes * 60_000
    kept = 0
    for topic, partition, value in offsets:
        if not offsets.is_pending(topic, partition) and has_expired(group, topic, value, ctx.now_ms, retention_ms):
            out.records.append(OffsetCommitted(group.group_id, topic, partition, None))
        else:
            kept += 1
    if not kept and offsets.pending is None and group.state is GroupState.EMPTY and not group.round.pending_join:
        if group.written is not None:
            out.records.append(GroupWritten(group.group_id, None))
        if out.records:
            out.journal.append(GroupDeleted(at_ms=ctx.now_ms, group=group.group_id, why="expired"))
    return out


def has_expired(group: ClassicGroup, topic: str, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    """Tell whether nobody has needed the offset for the retention time; from when that counts depends on the group."""
    if value.expire_timestamp != -1:
        return now_ms >= value.expire_timestamp
    this = group.round
    since_ms = value.commit_timestamp
    if not this.protocol_type:
        if this.state is not GroupState.EMPTY:
            return False
    elif this.state is GroupState.EMPTY:
        if this.state_since_ms != -1:
            since_ms = this.state_since_ms
    elif this.protocol_type != PROTOCOL_TYPE or this.state is not GroupState.STABLE or this.subscribes_to(topic):
        return False
    return now_ms - since_ms >= retention_ms
