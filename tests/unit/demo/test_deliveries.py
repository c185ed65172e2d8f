"""Missing and repeated deliveries, counted from the offsets that members write to their files."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kohort.demo.checks import OffsetRun, count_deliveries, read_notes


def test_uncommitted_records_of_the_killed_member_count_as_redelivered() -> None:
    runs = [OffsetRun("member-2", 0, 0, 99), OffsetRun("member-1", 0, 80, 199), OffsetRun("member-3", 1, 0, 49)]

    counted = count_deliveries(runs, {0: 200, 1: 50})

    assert (counted.deliveries, counted.distinct, counted.again, counted.missing) == (270, 250, 20, {})
    assert counted.by_member == {"member-1": 120, "member-2": 100, "member-3": 50}


def test_missing_record_is_named() -> None:
    counted = count_deliveries([OffsetRun("m", 0, 5, 9), OffsetRun("m", 0, 12, 14)], {0: 20, 1: 3})

    assert counted.missing == {0: [(0, 4), (10, 11), (15, 19)], 1: [(0, 2)]}
    assert counted.distinct == 8


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=15))
def test_overlapping_deliveries_are_counted_once(pieces: list[tuple[int, int]]) -> None:
    runs = [OffsetRun("m", 0, first, first + more) for first, more in pieces]
    offsets = {o for r in runs for o in range(r.first, r.last + 1)}

    counted = count_deliveries(runs, {0: 51})

    assert counted.distinct == len(offsets)
    gaps = {o for first, last in counted.missing.get(0, []) for o in range(first, last + 1)}
    assert gaps == set(range(51)) - offsets


def test_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    notes = tmp_path / "member-2.jsonl"
    notes.write_text('{"partition": 0, "first": 0, "last": 9}\n{"partition": 0, "fir')

    assert read_notes([notes]) == [OffsetRun("member-2", 0, 0, 9)]
