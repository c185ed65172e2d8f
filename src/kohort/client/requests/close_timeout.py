"""How long a client may take to close: as long as it was told, or until no broker can be reached.

Java waits for its 30 s either way. Without a broker that only makes the user wait: what could not be committed is read
again, and a group that is not told of a member's end sees it by itself.
"""

from __future__ import annotations

from typing import Final

from kohort.client.requests.engine import Engine

CLOSE_MS: Final = 30_000
"""While a broker can be asked; Java's default."""
ALONE_MS: Final = 2000
"""While no connection stands: long enough for one to be made again."""


class CloseTimeout:
    """From now on. With ``timeout_ms`` that is all there is, whoever can be reached."""

    def __init__(self, engine: Engine, now_ms: int, timeout_ms: int | None = None, *, most_ms: int = CLOSE_MS) -> None:
        self.most_ms = most_ms if timeout_ms is None else timeout_ms
        self.deadline_ms = now_ms + self.most_ms
        self._engine = engine
        self._may_give_up = timeout_ms is None
        self._alone_since_ms: int | None = None

    def left_ms(self, now_ms: int) -> int:
        """Return the remaining time, 0 at its end. Call after each step of the engine."""
        until_ms = self.deadline_ms
        if self._may_give_up:
            if self._engine.is_connected:
                self._alone_since_ms = None
            else:
                if self._alone_since_ms is None:
                    self._alone_since_ms = now_ms
                until_ms = min(until_ms, self._alone_since_ms + ALONE_MS)
        return max(0, until_ms - now_ms)
