from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from kohort.spark.sending.send import Origin, add_headers, delivery_headers  # noqa: E402 - behind importorskip

ORIGIN = Origin("q", "7", 3)
OWN = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def pairs(column: Any) -> list[list[tuple[str, bytes | None]]]:
    return [[(h["key"], h["value"]) for h in row] for row in column.to_pylist()]


def named(row: int) -> list[tuple[str, bytes]]:
    return [
        ("kohort-query", b"q"),
        ("kohort-batch", b"7"),
        ("kohort-task", b"3"),
        ("kohort-row", str(row).encode()),
    ]


def test_rows_without_headers_are_sent_with_four_delivery_headers() -> None:
    assert pairs(add_headers(None, 2, delivery_headers(ORIGIN, 10, 2))) == [named(10), named(11)]


def test_headers_of_a_sliced_arrow_array_precede_the_delivery_headers() -> None:
    own = pa.array(
        [
            [{"key": "cut", "value": b"off"}],
            [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
            None,
            [],
            [{"key": "b", "value": b""}],
        ],
        OWN,
    )[1:]

    found = pairs(add_headers(own, 4, delivery_headers(ORIGIN, 0, 4)))

    assert found == [[("a", b"1"), ("a", None), *named(0)], named(1), named(2), [("b", b""), *named(3)]]
