"""The groups of one partition of ``__consumer_offsets``, and what each has committed."""

from __future__ import annotations

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.offsets.state import GroupOffsets


class Groups:
    """A group is here if it is written, has offsets, or has a round under way; ``forget`` takes the others out."""

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicGroup] = {}
        self.offsets: dict[str, GroupOffsets] = {}

    def ensure(self, group_id: str, now_ms: int) -> ClassicGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def maybe_forget(self, group_id: str) -> None:
        """Drop a group of which nothing is left: a first join that failed, a group that was deleted."""
        group = self.by_id.get(group_id)
        if group is not None and group.is_blank and group_id not in self.offsets:
            del self.by_id[group_id]
