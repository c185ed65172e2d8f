"""Bugs of the group coordinator: rebalances, timers, members, fencing, replay."""

from __future__ import annotations

from typing import Any

from kohort.coordinator.classic import heartbeat, join, rebalance, sync
from kohort.coordinator.classic.group import ClassicGroup, ClassicGroups
from kohort.coordinator.classic.round import Round
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.offsets.delete import decide_expiry
from kohort.coordinator.outcome import Outcome, SetTimer
from kohort.coordinator.records import GroupWritten
from kohort.coordinator.replay import replay_group
from kohort.coordinator.runtime import Coordinator
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import HeartbeatResponse
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch


@bug("coordinator", "responses are sent although the append of their records failed")
def reply_before_append(patch: Patch) -> None:
    patch.method(Coordinator, "_refused", lambda _real, _self, _shard, _group, outcome, *_: outcome)


@bug("coordinator", "a failed append answers with errors, but the rebalance continues")
def round_survives_failed_append(patch: Patch) -> None:
    patch.function(rebalance.drop_round, lambda *_: Outcome())


def _without_timers(kind: str, real: Any, group: ClassicGroup, *args: Any) -> Any:
    """Call ``real`` and drop the timers of this kind from its outcome."""
    result = real(group, *args)
    out: Outcome = next(a for a in args if isinstance(a, Outcome))
    out.timers[:] = [t for t in out.timers if not (isinstance(t, SetTimer) and t.key.kind == kind)]
    return result


@bug("coordinator", "a member's session has no timer")
def no_session_timer(patch: Patch) -> None:
    patch.function(rebalance.keep_session, lambda real, *args: _without_timers("session", real, *args))


@bug("coordinator", "a rebalance has no timer and waits forever for silent members")
def no_round_timer(patch: Patch) -> None:
    patch.function(rebalance.open_round, _open_without_timer)


def _open_without_timer(real: Any, group: ClassicGroup, ctx: Any, out: Outcome, *args: Any, **kwargs: Any) -> None:
    real(group, ctx, out, *args, **kwargs)
    out.timers[:] = [t for t in out.timers if not (isinstance(t, SetTimer) and t.key.kind == "round")]


@bug("coordinator", "a member that never sends SyncGroup has no timer")
def no_sync_timer(patch: Patch) -> None:
    patch.function(rebalance.close_round, lambda real, *args: _without_timers("sync", real, *args))


@bug("coordinator", "the session timer removes a member despite newer heartbeats")
def session_timer_ignores_heartbeats(patch: Patch) -> None:
    def fire(real: Any, group: ClassicGroup, member_id: str, ctx: Any) -> Any:
        member = group.round.members.get(member_id)
        if member is not None:
            member.expires_at_ms = min(member.expires_at_ms, ctx.now_ms)
        return real(group, member_id, ctx)

    patch.function(heartbeat.on_session_timer, fire)


@bug("coordinator", "a heartbeat response does not report the rebalance")
def heartbeat_hides_rebalance(patch: Patch) -> None:
    def decide(real: Any, *args: Any) -> Outcome:
        out: Outcome = real(*args)
        out.replies[:] = [reply._replace(message=HeartbeatResponse()) for reply in out.replies]
        return out

    patch.function(heartbeat.decide_heartbeat, decide)


@bug("coordinator", "a heartbeat does not renew the session")
def heartbeat_renews_nothing(patch: Patch) -> None:
    def decide(real: Any, groups: ClassicGroups, request: Any, ctx: Any) -> Outcome:
        group = groups.check_group(request.message.group_id)
        before = {m.member_id: m.expires_at_ms for m in group.round.members.values()}
        out: Outcome = real(groups, request, ctx)
        for member in group.round.members.values():
            member.expires_at_ms = before[member.member_id]
        return out

    patch.function(heartbeat.decide_heartbeat, decide)


@bug("coordinator", "a new generation gets the previous generation's number")
def generation_stays(patch: Patch) -> None:
    patch.method(ClassicGroup, "next_generation_id", lambda _real, group: max(group.round.generation_id, 1))


@bug("coordinator", "the generation of a request is not checked")
def generation_unchecked(patch: Patch) -> None:
    patch.method(ClassicGroup, "check_generation", lambda *_: None)


@bug("coordinator", "the generation number of an aborted rebalance is used again")
def generation_given_twice(patch: Patch) -> None:
    def next_id(_real: Any, group: ClassicGroup) -> int:
        group.last_generation_id = group.round.generation_id + 1
        return group.last_generation_id

    patch.method(ClassicGroup, "next_generation_id", next_id)


@bug("coordinator", "any member's SyncGroup is treated as the leader's")
def any_sync_leads(patch: Patch) -> None:
    def decide(real: Any, groups: ClassicGroups, request: Any, ctx: Any) -> Outcome:
        group = groups.check_group(request.message.group_id)
        if group.round.state is GroupState.COMPLETING_REBALANCE and request.message.member_id in group.round.members:
            group.round.leader = request.message.member_id
        out: Outcome = real(groups, request, ctx)
        return out

    patch.function(sync.decide_sync, decide)


