"""Sample windows of metrics: recent and total values."""

from __future__ import annotations

import math

import pytest

from kohort.client.metrics.counts import Samples, SampleWindows, merge

WINDOW_MS = 30_000


def samples(*values_at: tuple[float, int]) -> Samples:
    made = Samples(SampleWindows(2, WINDOW_MS))
    for value, at_ms in values_at:
        made.record(value, at_ms)
    return made


def test_metric_summary_without_values_is_empty():
    reading = samples().summary(1000)

    assert (reading.total_count, reading.total, reading.rate, reading.value_rate) == (0, 0, 0, 0)
    assert math.isnan(reading.average)
    assert math.isnan(reading.maximum)


def test_metric_average_and_maximum_are_of_recent_windows_and_total_is_of_all_time():
    made = samples((100, 0), (2, 40_000), (4, 75_000))

    reading = made.summary(76_000)

    assert (reading.average, reading.maximum) == (3, 4), "the first value is older than two windows"
    assert (reading.total_count, reading.total) == (3, 106)


def test_metric_without_recent_values_has_nan_average_and_zero_rate():
    made = samples((5, 0), (7, 1000))

    reading = made.summary(60_000)

    assert math.isnan(reading.average)
    assert reading.rate == 0
    assert reading.total == 12


def test_metric_rate_counts_windows_that_do_not_exist_yet_as_full():
    assert samples((60, 0)).summary(10).rate == pytest.approx(60 / 30, rel=0.01)
    assert samples((60, 0), (60, 31_000)).summary(45_000).rate == pytest.approx(120 / 45, rel=0.01)


def test_metric_maximum_of_negative_values_is_negative():
    assert samples((-5, 0), (-7, 1)).summary(2).maximum == -5


def test_merged_metrics_have_average_maximum_and_total_of_all_values():
    both = merge([samples((1, 0), (3, 0)).summary(1), samples((8, 0)).summary(1), samples().summary(1)])

    assert (both.average, both.maximum, both.total_count, both.total) == (4, 8, 3, 12)


def test_metric_with_single_window_has_average_of_that_window():
    made = Samples(SampleWindows(1, 1000))
    made.record(3, 0)
    made.record(5, 1500)

    assert made.summary(1600).average == 5
    assert made.summary(1600).total == 8


def test_metric_summary_changes_no_state():
    made = samples((1, 0))

    assert made.summary(500_000).total_count == made.summary(10).total_count == 1
    assert made.summary(10).average == 1
