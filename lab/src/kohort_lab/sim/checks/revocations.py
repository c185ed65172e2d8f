"""A member of a modern group that does not revoke what it is told to is waited for as long as it asked, no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import CurrentAssignment
from kohort.coordinator.consumer.sessions import awaits_revocation
from kohort_lab.sim.checks.broken import CheckFailed

OVERDUE_MS: Final = 1_500
"""How long a coordinator that can work may take to remove a member whose time is over."""


class Revocations:
    """Since when members have been waited for; ``check`` is called after every event that changed anything of the
    group, and after each one while somebody is waited for. A coordinator that takes over, as one that tells a member to
    give up more, waits from then on."""

    def __init__(self, group: Callable[[], ModernGroup | None]) -> None:
        self._group = group
        self._last: ModernGroup | None = None
        self._waits: dict[str, tuple[CurrentAssignment, int]] = {}
        self._overdue: dict[str, int] = {}

    @property
    def waits(self) -> bool:
        """Whether any member was waited for when this was checked last."""
        return bool(self._waits)

    def check(self, now_ms: int, world_ms: int, *, works: bool) -> None:
        """Look at the group. ``now_ms``: the coordinator's clock, which may jump; ``world_ms``: the world's.
        ``works``: neither does the coordinator stand still, nor does its disk refuse."""
        group = self._group()
        if group is not self._last:
            self._last = group
            self._waits.clear()
        waits, overdue = {}, {}
        for member_id, member in group.members.items() if group is not None else ():
            if not awaits_revocation(member):
                continue
            current, since_ms = self._waits.get(member_id, (None, now_ms))
            since_ms = since_ms if current is member.current else now_ms
            waits[member_id] = (member.current, since_ms)
            if works and now_ms - since_ms > member.metadata.rebalance_timeout_ms:
                overdue[member_id] = self._overdue.get(member_id, world_ms)
                self.check_overdue(member_id, world_ms - overdue[member_id])
        self._waits, self._overdue = waits, overdue

    def check_overdue(self, member_id: str, for_ms: int) -> None:
        """Check that nobody is waited for beyond its time."""
        if for_ms > OVERDUE_MS:
            raise CheckFailed(f"{member_id} is yet to revoke {for_ms} ms after its rebalance timeout")
