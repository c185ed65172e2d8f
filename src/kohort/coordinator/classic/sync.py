"""SyncGroup (14) v0-5: the leader's assignments become the persisted generation (KIP-345, KIP-559).

The rules: protocol/groups.md#syncgroup.

Deviation from Kafka: if a member sends a second SyncGroup while the first one awaits its response, the first one gets
REBALANCE_IN_PROGRESS; in Kafka it gets no response.
"""

from __future__ import annotations

from functools import partial

from kohort.config import BrokerConfig
from kohort.coordinator.classic.evidence import moves_between, owners_of
from kohort.coordinator.classic.group import ClassicGroup, ClassicGroups, generation_of
from kohort.coordinator.classic.join import METADATA_MAX_BYTES
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.rebalance import keep_session, open_round, remove_member
from kohort.coordinator.classic.round import Round, refuse_sync
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import AssignmentWritten, RoundSettled, Trigger
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, TimerKey
from kohort.coordinator.records import GroupWritten
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import SyncGroupRequest, SyncGroupResponse
from kohort.wire.messages.group_records import GroupMetadataValue

FIRST_WITH_PROTOCOL = 5


def check_sync_request(request: GroupRequest, config: BrokerConfig) -> None:
    message = request.message_as(SyncGroupRequest)
    named = message.protocol_type is not None and message.protocol_name is not None
    if request.api_version >= FIRST_WITH_PROTOCOL and not named:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "SyncGroup v5 needs a protocol type and a protocol name")
    if not message.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    most_bytes = max(config.message_max_bytes, METADATA_MAX_BYTES)
    if sum(len(assigned.assignment) for assigned in message.assignments) > most_bytes:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"assignments exceed the maximum size of a record ({most_bytes} bytes)"
        )


def decide_sync(groups: ClassicGroups, request: GroupRequest, ctx: Context) -> Outcome:
    """Answer a SyncGroup if the group is Stable; else hold it until the leader's SyncGroup persists the generation."""
    message = request.message_as(SyncGroupRequest)
    group = groups.check_group(message.group_id)
    rebalance = group.round
    member = group.check_member(message.member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    _check_protocol(rebalance, message)
    if rebalance.state is GroupState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    member.note_request(request.connection, ctx.now_ms)
    out = Outcome()
    if rebalance.state is GroupState.STABLE:
        keep_session(group, member, ctx, out)
        out.replies.append(Reply(request, synced(rebalance, member)))
    else:
        older, member.sync = member.sync, request
        if older is not None:
            out.replies.append(refuse_sync(older, ErrorCode.REBALANCE_IN_PROGRESS))
        if rebalance.leader == member.member_id:
            _write_assignments(group, message, ctx, out)
    _note_synced(group, member, ctx, out)
    return out


def _check_protocol(rebalance: Round, message: SyncGroupRequest) -> None:
    type_differs = message.protocol_type is not None and message.protocol_type != rebalance.protocol_type
    name_differs = message.protocol_name is not None and message.protocol_name != rebalance.protocol_name
    if type_differs or name_differs:
        problem = f"SyncGroup must name the group's protocol {rebalance.protocol_type}/{rebalance.protocol_name}"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)


def _write_assignments(group: ClassicGroup, message: SyncGroupRequest, ctx: Context, out: Outcome) -> None:
    rebalance = group.round
    given = {a.member_id: bytes(a.assignment) for a in message.assignments}
    joined_ms = rebalance.state_since_ms
    took_ms = ctx.now_ms - joined_ms
    rebalance.move_to(GroupState.STABLE, ctx.now_ms)
    rebalance.assigned_at_ms = ctx.now_ms
    for member in rebalance.members.values():
        member.assignment = given.get(member.member_id, b"")
        if member.sync is not None:
            out.replies.append(Reply(member.sync, synced(rebalance, member)))
            member.sync = None
            keep_session(group, member, ctx, out)
    value = generation_of(rebalance, joined_ms)  # as in Kafka, the record has the time at which the join phase ended
    out.records.append(GroupWritten(group.group_id, value))
    out.evidence = partial(_assignment_written, group.group_id, group.persisted, value, ctx.now_ms, took_ms)


def _assignment_written(
    group_id: str, before: GroupMetadataValue | None, after: GroupMetadataValue, now_ms: int, took_ms: int
) -> AssignmentWritten:
    partitions = owners_of(after)
    return AssignmentWritten(
        at_ms=now_ms,
        group=group_id,
        generation=after.generation,
        took_ms=took_ms,
        partitions=partitions,
        moves=moves_between(owners_of(before), partitions),
    )


def _note_synced(group: ClassicGroup, member: Member, ctx: Context, out: Outcome) -> None:
    rebalance = group.round
    if member.member_id in rebalance.pending_sync:
        del rebalance.pending_sync[member.member_id]
        if not rebalance.pending_sync:
            out.timers.append(CancelTimer(TimerKey("sync", group.group_id)))
            rebalance.last_to_sync = member.identity
    if rebalance.state is GroupState.STABLE and not rebalance.pending_sync and rebalance.last_to_sync is not None:
        settled = RoundSettled(
            at_ms=ctx.now_ms,
            group=group.group_id,
            generation=rebalance.generation_id,
            last=rebalance.last_to_sync,
            took_ms=ctx.now_ms - rebalance.assigned_at_ms,
        )
        out.journal.append(settled)
        rebalance.last_to_sync = None


def synced(rebalance: Round, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=rebalance.protocol_type, protocol_name=rebalance.protocol_name, assignment=member.assignment
    )


def on_sync_timer(group: ClassicGroup, ctx: Context) -> Outcome:
    """Remove the members that sent no SyncGroup within the rebalance timeout (protocol/groups.md#rebalances)."""
    rebalance, out = group.round, Outcome()
    if rebalance.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not rebalance.pending_sync:
        return out
    led = rebalance.leader in rebalance.pending_sync
    missing = [m for m in rebalance.members if m in rebalance.pending_sync]
    removed = [remove_member(group, ctx, out, member_id, "sync_timeout") for member_id in missing]
    trigger = Trigger(
        event="sync_timeout",
        member=removed[0].identity,
        vitals=removed[0].vitals(ctx),
        others=tuple(m.identity for m in removed[1:]),
        leader_lost=led,
    )
    open_round(group, ctx, out, trigger)
    return out
