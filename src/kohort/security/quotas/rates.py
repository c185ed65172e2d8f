"""Measured usage of a quota for each user and client id: a rate over a sliding window of samples, or a token bucket.

Both compute the throttle time of a client above its quota, as Kafka does (protocol/security.md#throttle-times).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

THROTTLE_MAX_MS: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    samples: int
    sample_ms: int

    @property
    def whole_ms(self) -> int:
        return self.samples * self.sample_ms


@dataclass(slots=True)
class Sample:
    start_ms: int
    last_ms: int
    used: float


class UsageRate:
    """Usage of a quota by one client over a sliding window of samples."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def record(self, used: float, now_ms: int, window: QuotaWindow) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= window.sample_ms:
            self._forget(now_ms, window)
            samples.append(Sample(now_ms, now_ms, used))
        else:
            samples[-1].used += used
            samples[-1].last_ms = now_ms

    def throttle_ms(self, quota: float, now_ms: int, window: QuotaWindow) -> int:
        """Return the time in ms until the rate falls to ``quota`` per second without further usage."""
        self._forget(now_ms, window)
        used = math.fsum(sample.used for sample in self._samples)
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = max(window.samples - 1 - elapsed_ms // window.sample_ms, 0)
        measured_ms = max(elapsed_ms + missing * window.sample_ms, 1)
        rate = used / (measured_ms / 1000)
        if rate <= quota:
            return 0
        return _rounded((rate - quota) / quota * measured_ms) if quota > 0 else THROTTLE_MAX_MS

    def is_expired(self, now_ms: int, window: QuotaWindow) -> bool:
        self._forget(now_ms, window)
        return not self._samples

    def _forget(self, now_ms: int, window: QuotaWindow) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= window.whole_ms:
            samples.popleft()


class TokenBucket:
    """Token bucket, refilled at the quota's rate up to a burst (KIP-599)."""

    __slots__ = ("_at_ms", "_quota", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._at_ms = 0
        self._quota = 1.0

    def tokens(self, quota: float, now_ms: int, window: QuotaWindow) -> float:
        self._quota = quota
        burst = quota * window.whole_ms / 1000
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + quota * (now_ms - self._at_ms) / 1000)

    def take(self, count: float, quota: float, now_ms: int, window: QuotaWindow) -> None:
        self._tokens = self.tokens(quota, now_ms, window) - count
        self._at_ms = now_ms

    def throttle_ms(self, quota: float, now_ms: int, window: QuotaWindow) -> int:
        missing = -self.tokens(quota, now_ms, window)
        return _rounded(missing / quota * 1000) if missing > 0 else 0

    def is_expired(self, now_ms: int, window: QuotaWindow) -> bool:
        return self.tokens(self._quota, now_ms, window) >= self._quota * window.whole_ms / 1000


def _rounded(value: float) -> int:
    """Round half up, as Java does, and clamp to the int32 of the response."""
    return math.floor(value + 0.5) if value < THROTTLE_MAX_MS else THROTTLE_MAX_MS


MOST_BYTES: Final = 16 << 20
METER_BYTES: Final = 2_000
EXAMINED: Final = 2
"""Number of idle meters examined for each new meter."""

Names = tuple[str, str]
"""User and client id whose usage a meter counts; an empty string stands for all."""


class Meter(Protocol):
    def is_expired(self, now_ms: int, window: QuotaWindow) -> bool: ...


M = TypeVar("M", bound=Meter)


class Usage(Generic[M]):
    """Meters of one quota for users and client ids; the longest idle meter is the first."""

    def __init__(self, make: Callable[[], M], window: QuotaWindow, most_bytes: int = MOST_BYTES) -> None:
        self._make = make
        self.window = window
        self._most_bytes = most_bytes
        self._meters: dict[Names, M] = {}
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, names: Names, now_ms: int) -> M:
        meter = self._meters.pop(names, None)
        if meter is None:
            self._make_room(now_ms)
            meter = self._make()
            self.held_bytes += _weight(names)
        self._meters[names] = meter
        return meter

    def _make_room(self, now_ms: int) -> None:
        for _ in range(EXAMINED):
            if self._meters and self._first().is_expired(now_ms, self.window):
                self._drop_first()
        while self._meters and self.held_bytes > self._most_bytes:
            self._drop_first()

    def _first(self) -> M:
        return next(iter(self._meters.values()))

    def _drop_first(self) -> None:
        names = next(iter(self._meters))
        del self._meters[names]
        self.held_bytes -= _weight(names)


def _weight(names: Names) -> int:
    return METER_BYTES + 4 * sum(map(len, names))
