"""Who may commit offsets of a classic group (protocol/offsets.md#offsetcommit)."""

from __future__ import annotations

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.committing import Committing
from kohort.errors import ApiError, ErrorCode


def check_commit_to_classic(group: ClassicGroup, commit: Committing) -> Member | None:
    """Return the member that commits, or None for a commit from outside of the group. Raises ApiError if it may not."""
    if commit.epoch < 0 and group.state is GroupState.EMPTY:
        return None  # whatever member it names
    if commit.names_nobody:
        if commit.in_transaction:
            return None
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and this is none of them")
    member = group.check_member(commit.member_id, commit.instance_id)
    group.check_generation(commit.epoch)
    if group.state is GroupState.COMPLETING_REBALANCE and not commit.in_transaction:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member
