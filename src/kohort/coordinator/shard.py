"""The groups of one partition: each event goes to the file that decides on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import Final

from kohort.coordinator.classic.fencing import note_fenced
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.heartbeat import decide_heartbeat, on_pending_timer, on_session_timer
from kohort.coordinator.classic.join import decide_join
from kohort.coordinator.classic.leave import decide_leave
from kohort.coordinator.classic.ownership import owners_of
from kohort.coordinator.classic.rebalance import (
    begin_sessions,
    forget_timers,
    on_round_timer,
    open_round,
    refuse_parked,
)
from kohort.coordinator.classic.round import Round
from kohort.coordinator.classic.states import State
from kohort.coordinator.classic.sync import decide_sync, on_sync_timer
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupLoaded, GroupUnloaded, Trigger
from kohort.coordinator.offsets.commit import decide_commit
from kohort.coordinator.offsets.commit_in_transaction import decide_commit_in_transaction
from kohort.coordinator.offsets.delete import decide_offset_delete, decide_topics_deleted
from kohort.coordinator.offsets.expiry import decide_expiry
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import NO_OFFSETS
from kohort.coordinator.outcome import GroupRequest, Outcome, TimerKey
from kohort.coordinator.refusals import refusal
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from kohort.wire.schema import Message


class Availability(Enum):
    """Whether a partition's groups can be asked."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Shard:
    """One partition of ``__consumer_offsets``: decides, and carries nothing out itself."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.availability = Availability.LOADING
        self.groups = Groups()

    def decide(self, group_id: str, request: GroupRequest, ctx: Context) -> Outcome:
        """What is to be done about a request of one group; an error that is raised becomes its refusal."""
        group = self.groups.by_id.get(group_id)
        try:
            return DECIDE[type(request.message)](self, group_id, group, request, ctx)
        except ApiError as error:
            out = Outcome(replies=[refusal(request, error.code)], round_changed=False)
            if group is not None:
                note_fenced(group, request, error, ctx, out)
            return out

    def fire(self, key: TimerKey, ctx: Context) -> Outcome:
        """What is to be done now that a timer's moment has come; a timer of what is gone does nothing."""
        group = self.groups.by_id.get(key.group_id)
        if group is None:
            return Outcome()
        if key.kind == "session":
            return on_session_timer(group, key.member_id, ctx)
        if key.kind == "pending":
            return on_pending_timer(group, key.member_id, ctx)
        return on_round_timer(group, ctx) if key.kind == "round" else on_sync_timer(group, ctx)

    def begin(self, ctx: Context) -> Iterator[tuple[str, Outcome]]:
        """After the log is read: every group lives on from what is written (protocol/groups.md#loading)."""
        for group_id, group in list(self.groups.by_id.items()):
            out = Outcome()
            group.round = this = Round.of(group.written, ctx.now_ms)
            begin_sessions(group, ctx, out)
            if group.written is not None:
                out.journal.append(
                    GroupLoaded(
                        at_ms=ctx.now_ms,
                        group=group_id,
                        generation=this.generation_id,
                        members=tuple(m.who for m in this.members.values()),
                        partitions=owners_of(group.written),
                    )
                )
            if this.state is State.STABLE and len(this.members) > ctx.config.group_max_size:
                open_round(group, ctx, out, Trigger(event="over_capacity"))
            yield group_id, out

    def resign(self, ctx: Context) -> Iterator[tuple[str, Outcome]]:
        """Another broker decides from now on: whoever waits is sent there (protocol/groups.md#unloading)."""
        for group_id, group in self.groups.by_id.items():
            out = Outcome()
            refuse_parked(group.round.members.values(), ErrorCode.NOT_COORDINATOR, out)
            forget_timers(group, out)
            if group.written is not None:
                generation = group.round.generation_id
                out.journal.append(GroupUnloaded(at_ms=ctx.now_ms, group=group_id, generation=generation))
            group.round.move_to(State.DEAD, ctx.now_ms)
            yield group_id, out

    def expire_offsets(self, ctx: Context) -> Iterator[tuple[str, Outcome]]:
        """The sweep for expired offsets, group by group, each in a write of its own."""
        for group_id, group in list(self.groups.by_id.items()):
            yield group_id, decide_expiry(group, self.groups.offsets.get(group_id, NO_OFFSETS), ctx)

    def topics_deleted(self, names: Collection[str], ctx: Context) -> Iterator[tuple[str, Outcome]]:
        for group_id, offsets in list(self.groups.offsets.items()):
            yield group_id, decide_topics_deleted(group_id, offsets, names, ctx.topics)


Decide = Callable[[Shard, str, ClassicGroup | None, GroupRequest, Context], Outcome]


def _member_of(group_id: str, group: ClassicGroup | None) -> ClassicGroup:
    """The group of a request that only a member can send."""
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id!r}")
    return group


def _join(shard: Shard, group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context) -> Outcome:
    """Only whoever has no member id yet can begin a group."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    if group is not None:
        return decide_join(group, request, ctx, created=False)
    if message.member_id:
        return decide_join(_member_of(group_id, group), request, ctx, created=False)
    return decide_join(shard.groups.ensure(group_id, ctx.now_ms), request, ctx, created=True)


def _sync(_shard: Shard, group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context) -> Outcome:
    return decide_sync(_member_of(group_id, group), request, ctx)


def _heartbeat(
    _shard: Shard, group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context
) -> Outcome:
    return decide_heartbeat(_member_of(group_id, group), request, ctx)


def _leave(_shard: Shard, _group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context) -> Outcome:
    return decide_leave(group, request, ctx)


def _commit(shard: Shard, group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context) -> Outcome:
    return decide_commit(group, shard.groups.offsets.get(group_id), request, ctx)


def _commit_in_transaction(
    _shard: Shard, _group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context
) -> Outcome:
    return decide_commit_in_transaction(group, request, ctx)


def _offset_delete(
    shard: Shard, group_id: str, group: ClassicGroup | None, request: GroupRequest, ctx: Context
) -> Outcome:
    return decide_offset_delete(group, shard.groups.offsets.get(group_id), request, ctx)


DECIDE: Final[dict[type[Message], Decide]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _commit_in_transaction,
    OffsetDeleteRequest: _offset_delete,
}
