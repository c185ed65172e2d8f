"""Whether anything moved of what checks of a modern group look at: most events change nothing of it.

What is compared is what the checks read, not a mark that somebody has to set: a change that should not be there is seen
as well. Members' records are never changed, but replaced, so that comparing them costs next to nothing.
"""

from __future__ import annotations

from kohort.coordinator.consumer.group import ModernGroup


class GroupChanges:
    """A modern group as it was when it was looked at last."""

    def __init__(self) -> None:
        self._group: ModernGroup | None = None
        self._seen: list[object] = []

    def moved(self, group: ModernGroup | None, stretch: int) -> bool:
        """Tell whether ``group`` is not the one of last time (None: there was none), or anything of its epochs and its
        members is other than it was; ``stretch`` is the one of its lives and conversions."""
        seen: list[object] = []
        if group is not None:
            members = group.members
            seen = [stretch, group.epoch, group.target_epoch, group.target_at_ms, *members]
            for member in members.values():
                seen += (member.current, member.metadata)
        if group is self._group and seen == self._seen:
            return False
        self._group, self._seen = group, seen
        return True
