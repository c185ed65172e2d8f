"""Plan of a micro-batch: row limit of each partition, tasks, and records lost before they were read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.model import TopicPartition
from kohort.spark.options.offsets import (
    Loss,
    Range,
    as_json,
    by_partition,
    find_losses,
    parse_offsets,
    plan_tasks,
    ranges_between,
    share_limit,
)

P0, P1, P2 = (TopicPartition("orders", n) for n in range(3))


def test_offsets_json_has_the_format_of_sparks_kafka_connector() -> None:
    assert parse_offsets('{"orders": {"0": 1000, "1": -2}}') == {"orders": {0: 1000, 1: -2}}
    assert as_json({P1: 7, P0: 3}) == {"orders": {"0": 3, "1": 7}}
    assert by_partition({"orders": {"0": 3}}) == {P0: 3}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"orders": 3}', '{"orders": {"0": "x"}}', '{"orders": {"0": -3}}', '{"o": {"x": 1}}']
)
def test_invalid_offsets_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|expected a JSON object|expected a partition number and an offset"):
        parse_offsets(text)


def test_row_limit_is_divided_in_proportion_to_backlogs_and_starves_no_partition() -> None:
    limited = share_limit({P0: 0, P1: 0, P2: 5}, {P0: 9000, P1: 10, P2: 5}, 1000)

    assert limited == {P0: 999, P1: 1, P2: 5}


@pytest.mark.parametrize("most", [1, 2, 3, 10, 999, 1000, 2500])
@pytest.mark.parametrize("rows", [(333, 333, 334), (5000, 5000, 5000), (7, 2500, 0)])
def test_micro_batch_reaches_the_row_limit_exactly_and_gives_each_partition_a_row(
    rows: tuple[int, ...], most: int
) -> None:
    start = {P0: 10, P1: 20, P2: 30}
    end = {tp: start[tp] + n for tp, n in zip(start, rows, strict=True)}
    taken = {tp: offset - start[tp] for tp, offset in share_limit(start, end, most).items()}

    assert all(min(n, 1) <= taken[tp] <= n for tp, n in zip(start, rows, strict=True))
    sure = sum(1 for n in rows if n)
    assert sum(taken.values()) == min(sum(rows), max(most, sure))


def test_row_limit_is_exceeded_so_that_each_partition_with_a_backlog_gets_a_row() -> None:
    assert share_limit({P0: 0, P1: 0, P2: 0}, {P0: 1, P1: 1, P2: 998}, 10) == {P0: 1, P1: 1, P2: 9}


def test_row_limit_that_equals_the_backlog_includes_all_records() -> None:
    assert share_limit({P0: 3, P1: 0}, {P0: 10, P1: 10}, 17) == {P0: 10, P1: 10}


def test_small_partitions_share_a_task_and_a_large_partition_is_split() -> None:
    plan = plan_tasks([Range("orders", 0, 0, 10), Range("orders", 1, 0, 10), Range("orders", 2, 0, 180)], 100)

    assert plan == [
        [Range("orders", 0, 0, 10), Range("orders", 1, 0, 10), Range("orders", 2, 0, 80)],
        [Range("orders", 2, 80, 180)],
    ]


@pytest.mark.heavy
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 3000)), max_size=12), st.integers(1, 700))
def test_tasks_cover_each_offset_once_and_respect_the_task_size(parts: list[tuple[int, int]], size: int) -> None:
    start = {TopicPartition("t", i): first for i, (first, _) in enumerate(parts)}
    end = {TopicPartition("t", i): first + rows for i, (first, rows) in enumerate(parts)}

    plan = plan_tasks(ranges_between(start, end), size)

    read = sorted((r.partition, offset) for task in plan for r in task for offset in range(r.start, r.end))
    assert read == [(i, o) for i, (first, rows) in enumerate(parts) for o in range(first, first + rows)]
    assert all(sum(r.rows for r in task) <= size for task in plan)


def test_records_deleted_before_they_were_read_count_as_data_loss() -> None:
    losses = find_losses({P0: 5, P1: 50, P2: 7}, {P0: 10, P1: 0, P2: 0}, {P0: 100, P1: 20, P2: 7})

    assert losses == [Loss(P0, 5, 10, 100), Loss(P1, 50, 0, 20)]
    assert str(losses[0]) == "orders-0: offsets 5 to 9 were deleted before they were read"
    assert "truncated or recreated" in str(losses[1])
