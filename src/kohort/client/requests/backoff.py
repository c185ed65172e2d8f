"""How long to wait before trying again: doubled each time from a first wait up to a longest one, and varied by a fifth
at random.
"""

from __future__ import annotations

from typing import Final

from kohort.clock import Rng
from kohort.config.client import ClientConfig

JITTER: Final = 0.2


class Backoff:
    """Waits that double with each attempt (KIP-580)."""

    __slots__ = ("_first_ms", "_longest_ms", "_rng")

    def __init__(self, first_ms: int, longest_ms: int, rng: Rng) -> None:
        self._first_ms = first_ms
        self._longest_ms = max(first_ms, longest_ms)
        self._rng = rng

    def delay_ms(self, attempt: int) -> int:
        """Return the wait before the attempt after ``attempt`` failures in a row (0 counts as the first wait)."""
        exponent = min(max(attempt - 1, 0), 32)
        wait = min(self._first_ms << exponent, self._longest_ms)
        return max(0, round(wait * (1 - JITTER + 2 * JITTER * self._rng.random())))


def retry_backoff(config: ClientConfig, rng: Rng) -> Backoff:
    """Return the back-off of repeated requests, from ``retry.backoff.ms`` to ``retry.backoff.max.ms``."""
    return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
