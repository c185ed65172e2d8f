"""Who goes over a quota is told for how long it is held up, and is not served before that is over (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, WatchedProcess, Watcher


class Throttles(Watcher):
    """Until when each link is held up, by what was told on it; ``now_ms`` is the broker's clock."""

    hears_all = True

    def __init__(self) -> None:
        self.now_ms: Callable[[], int] = lambda: 0
        self._until_ms: dict[int, int] = {}
        self.told = 0
        """How often somebody was held up."""
        self._journaled_ms = 0
        """For how long in all, since the broker started."""

    @property
    def longest_left_ms(self) -> int:
        """How long it takes until nobody is held up any more."""
        return max([0, *(until_ms - self.now_ms() for until_ms in self._until_ms.values())])

    def answered(self, exchange: Exchange) -> None:
        now_ms = self.now_ms()
        self.check_not_held_up(f"{exchange.api.name} of {exchange.client}", exchange.link_id, now_ms)
        if throttle_ms := _told_in(exchange):
            self._until_ms[exchange.link_id] = now_ms + throttle_ms
            self.told += 1
            self._journaled_ms += throttle_ms

    def answered_nobody(self, exchange: Exchange) -> None:
        self._journaled_ms += _told_in(exchange)

    def check_not_held_up(self, what: str, link_id: int, now_ms: int) -> None:
        """Check that a link on which something is answered was told to wait no longer than until now."""
        until_ms = self._until_ms.get(link_id, now_ms)
        if now_ms < until_ms:
            raise CheckFailed(f"{what} is answered {until_ms - now_ms} ms before the time that its client was told")

    def check_told(self, held_up_ms: int) -> None:
        """Check that clients were told of all the time for which the broker has held them up since it started."""
        if held_up_ms != self._journaled_ms:
            raise CheckFailed(
                f"clients are held up for {held_up_ms} ms in all, and were told of {self._journaled_ms} ms"
            )

    def broker_dies(self, broker: WatchedProcess, *, writing: bool) -> None:
        del broker, writing
        self._until_ms.clear()
        self._journaled_ms = 0


def _told_in(exchange: Exchange) -> int:
    """Return for how long the answer says that its client is held up; ms."""
    answer: Any = exchange.answer
    return max(0, getattr(answer, "throttle_time_ms", 0))
