"""Rebalance of a classic group: begin and end the join phase; drop the rebalance after a failed append.

The rules: protocol/groups.md#rebalances.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.coordinator.classic.group import ClassicGroup, generation_of
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.round import Round, refuse_join, refuse_parked, refuse_sync
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import (
    ClientIdentity,
    MemberArrived,
    MemberRemoved,
    Removal,
    RoundClosed,
    RoundDropped,
    RoundOpened,
    Trigger,
    Vitals,
)
from kohort.coordinator.outcome import CancelTimer, Outcome, Reply, SetTimer, TimerKey
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupResponse, JoinGroupResponseMember


def keep_session(group: ClassicGroup, member: Member, ctx: Context, out: Outcome) -> None:
    member.renew_session(ctx.now_ms)
    out.timers.append(SetTimer(TimerKey("session", group.group_id, member.member_id), member.expires_at_ms))


def open_round(
    group: ClassicGroup, ctx: Context, out: Outcome, trigger: Trigger, arrived: Member | None = None
) -> None:
    """Begin a rebalance: all members of the group must rejoin. ``arrived``: member whose JoinGroup caused it."""
    rebalance = group.round
    if rebalance.state is GroupState.COMPLETING_REBALANCE:
        _drop_assignments(group, ctx, out)
    out.timers.append(CancelTimer(TimerKey("sync", group.group_id)))
    rebalance.pending_sync.clear()
    rebalance.last_to_sync = None
    rebalance.initial = rebalance.state is GroupState.EMPTY
    rebalance.new_member_added = False
    rebalance.move_to(GroupState.PREPARING_REBALANCE, ctx.now_ms)
    rebalance.opened_at_ms = ctx.now_ms
    timeout_ms = rebalance.rebalance_timeout_ms()
    if rebalance.initial:
        rebalance.delay_ms = ctx.config.group_initial_rebalance_delay_ms
        rebalance.remaining_ms = max(timeout_ms - rebalance.delay_ms, 0)
        timeout_ms = rebalance.delay_ms
    opened = RoundOpened(
        at_ms=ctx.now_ms,
        group=group.group_id,
        trigger=trigger,
        from_generation=rebalance.generation_id,
        members=tuple(m.identity for m in rebalance.members.values()),
        timeout_ms=timeout_ms,
        initial=rebalance.initial,
    )
    out.journal.append(opened)
    if arrived is not None:
        note_arrival(group, ctx, out, arrived)
    if rebalance.all_joined and not rebalance.initial:
        close_round(group, ctx, out)
    else:
        out.timers.append(SetTimer(TimerKey("round", group.group_id), ctx.now_ms + timeout_ms))


def _drop_assignments(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    for member in group.round.members.values():
        member.assignment = b""
        if member.sync is not None:
            out.replies.append(refuse_sync(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            keep_session(group, member, ctx, out)


def note_arrival(group: ClassicGroup, ctx: Context, out: Outcome, member: Member, vitals: Vitals | None = None) -> None:
    assert member.join is not None
    arrived = MemberArrived(
        at_ms=ctx.now_ms,
        group=group.group_id,
        member=member.identity,
        after_ms=ctx.now_ms - group.round.opened_at_ms,
        new=member.is_new,
        reason=getattr(member.join.message, "reason", None),
        api_version=member.join.api_version,
        vitals=vitals,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        software=member.join.software,
    )
    out.journal.append(arrived)


def maybe_close_round(group: ClassicGroup, ctx: Context, out: Outcome, *, cut_delay: bool = False) -> None:
    """End the join phase if all members have joined and the initial rebalance delay is over.

    ``cut_delay``: do not wait for the end of the initial rebalance delay.
    """
    rebalance = group.round
    if (
        rebalance.state is GroupState.PREPARING_REBALANCE
        and rebalance.all_joined
        and (cut_delay or not rebalance.initial)
    ):
        close_round(group, ctx, out)


def on_round_timer(group: ClassicGroup, ctx: Context) -> Outcome:
    """End the join phase after the rebalance timeout or the initial rebalance delay.

    If new members joined during the initial delay, extend the delay instead.
    """
    rebalance, out = group.round, Outcome()
    if rebalance.state is not GroupState.PREPARING_REBALANCE:
        return out
    if rebalance.initial and rebalance.new_member_added and rebalance.remaining_ms:
        rebalance.new_member_added = False
        delay_ms = min(ctx.config.group_initial_rebalance_delay_ms, rebalance.remaining_ms)
        rebalance.remaining_ms = max(rebalance.remaining_ms - rebalance.delay_ms, 0)
        rebalance.delay_ms = delay_ms
        out.timers.append(SetTimer(TimerKey("round", group.group_id), ctx.now_ms + delay_ms))
        return out
    close_round(group, ctx, out)
    return out


def close_round(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    """End the join phase with the members that sent JoinGroup: begin a generation, or make the group empty.

    Dynamic members without a JoinGroup are removed; static members stay (protocol/groups.md#static-members). If no
    member sent a JoinGroup, the group waits one more rebalance timeout for its static members.
    """
    rebalance = group.round
    for late in [m for m in rebalance.members.values() if m.join is None and not m.is_static]:
        remove_member(group, ctx, out, late.member_id, "join_timeout")
    if rebalance.members and not rebalance.awaiting_join:
        # A client may send a rebalance timeout of 0 or less, but the timer needs at least 1 ms.
        timeout_ms = max(rebalance.rebalance_timeout_ms(), 1)
        out.timers.append(SetTimer(TimerKey("round", group.group_id), ctx.now_ms + timeout_ms))
        return
    out.timers.append(CancelTimer(TimerKey("round", group.group_id)))
    rebalance.generation_id = group.next_generation_id()
    rebalance.initial = False
    if rebalance.members:
        _begin_generation(group, ctx, out)
    else:
        _become_empty(group, ctx, out)


def _become_empty(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    rebalance = group.round
    rebalance.protocol_name = None
    rebalance.leader = None
    rebalance.move_to(GroupState.EMPTY, ctx.now_ms)
    rebalance.parse_subscriptions()
    _note_closed(group, ctx, out)
    out.records.append(GroupWritten(group.group_id, generation_of(rebalance)))


def _begin_generation(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    rebalance = group.round
    if rebalance.leader is None or rebalance.members[rebalance.leader].join is None:
        rebalance.leader = next(m.member_id for m in rebalance.members.values() if m.join is not None)
    rebalance.protocol_name = rebalance.vote()
    rebalance.parse_subscriptions()
    counts = ((topic, ctx.topics.partition_count(topic)) for topic in sorted(rebalance.subscribed_topics or ()))
    rebalance.partition_counts = {topic: count or 0 for topic, count in counts}
    rebalance.fenced.clear()
    rebalance.move_to(GroupState.COMPLETING_REBALANCE, ctx.now_ms)
    _note_closed(group, ctx, out)
    for member in rebalance.members.values():
        member.is_new = False
        member.longest_gap_ms = 0
        rebalance.pending_sync[member.member_id] = None
        keep_session(group, member, ctx, out)
        request = rebalance.take_join(member)
        if request is not None:
            out.replies.append(Reply(request, joined(rebalance, member)))
    out.timers.append(SetTimer(TimerKey("sync", group.group_id), ctx.now_ms + rebalance.rebalance_timeout_ms()))


def _note_closed(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    rebalance = group.round
    closed = RoundClosed(
        at_ms=ctx.now_ms,
        group=group.group_id,
        generation=rebalance.generation_id,
        members=tuple(m.identity for m in rebalance.members.values()),
        leader=rebalance.leader,
        protocol_type=rebalance.protocol_type,
        protocol=rebalance.protocol_name,
        took_ms=ctx.now_ms - rebalance.opened_at_ms,
    )
    out.journal.append(closed)


def joined(rebalance: Round, member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=rebalance.generation_id,
        protocol_type=rebalance.protocol_type,
        protocol_name=rebalance.protocol_name,
        leader=rebalance.leader or "",
        member_id=member.member_id,
        members=members_for_leader(rebalance) if rebalance.leader == member.member_id else [],
    )


def members_for_leader(rebalance: Round) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.metadata_of(rebalance.protocol_name)
        )
        for m in rebalance.members.values()
    ]


class RemovalRequest(NamedTuple):
    """Journaled fields of a request that removes a member. ``by``: client that sent it; None: the member itself."""

    reason: str | None = None
    api_version: int | None = None
    by: ClientIdentity | None = None


NO_REQUEST: Final = RemovalRequest()


def remove_member(
    group: ClassicGroup, ctx: Context, out: Outcome, member_id: str, why: Removal, request: RemovalRequest = NO_REQUEST
) -> Member:
    """Remove a member and refuse its unanswered requests. The caller then begins a rebalance or ends the join phase."""
    member = group.round.remove(member_id)
    out.timers.append(CancelTimer(TimerKey("session", group.group_id, member_id)))
    if member.join is not None:
        out.replies.append(refuse_join(member.join, ErrorCode.UNKNOWN_MEMBER_ID, ""))
        member.join = None
    if member.sync is not None:
        out.replies.append(refuse_sync(member.sync, ErrorCode.UNKNOWN_MEMBER_ID))
        member.sync = None
    removed = MemberRemoved(
        at_ms=ctx.now_ms,
        group=group.group_id,
        member=member.identity,
        why=why,
        reason=request.reason,
        api_version=request.api_version,
        by=request.by,
        vitals=member.vitals(ctx),
    )
    out.journal.append(removed)
    return member


def after_removal(group: ClassicGroup, ctx: Context, out: Outcome, trigger: Trigger) -> None:
    """Rebalance the group after a member's removal. A running join phase ends if it waited for that member only."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        open_round(group, ctx, out, trigger)
    else:
        maybe_close_round(group, ctx, out)


def begin_sessions(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    rebalance = group.round
    group.last_generation_id = max(group.last_generation_id, rebalance.generation_id)
    counts = ((topic, ctx.topics.partition_count(topic)) for topic in sorted(rebalance.subscribed_topics or ()))
    rebalance.partition_counts = {topic: count or 0 for topic, count in counts}
    for member in rebalance.members.values():
        keep_session(group, member, ctx, out)


def drop_round(group: ClassicGroup, ctx: Context, code: ErrorCode) -> Outcome:
    """Drop the rebalance after a failed append: refuse unanswered requests, return to the persisted generation.

    Members that already received the failed generation must rejoin at once: a member's generation must not decrease.
    """
    out = Outcome()
    generation_id = group.round.generation_id
    refuse_parked(group.round.members.values(), code, out)
    cancel_timers(group, out)
    group.round = Round.of(group.persisted, ctx.now_ms)
    out.journal.append(RoundDropped(at_ms=ctx.now_ms, group=group.group_id, error=code.name, generation=generation_id))
    announced = group.last_generation_id
    begin_sessions(group, ctx, out)
    if group.state is GroupState.STABLE and (announced > group.round.generation_id or group.has_no_leader):
        open_round(group, ctx, out, Trigger(event="append_failed", error=code.name))
    return out


def cancel_timers(group: ClassicGroup, out: Outcome) -> None:
    group_id = group.group_id
    out.timers += [CancelTimer(TimerKey("round", group_id)), CancelTimer(TimerKey("sync", group_id))]
    out.timers += [CancelTimer(TimerKey("pending", group_id, m)) for m in group.round.pending_join]
    out.timers += [CancelTimer(TimerKey("session", group_id, m)) for m in group.round.members]
