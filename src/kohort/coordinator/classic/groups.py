"""The groups of one partition of ``__consumer_offsets``, by name."""

from __future__ import annotations

from kohort.coordinator.classic.group import ClassicGroup
from kohort.errors import ApiError, ErrorCode


class ClassicGroups:
    """As much of a partition as a decision on members needs; what groups have committed is added in ``Groups``."""

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicGroup] = {}

    def ensure(self, group_id: str, now_ms: int) -> ClassicGroup:
        """Return the group; an unknown one begins now."""
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def check_group(self, group_id: str) -> ClassicGroup:
        """Return the group of a request that only a member can send. Raises UNKNOWN_MEMBER_ID if there is none."""
        group = self.by_id.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id!r}")
        return group