@bug("coordinator", "the assignment is sent to members but not persisted")
def assignment_not_written(patch: Patch) -> None:
    def write(real: Any, group: ClassicGroup, message: Any, ctx: Any, out: Outcome) -> None:
        real(group, message, ctx, out)
        out.records.clear()

    patch.function(sync._write_assignments, write)


@bug("coordinator", "a SyncGroup in flight at the next rebalance is never answered")
def sync_forgotten(patch: Patch) -> None:
    def give_up(_real: Any, group: ClassicGroup, ctx: Any, out: Outcome) -> None:
        for member in group.round.members.values():
            member.assignment = b""
            if member.sync is not None:
                member.sync = None
                rebalance.keep_session(group, member, ctx, out)

    patch.function(rebalance._drop_assignments, give_up)


@bug("coordinator", "a member that missed the rebalance stays in the generation")
def late_member_stays(patch: Patch) -> None:
    def remove(real: Any, group: ClassicGroup, ctx: Any, out: Outcome, member_id: str, why: str, *rest: Any) -> Any:
        if why == "join_timeout" and group.round.awaiting_join:
            return group.round.members[member_id]
        return real(group, ctx, out, member_id, why, *rest)

    patch.function(rebalance.remove_member, remove)


@bug("coordinator", "a leaving member is not removed")
def leave_ignored(patch: Patch) -> None:
    def remove(real: Any, group: ClassicGroup, ctx: Any, out: Outcome, member_id: str, why: str, *rest: Any) -> Any:
        if why == "left":
            return group.round.members[member_id]
        return real(group, ctx, out, member_id, why, *rest)

    patch.function(rebalance.remove_member, remove)


@bug("coordinator", "the leader's member list lacks the last member")
def leader_sees_too_few(patch: Patch) -> None:
    patch.function(rebalance.members_for_leader, lambda real, this: real(this)[: max(1, len(this.members) - 1)])


@bug("coordinator", "the protocols of a removed member still count")
def protocols_stay_counted(patch: Patch) -> None:
    def remove(real: Any, this: Round, member_id: str) -> Any:
        member = real(this, member_id)
        this.supporters.update(name for name, _ in member.protocols)
        return member

    patch.method(Round, "remove", remove)


@bug("coordinator", "a pending member id never expires")
def pending_for_ever(patch: Patch) -> None:
    def new_member(real: Any, group: ClassicGroup, request: Any, message: Any, ctx: Any, out: Outcome) -> None:
        real(group, request, message, ctx, out)
        out.timers[:] = [t for t in out.timers if t.key.kind != "pending"]

    patch.function(join._new_member, new_member)


@bug("coordinator", "a loaded group has no members")
def members_not_loaded(patch: Patch) -> None:
    def image(real: Any, cls: type[Round], written: Any, now_ms: int) -> Round:
        this: Round = real(cls, written, now_ms)
        for member_id in list(this.members):
            this.remove(member_id)
        if this.state is GroupState.STABLE:
            this.state = GroupState.EMPTY
        return this

    patch.method(Round, "of", image)


@bug("coordinator", "members of a loaded group have no session timer")
def loaded_members_live_for_ever(patch: Patch) -> None:
    patch.function(rebalance.begin_sessions, lambda *_: None)


@bug("coordinator", "a loaded group has no assignments")
def assignments_not_loaded(patch: Patch) -> None:
    def image(real: Any, cls: type[Round], written: Any, now_ms: int) -> Round:
        this: Round = real(cls, written, now_ms)
        for member in this.members.values():
            member.assignment = b""
        return this

    patch.method(Round, "of", image)


@bug("coordinator", "the tombstone of a group is not replayed")
def group_tombstone_ignored(patch: Patch) -> None:
    def replay(real: Any, groups: Any, record: Any, now_ms: int) -> None:
        if record.value is not None:
            real(groups, record, now_ms)

    patch.function(replay_group, replay)


@bug("coordinator", "an expired group is deleted without a tombstone")
def forgotten_without_tombstone(patch: Patch) -> None:
    def decide(real: Any, group: ClassicGroup, *args: Any) -> Outcome:
        out: Outcome = real(group, *args)
        if any(isinstance(record, GroupWritten) for record in out.records):
            out.records[:] = [record for record in out.records if not isinstance(record, GroupWritten)]
            group.persisted = None
        return out

    patch.function(decide_expiry, decide)


@bug("coordinator", "the waiting JoinGroup of a removed member is never answered")
def removed_join_unanswered(patch: Patch) -> None:
    def remove(real: Any, group: ClassicGroup, ctx: Any, out: Outcome, *args: Any, **kwargs: Any) -> Any:
        before = len(out.replies)
        member = real(group, ctx, out, *args, **kwargs)
        del out.replies[before:]
        return member

    patch.function(rebalance.remove_member, remove)


@bug("coordinator", "a fenced member's heartbeat gets no error")
def unknown_member_is_well(patch: Patch) -> None:
    def refuse(real: Any, request: Any, code: ErrorCode) -> Any:
        is_fenced = code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        return real(request, ErrorCode.NONE if is_fenced else code)

    patch.function(heartbeat.refuse_heartbeat, refuse)
