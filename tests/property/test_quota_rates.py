"""Rates and tokens against the same rules written plainly, over any history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kohort.security.quotas.rates import QuotaWindow, TokenBucket, UsageRate

WINDOWS = st.builds(QuotaWindow, st.integers(1, 12), st.sampled_from([1, 100, 1_000]))
STEPS = st.lists(st.tuples(st.integers(0, 3_000), st.floats(0, 1e6)), min_size=1, max_size=40)
QUOTAS = st.floats(0.01, 1e7)


@dataclass
class Kept:
    """One sample, in a ring as Kafka's with one spare place."""

    start_ms: int = 0
    last_ms: int = 0
    used: float = 0.0


@dataclass
class NaiveRate:
    """Kafka's sampled rate: it resets expired samples in place, and iterates over all."""

    window: QuotaWindow
    ring: list[Kept] = field(default_factory=list)
    at: int = 0

    def record(self, used: float, now_ms: int) -> None:
        if not self.ring:
            self.ring.append(Kept(now_ms, now_ms))
        elif now_ms - self.ring[self.at].start_ms >= self.window.sample_ms:
            self.at = (self.at + 1) % (self.window.samples + 1)
            if self.at >= len(self.ring):
                self.ring.append(Kept())
            self.ring[self.at] = Kept(now_ms, now_ms)
        self.ring[self.at].used += used
        self.ring[self.at].last_ms = now_ms

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        for sample in self.ring:
            if now_ms - sample.last_ms >= self.window.samples * self.window.sample_ms:
                sample.start_ms, sample.last_ms, sample.used = now_ms, now_ms, 0.0
        elapsed_ms = now_ms - min(sample.start_ms for sample in self.ring)
        full = elapsed_ms // self.window.sample_ms
        if full < self.window.samples - 1:
            elapsed_ms += (self.window.samples - 1 - full) * self.window.sample_ms
        elapsed_ms = max(elapsed_ms, 1)
        rate = math.fsum(sample.used for sample in self.ring) / (elapsed_ms / 1000)
        return math.floor((rate - quota) / quota * elapsed_ms + 0.5) if rate > quota else 0


@given(WINDOWS, QUOTAS, STEPS)
def test_a_rate_throttles_as_long_as_the_plain_rules_say(
    window: QuotaWindow, quota: float, steps: list[tuple[int, float]]
) -> None:
    rate, naive, now_ms = UsageRate(), NaiveRate(window), 1_000_000
    for wait_ms, used in steps:
        now_ms += wait_ms
        rate.record(used, now_ms, window)
        naive.record(used, now_ms)
        assert rate.throttle_ms(quota, now_ms, window) == min(naive.throttle_ms(quota, now_ms), 2**31 - 1)


@given(WINDOWS, QUOTAS, STEPS)
def test_throttle_time_after_a_full_wait_is_at_most_the_time_before(
    window: QuotaWindow, quota: float, steps: list[tuple[int, float]]
) -> None:
    rate, now_ms = UsageRate(), 1_000_000
    for wait_ms, used in steps:
        now_ms += wait_ms
        rate.record(used, now_ms, window)
        now_ms += rate.throttle_ms(quota, now_ms, window)
        remaining_ms = rate.throttle_ms(quota, now_ms, window)
        # a new client counts as idle for one window
        assert remaining_ms <= window.whole_ms or remaining_ms == 2**31 - 1


@given(WINDOWS, QUOTAS, STEPS)
def test_expired_samples_have_no_effect(window: QuotaWindow, quota: float, steps: list[tuple[int, float]]) -> None:
    rate, now_ms = UsageRate(), 1_000_000
    for wait_ms, used in steps:
        now_ms += wait_ms
        if rate.is_expired(now_ms, window):
            rate.record(used, now_ms, window)
            fresh = UsageRate()
            fresh.record(used, now_ms, window)
            assert rate.throttle_ms(quota, now_ms, window) == fresh.throttle_ms(quota, now_ms, window)
        else:
            rate.record(used, now_ms, window)


@given(WINDOWS, QUOTAS, STEPS)
def test_tokens_are_never_more_than_the_burst_and_come_back_at_the_rate(
    window: QuotaWindow, quota: float, steps: list[tuple[int, float]]
) -> None:
    bucket, now_ms = TokenBucket(), 1_000_000
    burst = quota * window.samples * window.sample_ms / 1000
    plain = burst
    for wait_ms, count in steps:
        now_ms += wait_ms
        plain = min(burst, plain + quota * wait_ms / 1000)
        assert math.isclose(bucket.tokens(quota, now_ms, window), plain, rel_tol=1e-9, abs_tol=1e-6)
        bucket.take(count, quota, now_ms, window)
        plain -= count
        throttle_ms = bucket.throttle_ms(quota, now_ms, window)
        assert (throttle_ms > 0) <= (plain < 1e-6)
        if throttle_ms < 2**31 - 1:
            assert bucket.throttle_ms(quota, now_ms + throttle_ms, window) <= 1
