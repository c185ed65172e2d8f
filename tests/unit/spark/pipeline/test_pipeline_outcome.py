"""Comparison of the expected rows of a pipeline test with its output rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

pytest.importorskip("pyspark")

from kohort.spark.pipeline.file_tests import compare_rows, same


def test_expected_rows_match_in_any_order_and_other_columns_are_ignored() -> None:
    found = [{"id": 1, "n": 2, "x": "?"}, {"id": 2, "n": 5, "x": "?"}]

    assert compare_rows("rows", [{"id": 2}, {"id": 1, "n": 2}], found) == []


def test_missing_expected_row_is_shown_with_the_most_similar_output_row() -> None:
    assert compare_rows("rows", [{"id": 1, "n": 3}], [{"id": 1, "n": 2, "x": "?"}]) == [
        'rows: missing {"id": 1, "n": 3}; nearest: {"id": 1, "n": 2}'
    ]


def test_unexpected_row_is_shown_and_an_expected_row_matches_only_one_output_row() -> None:
    twice = [{"id": 1}, {"id": 1}]

    assert compare_rows("dlq", [], [{"id": 1}]) == ['dlq: not expected {"id": 1}']
    assert compare_rows("rows", [{"id": 1}], twice) == ['rows: not expected {"id": 1}']


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T01:00:00+01:00"),
        (date(2026, 1, 1), date(2026, 1, 1)),
        ("2026-01-01", date(2026, 1, 1)),
        (0.3, 0.1 + 0.2),
        (12, Decimal("12.00")),
        ({"x": 1}, {"x": 1, "y": 2}),
        (["a"], ["a"]),
        ("text", b"text"),
        (None, None),
    ],
)
def test_expected_value_in_pipeline_file_matches_an_equal_spark_value(expected: object, found: object) -> None:
    assert same(expected, found)


@pytest.mark.parametrize(
    ("expected", "found"), [(1, True), ("1", 1), (None, 0), ("soon", datetime(2026, 1, 1, tzinfo=UTC))]
)
def test_expected_value_in_pipeline_file_does_not_match_a_different_spark_value(
    expected: object, found: object
) -> None:
    assert not same(expected, found)
