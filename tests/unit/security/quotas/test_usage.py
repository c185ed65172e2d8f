"""What is remembered of who used what stays small, and is forgotten only where nobody can tell or there is no room."""

from __future__ import annotations

from kohort.security.quotas.rates import METER_BYTES, QuotaWindow, Usage, UsageRate

WINDOW = QuotaWindow(11, 1000)


def test_whoever_used_nothing_for_a_window_is_forgotten_as_others_come():
    usage = Usage(UsageRate, WINDOW)
    for i in range(100):
        usage.of(("", f"old {i}"), 0).record(1, 0, WINDOW)
    for i in range(60):
        usage.of(("", f"new {i}"), 11_000).record(1, 11_000, WINDOW)

    assert len(usage) == 60


def test_strangers_with_ever_new_names_take_no_more_than_there_is_for_them():
    usage = Usage(UsageRate, WINDOW, most_bytes=10 * METER_BYTES)
    for i in range(1000):
        usage.of(("", f"{i}"), i).record(1, i, WINDOW)
    assert len(usage) <= 10

    usage.of(("", "x" * 32_000), 1000)
    usage.of(("", "y" * 32_000), 1000)
    assert len(usage) == 1, "long names count for more"


def test_whoever_was_silent_for_the_longest_goes_first():
    usage = Usage(UsageRate, WINDOW, most_bytes=3 * METER_BYTES)
    busy = usage.of(("alice", ""), 0)
    for i in range(20):
        busy.record(1, i, WINDOW)
        usage.of(("", f"{i}"), i).record(1, i, WINDOW)
        assert usage.of(("alice", ""), i) is busy
