"""When a world is settled: for a while, as a commit or a callback that is under way shows nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort_lab.sim.world import World

LOOK_EVERY: Final = 32
SETTLED_MS: Final = 5_000


class SettledDetector:
    """Asks now and then ``why_not``; true once there has been no reason for long enough."""

    def __init__(self, world: World, why_not: Callable[[], str | None]) -> None:
        self._world = world
        self._why_not = why_not
        self._since_ms: int | None = None

    def __call__(self) -> bool:
        if self._world.events % LOOK_EVERY:
            return False
        if self._why_not() is not None:
            self._since_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = self._world.now_ms
        return self._world.now_ms - self._since_ms >= SETTLED_MS
