"""Who sends a heartbeat: a member, a new one, or a static one that is back under another id.

The rules: protocol/consumer-groups.md#members-and-epochs.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.coordinator.consumer.assignment import NEW_MEMBER, Current, Held, Target
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember, new_member_id
from kohort.coordinator.consumer.reconcile import Owned
from kohort.coordinator.context import Context
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)


class Arrival(NamedTuple):
    """Who is there, as written; what it says now comes after."""

    member_id: str
    said: ConsumerGroupMemberMetadataValue | None
    """None: a new member."""
    current: Current
    target: Target | None
    """What it is to have; None where nothing is written of that."""
    replaces: ConsumerMember | None = None
    """The static member whose place it takes, maybe under the same id."""
    software: str | None = None
    """What its client says it is, for the journal."""


def arrive(group: ModernGroup, message: ConsumerGroupHeartbeatRequest, owned: Owned | None, ctx: Context) -> Arrival:
    """Return who sends a heartbeat that is not a leave.

    Raises GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    check_room(group, message.member_id, message.instance_id, ctx)
    if message.member_epoch != JOINING_EPOCH:
        return arrival_of(group, _check_heartbeat(group, message, owned))
    member_id = message.member_id or new_member_id(ctx.rng)
    holder = None if message.instance_id is None else _holder(group, message.instance_id)
    if holder is not None:
        _check_released(holder, member_id)
        return replacement_of(group, holder, member_id)
    member = group.members.get(member_id)
    return Arrival(member_id, None, NEW_MEMBER, None) if member is None else arrival_of(group, member)


def with_software(arrival: Arrival, said: ConsumerGroupMemberMetadataValue, software: str | None) -> Arrival:
    """Return who is there with what its client says it is, where it says anything else that the journal may tell."""
    if software is None or (said is arrival.said and arrival.replaces is None):
        return arrival
    return arrival._replace(software=software)


def check_static(group: ModernGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the member that holds an instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where it is
    another."""
    holder = _holder(group, instance_id)
    if holder is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        problem = f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}."
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, problem)
    return holder


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's, or the one before where its answer may be lost."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.current.previous_epoch and _is_among(owned, member.current.assigned):
        return
    kind = "greater" if epoch > member.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {kind} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def arrival_of(group: ModernGroup, member: ConsumerMember) -> Arrival:
    """Return a member that is there as who arrives."""
    return Arrival(member.member_id, member.said, member.current, group.targets.get(member.member_id))


def _check_heartbeat(group: ModernGroup, message: ConsumerGroupHeartbeatRequest, owned: Owned | None) -> ConsumerMember:
    if message.instance_id is None:
        member = group.check_member(message.member_id)
    else:
        member = check_static(group, message.instance_id, message.member_id)
    check_epoch(member, message.member_epoch, owned)
    return member


def check_room(group: ModernGroup, member_id: str, instance_id: str | None, ctx: Context) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for who would be one too many: neither a member, nor in a static member's place."""
    most = ctx.config.group_consumer_max_size
    if len(group.members) >= most and not (member_id in group.members or instance_id in group.instances):
        problem = f"The consumer group has reached its maximum capacity of {most} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, problem)


def _holder(group: ModernGroup, instance_id: str) -> ConsumerMember | None:
    holder = group.instances.get(instance_id)
    return None if holder is None else group.members[holder]


def replacement_of(group: ModernGroup, holder: ConsumerMember, member_id: str) -> Arrival:
    """Return who takes the place of ``holder`` under a new id."""
    current = holder.current._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    return Arrival(member_id, holder.said, current, group.target(holder.member_id), holder)


def _check_released(holder: ConsumerMember, member_id: str) -> None:
    if holder.epoch != LEAVING_FOR_A_WHILE_EPOCH and not holder.speaks_classic:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {holder.instance_id} cannot join the group because the "
            f"instance id is owned by {holder.member_id} member.",
        )


def _is_among(owned: Owned | None, assigned: Held) -> bool:
    if owned is None:
        return False
    return all(topic in assigned and assigned[topic].keys() >= set(of) for topic, of in owned.items())
