"""JSON values to columns: requested types, missing fields, malformed JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kohort.columns.conversions import raise_first_problem
from kohort.columns.json_values.columns import json_columns
from kohort.columns.layout import Layout
from kohort.errors import UndecodableValue, UsageError

FLIGHT = pa.schema(
    [("flight", pa.string()), ("delay", pa.int32()), ("at", pa.timestamp("s")), ("stops", pa.list_(pa.string()))]
)


def parsed(values: list[bytes | None], schema: pa.Schema = FLIGHT) -> list[dict[str, object]]:
    offsets = pa.array(range(100, 100 + len(values)), pa.int64())
    decoded = json_columns(pa.array(values, pa.binary()), schema)
    raise_first_problem(decoded, offsets, "JSON", topic="t", partition=3)
    return pa.RecordBatch.from_arrays(decoded.columns, schema=schema).to_pylist()


def test_json_fields_outside_schema_are_skipped():
    value = {"flight": "LH 400", "delay": 12, "at": "2024-05-01 10:00:00", "stops": ["FRA", "JFK"], "more": {"x": 1}}
    (row,) = parsed([json.dumps(value).encode()])

    assert (row["flight"], row["delay"], row["stops"]) == ("LH 400", 12, ["FRA", "JFK"])
    assert str(row["at"]) == "2024-05-01 10:00:00"


def test_tombstones_and_missing_fields_are_null():
    nothing = dict.fromkeys(FLIGHT.names)
    assert parsed([None, b"{}", b'{"delay": 3}', b'{"delay": null}']) == [
        nothing,
        nothing,
        {**nothing, "delay": 3},
        nothing,
    ]
    assert parsed([]) == []


def test_json_value_may_have_whitespace():
    rows = parsed([b'{"delay": 1}\n', b' {\n  "flight": "a\\nb",\n  "delay": 2\n}', b'{"delay":3}'])
    assert [r["delay"] for r in rows] == [1, 2, 3]
    assert rows[1]["flight"] == "a\nb"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"   ",
        b"5",
        b"[1]",
        b"null",
        b"{",
        b'{"delay": 1} {"delay": 2}',
        b'{"delay": 1}{"flight": "}',
        b'{"delay": "late"}',
        b'{"delay": 1.5}',
        b'{"stops": "FRA"}',
        b'{"at": "yesterday"}',
        b"\xff\xfe",
        b'{"flight": "\xff"}',
    ],
)
@pytest.mark.parametrize("place", [0, 1, 6])
def test_first_invalid_json_value_error_has_offset(bad, place):
    values = [b'{"delay": %d}' % n for n in range(7)]
    values[place] = bad
    values.append(b"also bad")
    with pytest.raises(
        UndecodableValue, match=rf"t-3 at offset {100 + place}: the value is not JSON of the schema"
    ) as e:
        parsed(values)
    assert e.value.offset == 100 + place


def test_two_invalid_values_do_not_cancel_out():
    with pytest.raises(UndecodableValue) as error:
        parsed([b'{"delay": 0}', b'{"delay": 1} {"delay": 2}', b""])
    assert error.value.offset == 101


def test_null_in_non_nullable_json_column_is_a_problem():
    schema = pa.schema([pa.field("delay", pa.int32(), nullable=False)])
    assert parsed([b'{"delay": 1}'], schema) == [{"delay": 1}]
    with pytest.raises(UndecodableValue, match=r"required field was absent|no delay"):
        parsed([b'{"delay": 1}', b"{}"], schema)


def test_large_json_value_is_read():
    big = b'{"flight": "%s", "delay": 1}' % (b"x" * 3_000_000)
    assert [r["delay"] for r in parsed([big, b'{"delay": 2}'])] == [1, 2]


def test_layout_has_record_and_value_columns():
    layout = Layout(columns=["offset", "key"], json=FLIGHT)
    assert layout.schema.names == ["offset", "key", *FLIGHT.names]
    assert layout.decoded.names == ["offset", "key", "value"]
    assert "value" not in Layout(json=FLIGHT).schema.names
    assert "value" in Layout(columns=["value"], json=FLIGHT).schema.names


def test_duplicate_layout_columns_are_rejected():
    with pytest.raises(UsageError, match="'timestamp' is a column of the record and of its JSON value"):
        Layout(json=pa.schema([("timestamp", pa.string())]))
    with pytest.raises(UsageError, match="names 'a' twice"):
        Layout(json=pa.schema([("a", pa.string()), ("a", pa.string())]))
    with pytest.raises(UsageError, match="no column"):
        Layout(json=pa.schema([]))
    with pytest.raises(UsageError, match=r"column 'a': map<int32, string> cannot be read from JSON"):
        Layout(json=pa.schema([("a", pa.map_(pa.int32(), pa.string()))]))


def test_json_errors_keeps_row_of_malformed_value():
    layout = Layout(
        columns=["offset"], json=pa.schema([pa.field("delay", pa.int32(), nullable=False)]), json_errors=True
    )
    values = [b'{"delay": 1}', b"{}", b'{"delay": "late"}', b'{"delay": 4}']
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(4), pa.int64()), pa.array(values, pa.binary())], schema=layout.decoded
    )

    rows = layout.finish(batch, "t", 0).to_pylist()

    assert [(row["offset"], row["delay"]) for row in rows] == [(0, 1), (1, None), (2, None), (3, 4)]
    assert [row["json_error"] for row in rows] == [
        None, "no delay", "column 'delay': expected int32, found \"late\"", None
    ]  # fmt: skip


def test_json_errors_needs_json_schema():
    with pytest.raises(UsageError, match="json_errors=True needs json="):
        Layout(json_errors=True)
    with pytest.raises(UsageError, match="the JSON schema has a column 'json_error'"):
        Layout(json=pa.schema([("json_error", pa.string())]), json_errors=True)


FLAT = pa.schema([("flight", pa.string()), pa.field("delay", pa.int32(), nullable=False)])


def test_flat_and_nested_values_keep_their_order():
    plain = [b'{"flight": "LH %d", "delay": %d}' % (n, n) for n in range(500)]
    plain[250] = rb'{"flight": "LH \u0032\"", "delay": 250, "more": {"nested": [1]}}'
    plain[499] = b'{"delay": 499}'

    rows = parsed(plain, FLAT)

    assert [row["delay"] for row in rows] == list(range(500))
    assert [rows[at]["flight"] for at in (0, 250, 251, 499)] == ["LH 0", 'LH 2"', "LH 251", None]


@pytest.mark.parametrize("bad", [b'{"delay": "late"}', b'{"flight": "LH 1"}', b'{"delay": 1', b'{"delay": 3e9}', None])
def test_first_invalid_flat_value_error_has_offset(bad):
    values = [b'{"delay": 1}'] * 300
    values[200] = bad

    with pytest.raises(UndecodableValue) as refused:
        parsed(values, FLAT)

    assert refused.value.offset == 300
