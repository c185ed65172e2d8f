"""Revocation check of consumer groups: a member that does not revoke is removed after its rebalance timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import CurrentAssignment
from kohort.coordinator.consumer.sessions import awaits_revocation
from kohort_lab.sim.checks.broken import CheckFailed

OVERDUE_MS: Final = 1_500
"""Grace period for the removal of an overdue member, in ms."""


class Revocations:
    """Start of each pending revocation.

    Call ``check`` after every event that changed the group, and after each event while a revocation is pending. A new
    coordinator, or a further revocation, restarts the timeout.
    """

    def __init__(self, group: Callable[[], ModernGroup | None]) -> None:
        self._group = group
        self._last: ModernGroup | None = None
        self._waits: dict[str, tuple[CurrentAssignment, int]] = {}
        self._overdue: dict[str, int] = {}

    @property
    def waits(self) -> bool:
        """True if a member had a pending revocation at the last check."""
        return bool(self._waits)

    def check(self, now_ms: int, world_ms: int, *, works: bool) -> None:
        """Check the group. ``now_ms``: the coordinator's clock, which may jump; ``world_ms``: simulated time.

        ``works``: the coordinator is neither frozen nor without disk.
        """
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
        if for_ms > OVERDUE_MS:
            raise CheckFailed(f"{member_id} has not revoked {for_ms} ms after its rebalance timeout")
