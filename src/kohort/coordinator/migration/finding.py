"""Which modern group a heartbeat is for: one that is there, a new one, or one that a classic group becomes.

The rules: protocol/consumer-groups.md#heartbeats, protocol/consumer-groups.md#both-protocols-in-one-group.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.parked_requests import refuse_parked
from kohort.coordinator.classic.rebalance import forget_timers
from kohort.coordinator.consumer.finding import not_found, other_kind
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.heartbeat import decide_consumer_heartbeat
from kohort.coordinator.consumer.leaving import decide_departure
from kohort.coordinator.context import Context
from kohort.coordinator.migration.upgrade import upgrade
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, Outcome
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_consumer import JOINING_EPOCH, ConsumerGroupHeartbeatRequest


def decide_heartbeat_or_upgrade(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Decide on a ConsumerGroupHeartbeat; one that joins a classic group converts it. Raises ApiError."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    group_id = message.group_id
    if message.member_epoch < JOINING_EPOCH:
        return decide_departure(groups, request, ctx)
    group, classic = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if group is not None:
        return decide_consumer_heartbeat(groups, group, request, ctx)
    if message.member_epoch != JOINING_EPOCH:
        raise not_found(f"Consumer group {group_id} not found." if classic is None else other_kind(group_id))
    if classic is None:
        founded = ModernGroup(group_id)
        decided = decide_consumer_heartbeat(groups, founded, request, ctx)
        return replace(decided, then=partial(_go_on, groups, founded, decided))
    return _in_place_of(groups, classic, request, ctx)


def _in_place_of(groups: Groups, classic: ClassicGroup, request: GroupRequest, ctx: Context) -> Outcome:
    """Decide on the heartbeat as if the group were a modern one already, and only then let the classic one go."""
    converted = Outcome(round_changed=False)
    if classic.round.members:
        group = upgrade(classic, request, ctx, converted)
    else:
        group = ModernGroup(classic.group_id)
        if classic.written is not None:
            converted.records.append(GroupWritten(classic.group_id, None))
    decided = decide_consumer_heartbeat(groups, group, request, ctx)
    # From here on nothing is refused: what waits in the round is, and the round is dropped if nothing can be written.
    refuse_parked(classic.round.members.values(), ErrorCode.REBALANCE_IN_PROGRESS, converted)
    forget_timers(classic, converted)
    classic.round.pending_join.clear()
    return Outcome(
        records=[*converted.records, *decided.records],
        replies=[*converted.replies, *decided.replies],
        timers=[*converted.timers, *decided.timers],
        journal=[*converted.journal, *decided.journal],
        then=partial(_go_on, groups, group, decided),
    )


def _go_on(groups: Groups, was: ModernGroup, decided: Outcome) -> Outcome:
    """Keep what is known of the members beside what is written of them, now that the group is there."""
    group = groups.consumer[was.group_id]
    group.presence.update((m, presence) for m, presence in was.presence.items() if m in group.members)
    group.soft = was.soft
    if group.soft.topics is not None:
        # A static member that is replaced may have been the last one to subscribe to a topic.
        group.soft.topics.changed.update(group.subscribed_names(), group.soft.topics.found)
    return Outcome(round_changed=False) if decided.then is None else decided.then()
