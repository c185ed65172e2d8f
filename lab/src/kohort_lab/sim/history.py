"""Event log of a run, for failed seeds and checks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kohort_lab.sim.world import World

KEPT = 4_000


@dataclass(frozen=True, slots=True)
class Happening:
    """Event of a run; ``at_ms``: simulated time since the start."""

    at_ms: int
    who: str
    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:9.3f}  {self.who:<12} {self.what}{': ' if self.detail else ''}{self.detail}"


class History:
    """Last events of a run, and the number of events of each kind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.lines: deque[Happening] = deque(maxlen=KEPT)
        self.counts: dict[str, int] = {}

    def add(self, who: str, what: str, detail: str = "") -> None:
        self.lines.append(Happening(self._world.elapsed_ms, who, what, detail))
        self.counts[what] = self.counts.get(what, 0) + 1

    def tail(self, lines: int = 60) -> str:
        """Return the last events as text."""
        return "\n".join(str(h) for h in list(self.lines)[-lines:])
