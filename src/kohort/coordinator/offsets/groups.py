"""The groups of one partition of ``__consumer_offsets``, and what each has committed."""

from __future__ import annotations

from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.offsets.state import GroupOffsets


class Groups(ClassicGroups):
    """A group is here if it is written, has offsets, or has a round under way; ``maybe_forget`` takes others out."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: dict[str, GroupOffsets] = {}
        """What is committed, be it in a transaction that is open; a group without anything is not in it."""
        self.open: dict[int, set[str]] = {}
        """The groups that have pending offsets, by the producer whose transaction is open."""

    def maybe_forget(self, group_id: str) -> None:
        """Drop a group of which nothing is left: a first join that failed, a group that was deleted."""
        group = self.by_id.get(group_id)
        if group is not None and group.is_blank and group_id not in self.offsets:
            del self.by_id[group_id]
