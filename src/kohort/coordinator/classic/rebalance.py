"""Open a round, close it, drop it: what JoinGroup, LeaveGroup and the timers have in common.

The rules: protocol/groups.md#rebalances.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.coordinator.classic.group import ClassicGroup, generation_of
from kohort.coordinator.classic.member import Member, pending_timer, round_timer, session_timer, sync_timer
from kohort.coordinator.classic.round import Round, refuse_join, refuse_parked, refuse_sync
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import (
    MemberArrived,
    MemberRemoved,
    Removal,
    RoundClosed,
    RoundDropped,
    RoundOpened,
    Trigger,
    Vitals,
    Who,
)
from kohort.coordinator.outcome import CancelTimer, Outcome, Reply, SetTimer
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupResponse, JoinGroupResponseMember


def keep_session(group: ClassicGroup, member: Member, ctx: Context, out: Outcome) -> None:
    member.renew_session(ctx.now_ms)
    out.timers.append(SetTimer(session_timer(group.group_id, member.member_id), member.expires_at_ms))


def open_round(
    group: ClassicGroup, ctx: Context, out: Outcome, trigger: Trigger, arrived: Member | None = None
) -> None:
    """Have every member join again. ``arrived``: member whose parked JoinGroup is the reason."""
    this = group.round
    if this.state is GroupState.COMPLETING_REBALANCE:
        _give_up_assignments(group, ctx, out)
    out.timers.append(CancelTimer(sync_timer(group.group_id)))
    this.pending_sync.clear()
    this.last_to_sync = None
    this.initial = this.state is GroupState.EMPTY
    this.new_member_added = False
    this.move_to(GroupState.PREPARING_REBALANCE, ctx.now_ms)
    this.opened_at_ms = ctx.now_ms
    timeout_ms = this.rebalance_timeout_ms()
    if this.initial:
        this.delay_ms = ctx.config.group_initial_rebalance_delay_ms
        this.remaining_ms = max(timeout_ms - this.delay_ms, 0)
        timeout_ms = this.delay_ms
    out.journal.append(
        RoundOpened(
            at_ms=ctx.now_ms,
            group=group.group_id,
            trigger=trigger,
            from_generation=this.generation_id,
            members=tuple(m.who for m in this.members.values()),
            timeout_ms=timeout_ms,
            initial=this.initial,
        )
    )
    if arrived is not None:
        note_arrival(group, ctx, out, arrived)
    if this.all_joined and not this.initial:
        close_round(group, ctx, out)
    else:
        out.timers.append(SetTimer(round_timer(group.group_id), ctx.now_ms + timeout_ms))


def _give_up_assignments(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    for member in group.round.members.values():
        member.assignment = b""
        if member.sync is not None:
            out.replies.append(refuse_sync(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            keep_session(group, member, ctx, out)


def note_arrival(group: ClassicGroup, ctx: Context, out: Outcome, member: Member, vitals: Vitals | None = None) -> None:
    """Journal a parked JoinGroup. ``vitals``: those before it, of a member that joined late."""
    assert member.join is not None
    out.journal.append(
        MemberArrived(
            at_ms=ctx.now_ms,
            group=group.group_id,
            who=member.who,
            after_ms=ctx.now_ms - group.round.opened_at_ms,
            new=member.is_new,
            reason=getattr(member.join.message, "reason", None),
            api_version=member.join.api_version,
            vitals=vitals,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            software=member.join.software,
        )
    )


def maybe_close_round(group: ClassicGroup, ctx: Context, out: Outcome, *, cut_delay: bool = False) -> None:
    """Close the round if everyone is here. The initial delay is waited out, unless ``cut_delay`` says otherwise."""
    this = group.round
    if this.state is GroupState.PREPARING_REBALANCE and this.all_joined and (cut_delay or not this.initial):
        close_round(group, ctx, out)


def on_round_timer(group: ClassicGroup, ctx: Context) -> Outcome:
    """Close the round after the initial delay or the rebalance timeout; while new members come, the delay is
    extended."""
    this, out = group.round, Outcome()
    if this.state is not GroupState.PREPARING_REBALANCE:
        return out
    if this.initial and this.new_member_added and this.remaining_ms:
        this.new_member_added = False
        delay_ms = min(ctx.config.group_initial_rebalance_delay_ms, this.remaining_ms)
        this.remaining_ms = max(this.remaining_ms - this.delay_ms, 0)
        this.delay_ms = delay_ms
        out.timers.append(SetTimer(round_timer(group.group_id), ctx.now_ms + delay_ms))
        return out
    close_round(group, ctx, out)
    return out


def close_round(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    """End the join phase: a new generation of those who are here, or an empty group.

    Dynamic members that did not come are removed, static ones stay (protocol/groups.md#static-members). If nobody came,
    static members are waited for once more.
    """
    this = group.round
    for late in [m for m in this.members.values() if m.join is None and not m.is_static]:
        remove_member(group, ctx, out, late.member_id, "join_timeout")
    if this.members and not this.awaiting_join:
        timeout_ms = max(this.rebalance_timeout_ms(), 1)  # what clients ask for is not checked: time must move on
        out.timers.append(SetTimer(round_timer(group.group_id), ctx.now_ms + timeout_ms))
        return
    out.timers.append(CancelTimer(round_timer(group.group_id)))
    this.generation_id = group.next_generation_id()
    this.initial = False
    if this.members:
        _begin_generation(group, ctx, out)
    else:
        _become_empty(group, ctx, out)


def _become_empty(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    this = group.round
    this.protocol_name = None
    this.leader = None
    this.move_to(GroupState.EMPTY, ctx.now_ms)
    this.learn_subscriptions()
    _note_closed(group, ctx, out)
    out.records.append(GroupWritten(group.group_id, generation_of(this)))


def _begin_generation(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    this = group.round
    if this.leader is None or this.members[this.leader].join is None:
        this.leader = next(m.member_id for m in this.members.values() if m.join is not None)
    this.protocol_name = this.vote()
    this.learn_subscriptions()
    counts = ((topic, ctx.topics.partition_count(topic)) for topic in sorted(this.subscribed_topics or ()))
    this.partition_counts = {topic: count or 0 for topic, count in counts}
    this.fenced.clear()
    this.move_to(GroupState.COMPLETING_REBALANCE, ctx.now_ms)
    _note_closed(group, ctx, out)
    for member in this.members.values():
        member.is_new = False
        member.longest_gap_ms = 0
        this.pending_sync.add(member.member_id)
        keep_session(group, member, ctx, out)
        asked = this.take_join(member)
        if asked is not None:
            out.replies.append(Reply(asked, joined(this, member)))
    out.timers.append(SetTimer(sync_timer(group.group_id), ctx.now_ms + this.rebalance_timeout_ms()))


def _note_closed(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    this = group.round
    out.journal.append(
        RoundClosed(
            at_ms=ctx.now_ms,
            group=group.group_id,
            generation=this.generation_id,
            members=tuple(m.who for m in this.members.values()),
            leader=this.leader,
            protocol_type=this.protocol_type,
            protocol=this.protocol_name,
            took_ms=ctx.now_ms - this.opened_at_ms,
        )
    )


def joined(this: Round, member: Member) -> JoinGroupResponse:
    """Return the answer to a JoinGroup: with every member's metadata for the leader alone."""
    return JoinGroupResponse(
        generation_id=this.generation_id,
        protocol_type=this.protocol_type,
        protocol_name=this.protocol_name,
        leader=this.leader or "",
        member_id=member.member_id,
        members=members_for_leader(this) if this.leader == member.member_id else [],
    )


def members_for_leader(this: Round) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.metadata_of(this.protocol_name)
        )
        for m in this.members.values()
    ]


