"""Values of the last time windows: how often they came, their sum and the largest, as Kafka's clients sample them.

A metric is made of ``metrics.num.samples`` windows of ``metrics.sample.window.ms`` each: averages and maxima are of
what came in them, rates are by the time that they cover. A window is changed by whoever counts first after its end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kohort.config.client import ClientConfig


class SampleWindows(NamedTuple):
    samples: int = 2
    window_ms: int = 30_000

    @classmethod
    def of(cls, config: ClientConfig) -> SampleWindows:
        return cls(config.metrics_num_samples, max(config.metrics_sample_window_ms, 1))


class _Window(NamedTuple):
    began_ms: int
    values: int
    sum: float
    most: float


class SampleReading(NamedTuple):
    """What there is to say of a metric: of the last windows, and of all time."""

    values: int
    sum: float
    most: float
    """NaN where nothing came of late."""
    rate: float
    """Of late, the sum by the second."""
    value_rate: float
    """Of late, how many came in a second."""
    ever: int
    total: float

    @property
    def average(self) -> float:
        return self.sum / self.values if self.values else math.nan


class Samples:
    __slots__ = ("_began_ms", "_count", "_ends_ms", "_most", "_over", "_past_count", "_past_sum", "_sum", "_windows")

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._over: deque[_Window] = deque(maxlen=max(windows.samples - 1, 0))
        self._began_ms = self._ends_ms = 0
        self._count = 0
        self._sum: float = 0
        self._most: float = -math.inf
        self._past_count = 0
        self._past_sum: float = 0

    def record(self, value: float, now_ms: int) -> None:
        if now_ms >= self._ends_ms:
            self._begin(now_ms)
        self._count += 1
        self._sum += value
        if value > self._most:
            self._most = value

    def _begin(self, now_ms: int) -> None:
        if self._count:
            self._over.append(_Window(self._began_ms, self._count, self._sum, self._most))
            self._past_count += self._count
            self._past_sum += self._sum
        self._began_ms, self._ends_ms = now_ms, now_ms + self._windows.window_ms
        self._count, self._sum, self._most = 0, 0, -math.inf

    def reading(self, now_ms: int) -> SampleReading:
        counts_from_ms = now_ms - self._windows.samples * self._windows.window_ms
        now = _Window(self._began_ms, self._count, self._sum, self._most)
        recent = [w for w in (*list(self._over), now) if w.values and w.began_ms > counts_from_ms]
        values, summed = sum(w.values for w in recent), sum(w.sum for w in recent)
        seconds = self._seconds(now_ms - recent[0].began_ms if recent else 0)
        return SampleReading(
            values=values,
            sum=summed,
            most=max((w.most for w in recent), default=math.nan),
            rate=summed / seconds,
            value_rate=values / seconds,
            ever=self._past_count + self._count,
            total=self._past_sum + self._sum,
        )

    def _seconds(self, covered_ms: int) -> float:
        """Return the time that rates are by. All windows but one count as whole, as in Kafka, so that the first value
        of a client's life is no flood."""
        window_ms = self._windows.window_ms
        missing = self._windows.samples - 1 - covered_ms // window_ms
        return max(covered_ms + max(missing, 0) * window_ms, 1) / 1000


def together(readings: Iterable[SampleReading]) -> SampleReading:
    found = list(readings)
    return SampleReading(
        values=sum(r.values for r in found),
        sum=sum(r.sum for r in found),
        most=max((r.most for r in found if r.values), default=math.nan),
        rate=sum(r.rate for r in found),
        value_rate=sum(r.value_rate for r in found),
        ever=sum(r.ever for r in found),
        total=sum(r.total for r in found),
    )
