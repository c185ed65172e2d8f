"""Decoding of record values into columns. A bad value does not affect the other rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.errors import ConfigError  # noqa: E402 - behind importorskip
from kohort.spark.values.value_format import ValueFormat  # noqa: E402 - behind importorskip

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])


def decode(values: list[bytes | None], schema: Any = SCHEMA, kind: str = "json") -> tuple[list[tuple], dict]:
    decoded = ValueFormat(kind, schema).decode(pa.array(values, pa.binary()))
    rows = list(zip(*(column.to_pylist() for column in decoded.columns), strict=True))
    return rows, decoded.problems


def test_json_values_become_typed_columns_and_missing_fields_are_null() -> None:
    rows, problems = decode(
        [b'{"id": 1, "name": "a", "at": "2013-01-01T05:00:00Z", "more": [1]}', b' {"name": null}\n', b'{\n"id": 3}']
    )

    assert rows == [(1, "a", datetime(2013, 1, 1, 5, tzinfo=UTC)), (None, None, None), (3, None, None)]
    assert problems == {}


def test_decoded_rows_keep_their_positions_if_some_values_are_bad() -> None:
    bad = {
        1: b"not json",
        2: b"",
        5: b'{"id": "x"}',
        6: b'{"id": 1}{"id": 2}',
        7: b'{"id": {"a": 1}',
        8: b'{"name": "\xff"}',
        9: b"[1]",
        11: b'{"id": 1.5}',
    }
    values = [bad.get(n, b'{"id": %d}' % n) for n in range(13)]

    rows, problems = decode(values)

    assert set(problems) == set(bad)
    assert [row[0] for row in rows] == [None if n in bad else n for n in range(13)]
    assert problems[5] == "column 'id': expected int64, found \"x\""


def test_decoded_rows_are_null_if_all_values_are_bad() -> None:
    rows, problems = decode([b"x", b""])

    assert (rows, set(problems)) == ([(None, None, None)] * 2, {0, 1})
    assert decode([]) == ([], {})


def test_nested_and_special_json_types_are_decoded() -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("at", pa.struct([("x", pa.int32())])),
        ]
    )

    rows, problems = decode([b'{"day": "2013-01-02", "price": 1.5, "tags": ["a"], "at": {"x": 1}}'], schema)

    assert (rows, problems) == ([(date(2013, 1, 2), Decimal("1.50"), ["a"], {"x": 1})], {})
    assert set(decode([b'{"day": "soon"}', b'{"day": null}'], schema)[1]) == {0}


def test_csv_record_with_quotes_or_line_ends_is_one_row() -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    values = [b'1,"5 inch', b'2,6" pipe', b"3,x\r4,y", b"5,z\r\n", b'6,"open', b'7,"two\nlines"', b"8,last"]

    rows, problems = decode(values, schema, "csv")

    assert set(problems) == {0, 2, 4}
    assert rows == [
        (None, None), (2, '6" pipe'), (None, None), (5, "z"), (None, None), (7, "two\nlines"), (8, "last")
    ]  # fmt: skip


def test_invalid_csv_record_affects_only_its_own_row() -> None:
    rows, problems = decode(
        [b"1,a,2013-01-01T05:00:00Z", b'2,"b, c",', b"3,d", b"x,e,", b"4,f,\n5,g,", b"", None, b"7,\xe9,", b"8,,"],
        SCHEMA,
        "csv",
    )

    assert rows[:2] == [(1, "a", datetime(2013, 1, 1, 5, tzinfo=UTC)), (2, "b, c", None)]
    assert rows[8] == (8, None, None)
    assert set(problems) == {2, 3, 4, 5, 7}
    assert problems[2] == "the CSV value has 2 fields, expected 3"
    assert problems[3].startswith("column 'id': expected an integer")


def test_csv_quotes_with_backslash_are_accepted_unless_ambiguous() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])

    rows, problems = decode([rb'"say \"hi\"",x', rb'"a\",b', rb'"a\",b,"c\""', rb'"a""b",""'], schema, "csv")

    assert rows == [('say "hi"', "x"), ("a\\", "b"), (None, None), ('a"b', "")]
    assert set(problems) == {2}


@pytest.mark.parametrize(
    ("kind", "column"),
    [("json", pa.map_(pa.int32(), pa.int64())), ("json", pa.duration("s")), ("csv", pa.list_(pa.int64()))],
)
def test_column_type_that_the_value_format_does_not_support_is_rejected(kind: str, column: Any) -> None:
    with pytest.raises(ConfigError, match=rf"column 'c': value.format={kind} does not support"):
        ValueFormat(kind, pa.schema([("c", column)]))