class RemovalRequest(NamedTuple):
    """The request that removes a member, for the journal; ``by`` where another than the member sent it."""

    reason: str | None = None
    api_version: int | None = None
    by: Who | None = None


NOBODY_ASKED: Final = RemovalRequest()


def remove_member(
    group: ClassicGroup, ctx: Context, out: Outcome, member_id: str, why: Removal, asked: RemovalRequest = NOBODY_ASKED
) -> Member:
    """Take a member out of the round; what it has parked is refused. The caller decides what follows from it."""
    member = group.round.remove(member_id)
    out.timers.append(CancelTimer(session_timer(group.group_id, member_id)))
    if member.join is not None:
        out.replies.append(refuse_join(member.join, ErrorCode.UNKNOWN_MEMBER_ID, ""))
        member.join = None
    if member.sync is not None:
        out.replies.append(refuse_sync(member.sync, ErrorCode.UNKNOWN_MEMBER_ID))
        member.sync = None
    out.journal.append(
        MemberRemoved(
            at_ms=ctx.now_ms,
            group=group.group_id,
            who=member.who,
            why=why,
            reason=asked.reason,
            api_version=asked.api_version,
            by=asked.by,
            vitals=member.vitals(ctx),
        )
    )
    return member


def after_removal(group: ClassicGroup, ctx: Context, out: Outcome, trigger: Trigger) -> None:
    """Open a round for the remaining members, or close the open round if it is complete now."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        open_round(group, ctx, out, trigger)
    else:
        maybe_close_round(group, ctx, out)


def begin_sessions(group: ClassicGroup, ctx: Context, out: Outcome) -> None:
    """Give every member of a round that was just read from the log its full session (protocol/groups.md#loading)."""
    this = group.round
    group.last_generation_id = max(group.last_generation_id, this.generation_id)
    counts = ((topic, ctx.topics.partition_count(topic)) for topic in sorted(this.subscribed_topics or ()))
    this.partition_counts = {topic: count or 0 for topic, count in counts}
    for member in this.members.values():
        keep_session(group, member, ctx, out)


def drop_round(group: ClassicGroup, ctx: Context, code: ErrorCode) -> Outcome:
    """Refuse all who wait and go back to what is written, as a failover would: records could not be appended.

    If members were told of a later generation than the written one, they must join again at once, so that no member
    sees a generation go back.
    """
    out = Outcome()
    generation_id = group.round.generation_id
    refuse_parked(group.round.members.values(), code, out)
    forget_timers(group, out)
    group.round = Round.of(group.written, ctx.now_ms)
    out.journal.append(RoundDropped(at_ms=ctx.now_ms, group=group.group_id, error=code.name, generation=generation_id))
    announced = group.last_generation_id
    begin_sessions(group, ctx, out)
    if group.state is GroupState.STABLE and (announced > group.round.generation_id or group.is_unled):
        open_round(group, ctx, out, Trigger(event="append_failed", error=code.name))
    return out


def forget_timers(group: ClassicGroup, out: Outcome) -> None:
    group_id = group.group_id
    out.timers += [CancelTimer(round_timer(group_id)), CancelTimer(sync_timer(group_id))]
    out.timers += [CancelTimer(pending_timer(group_id, m)) for m in group.round.pending_join]
    out.timers += [CancelTimer(session_timer(group_id, m)) for m in group.round.members]
