"""Change detection for checks of consumer groups: most events do not change a group.

It compares the checked values themselves, since an unexpected change sets no flag. Member records are immutable, so
comparisons are cheap.
"""

from __future__ import annotations

from kohort.coordinator.consumer.group import ModernGroup


class GroupChanges:
    """Consumer group at the last check."""

    def __init__(self) -> None:
        self._group: ModernGroup | None = None
        self._snapshot: list[object] = []

    def moved(self, group: ModernGroup | None, stretch: int) -> bool:
        """Return True if the group's epochs or members changed since the last call.

        ``group``: None without a group; ``stretch``: number of its lives and conversions.
        """
        snapshot: list[object] = []
        if group is not None:
            members = group.members
            snapshot = [stretch, group.epoch, group.target_epoch, group.target_at_ms, *members]
            for member in members.values():
                snapshot += (member.current, member.metadata)
        if group is self._group and snapshot == self._snapshot:
            return False
        self._group, self._snapshot = group, snapshot
        return True
