"""Throttle check: a client over quota gets the throttle time, and no response before its end (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, WatchedProcess, Watcher


class Throttles(Watcher):
    """End of each link's throttle time, by its responses; ``now_ms`` is the broker's clock."""

    hears_all = True

    def __init__(self) -> None:
        self.now_ms: Callable[[], int] = lambda: 0
        self._until_ms: dict[int, int] = {}
        self.reported = 0
        """Number of throttled responses."""
        self._journaled_ms = 0
        """Sum of throttle times since the broker's start, in ms."""

    @property
    def longest_remaining_ms(self) -> int:
        """Longest remaining throttle time, in ms."""
        return max([0, *(until_ms - self.now_ms() for until_ms in self._until_ms.values())])

    def answered(self, exchange: Exchange) -> None:
        now_ms = self.now_ms()
        self.check_not_muted(f"{exchange.api.name} of {exchange.client}", exchange.link_id, now_ms)
        if throttle_ms := _throttle_ms_of(exchange):
            self._until_ms[exchange.link_id] = now_ms + throttle_ms
            self.reported += 1
            self._journaled_ms += throttle_ms

    def answered_dead_client(self, exchange: Exchange) -> None:
        self._journaled_ms += _throttle_ms_of(exchange)

    def check_not_muted(self, what: str, link_id: int, now_ms: int) -> None:
        """Check that a link gets no response during its throttle time."""
        until_ms = self._until_ms.get(link_id, now_ms)
        if now_ms < until_ms:
            raise CheckFailed(f"{what} is answered {until_ms - now_ms} ms before the end of its throttle time")

    def check_reported(self, throttled_ms: int) -> None:
        """Check that responses report the broker's total throttle time since its start."""
        if throttled_ms != self._journaled_ms:
            raise CheckFailed(
                f"the broker throttled clients for {throttled_ms} ms in total, but reported {self._journaled_ms} ms"
            )

    def broker_dies(self, broker: WatchedProcess, *, writing: bool) -> None:
        del broker, writing
        self._until_ms.clear()
        self._journaled_ms = 0


def _throttle_ms_of(exchange: Exchange) -> int:
    """Return the throttle time of a response, in ms."""
    answer: Any = exchange.answer
    return max(0, getattr(answer, "throttle_time_ms", 0))
