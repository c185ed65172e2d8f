"""The clock of a staged broker: the system's, set ahead by tests, or one that stands still in between."""

from __future__ import annotations

from kohort.aio.system import SystemClock
from kohort.client.user_input import checked_ms


class MovableClock:
    """Milliseconds since the epoch, never going back. A ``frozen`` one moves only when told."""

    def __init__(self, *, frozen: bool = False) -> None:
        self._system = SystemClock()
        self._frozen_at_ms = self._system.now_ms() if frozen else None
        self._ahead_ms = 0

    @property
    def is_frozen(self) -> bool:
        """Whether it moves only when told."""
        return self._frozen_at_ms is not None

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970."""
        since = self._system.now_ms() if self._frozen_at_ms is None else self._frozen_at_ms
        return since + self._ahead_ms

    def ahead_ms(self) -> int:
        """Return how far the system's wall clock was set since the start, 0 if frozen."""
        return self._system.ahead_ms() if self._frozen_at_ms is None else 0

    def advance(self, ms: int) -> None:
        """Set it ahead by ``ms``. Raises UsageError for a negative number."""
        self._ahead_ms += checked_ms("advance: ms", ms)
