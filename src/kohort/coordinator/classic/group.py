"""Classic group: its persisted generation and its running rebalance."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.round import Round
from kohort.coordinator.classic.states import GroupState
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata

GENERATION_MAX: Final = 0x7FFF_FFFF
"""Largest generation id in the protocol (int32). After it, generation ids start again at 0."""


class ClassicGroup:
    """Classic group. ``persisted``: latest GroupMetadata record, set by replay. ``round``: members and rebalance."""

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.persisted: GroupMetadataValue | None = None
        self.round = Round.of(None, now_ms)
        self.last_generation_id = 0
        """Highest generation id that the group has used, including the ids of failed rebalances.

        No later generation gets it.
        """

    @property
    def state(self) -> GroupState:
        return self.round.state

    def next_generation_id(self) -> int:
        highest = max(self.last_generation_id, self.round.generation_id)
        self.last_generation_id = highest + 1 if highest < GENERATION_MAX else 0
        return self.last_generation_id

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        if instance_id is not None:
            owner = self.round.instances.get(instance_id)
            if owner is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id!r}")
            if owner != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"instance id {instance_id!r} belongs to member {owner!r}, not to {member_id!r}",
                )
        member = self.round.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of group {self.group_id!r}")
        return member

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.round.generation_id:
            problem = f"generation {generation_id} is not the group's generation {self.round.generation_id}"
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, problem)

    @property
    def has_no_leader(self) -> bool:
        """Return True if the persisted generation has members, but no leader. All members must then rejoin."""
        return self.persisted is not None and bool(self.persisted.members) and self.persisted.leader is None

    @property
    def is_blank(self) -> bool:
        return self.persisted is None and not self.round.members and not self.round.pending_join


def generation_of(rebalance: Round, since_ms: int | None = None, *, with_leader: bool = True) -> GroupMetadataValue:
    """Build the GroupMetadata record of a generation, with each member's metadata for the selected protocol.

    ``since_ms``: time of the group's last state change; by default the time in ``rebalance``.
    ``with_leader=False``: the record names no leader, so all members rejoin after a crash of the broker.
    """
    return GroupMetadataValue(
        protocol_type=rebalance.protocol_type,
        generation=rebalance.generation_id,
        protocol=rebalance.protocol_name,
        leader=rebalance.leader if with_leader else None,
        current_state_timestamp=rebalance.state_since_ms if since_ms is None else since_ms,
        members=[
            MemberMetadata(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout=m.rebalance_timeout_ms,
                session_timeout=m.session_timeout_ms,
                subscription=m.metadata_of(rebalance.protocol_name),
                assignment=m.assignment,
            )
            for m in rebalance.members.values()
        ],
    )


class ClassicGroups:
    """Classic groups of a ``__consumer_offsets`` partition, without their offsets."""

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicGroup] = {}

    def ensure(self, group_id: str, now_ms: int) -> ClassicGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def check_group(self, group_id: str) -> ClassicGroup:
        group = self.by_id.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} does not exist")
        return group
