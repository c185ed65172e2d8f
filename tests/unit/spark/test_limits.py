"""Limits of a micro-batch: its maximum records, maximum bytes and minimum records."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from kohort.model import TopicPartition
from kohort.spark.options.source import parse_source_options
from kohort.spark.reading.bounds import BatchLimits

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class SizedCluster:
    def __init__(self, **means: float) -> None:
        self.means = {TopicPartition("orders", int(name[1:])): mean for name, mean in means.items()}
        self.weighed: list[TopicPartition] = []
        self.now_s = 1000.0
        self.paused: list[float] = []

    def mean_bytes(self, tp: TopicPartition, offset: int) -> float:
        self.weighed.append(tp)
        return self.means[tp]

    def now(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.now_s += seconds


def limits(scales: SizedCluster, **options: str) -> BatchLimits:
    all_options = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", **options}
    return BatchLimits(parse_source_options(all_options, streaming=True), scales.now, scales.pause)


def end(made: BatchLimits, scales: SizedCluster, begin: int, head: int, *, finite: bool = False) -> int:
    return made.end(scales, {P0: begin}, {P0: head}, finite=finite)[P0]  # type: ignore[arg-type]


def test_byte_limit_uses_the_mean_record_size_and_later_measures_it_again() -> None:
    scales = SizedCluster(p0=200.0)
    made = limits(scales, maxBytesPerTrigger="2000")

    assert (end(made, scales, 0, 1000), end(made, scales, 10, 1000)) == (10, 20)
    assert scales.weighed == [P0]
    scales.now_s += 60
    scales.means[P0] = 1000.0
    assert end(made, scales, 20, 1000) == 22


def test_smaller_of_row_limit_and_byte_limit_applies_but_at_least_one_record_is_read() -> None:
    scales = SizedCluster(p0=10.0)
    assert end(limits(scales, maxBytesPerTrigger="2000", maxOffsetsPerTrigger="50"), scales, 0, 1000) == 50
    assert end(limits(scales, maxBytesPerTrigger="300", maxOffsetsPerTrigger="50"), scales, 0, 1000) == 30
    scales.means[P0] = 1e9
    assert end(limits(scales, maxBytesPerTrigger="300"), scales, 0, 1000) == 1


def test_byte_limit_of_a_micro_batch_is_divided_in_proportion_to_backlogs() -> None:
    scales = SizedCluster(p0=100.0, p1=300.0)
    made = limits(scales, maxBytesPerTrigger="20000")

    assert made.end(scales, {P0: 0, P1: 0}, {P0: 500, P1: 500}, finite=False) == {P0: 50, P1: 50}  # type: ignore[arg-type]


def test_micro_batch_with_too_few_records_waits_until_the_maximum_delay() -> None:
    scales = SizedCluster()
    made = limits(scales, minOffsetsPerTrigger="100", maxTriggerDelay="1s", idleWaitMs="400")

    assert end(made, scales, 0, 5) == 5, "the first micro-batch is not delayed"
    assert [end(made, scales, 5, 9) for _ in range(3)] == [5, 5, 5]
    assert scales.paused == pytest.approx([0.4, 0.4, 0.2])
    assert end(made, scales, 5, 9) == 9
    assert end(made, scales, 9, 300) == 300, "enough records for a micro-batch"


def test_micro_batch_up_to_a_fixed_end_does_not_wait_for_more_records() -> None:
    scales = SizedCluster()
    made = limits(scales, minOffsetsPerTrigger="100")

    assert (end(made, scales, 0, 5), end(made, scales, 5, 9, finite=True)) == (5, 9)
    assert scales.paused == []
