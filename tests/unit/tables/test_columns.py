"""The rule by which Arrow types become types of Delta and Iceberg, and rows fit into a table."""

import datetime
import decimal

import pyarrow as pa
import pytest

from kohort.errors import TableError
from kohort.tables.columns import DELTA, ICEBERG, fit_rows, new_columns, stored_schema, stored_type
from support.tables import FORMATS, rows_of, sink_in

EPOCH = datetime.datetime.fromisoformat("1970-01-01T00:00:00")
NOON = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.UTC)
VALUES = {
    "u8": pa.array([255], pa.uint8()),
    "u32": pa.array([2**32 - 1], pa.uint32()),
    "u64": pa.array([2**64 - 1], pa.uint64()),
    "i16": pa.array([-3], pa.int16()),
    "half": pa.array([1.5], pa.float16()),
    "word": pa.array(["x"]).dictionary_encode(),
    "large": pa.array(["x"], pa.large_string()),
    "raw": pa.array([b"ab"], pa.binary(2)),
    "day": pa.array([datetime.date(2026, 11, 28)], pa.date64()),
    "ns": pa.array([1_001], pa.timestamp("ns")),
    "zoned": pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")),
    "money": pa.array([decimal.Decimal("1.50")], pa.decimal256(10, 2)),
    "tags": pa.array([[1]], pa.large_list(pa.uint16())),
    "nested": pa.array([{"at": 1}], pa.struct([("at", pa.timestamp("s"))])),
    "counts": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint8())),
}
STORED = {
    "u8": 255,
    "u32": 2**32 - 1,
    "u64": decimal.Decimal(2**64 - 1),
    "i16": -3,
    "half": 1.5,
    "word": "x",
    "large": "x",
    "raw": b"ab",
    "day": datetime.date(2026, 11, 28),
    "ns": EPOCH + datetime.timedelta(microseconds=1),
    "zoned": NOON,
    "money": decimal.Decimal("1.50"),
    "tags": [1],
    "nested": {"at": EPOCH + datetime.timedelta(seconds=1)},
    "counts": [("a", 1)],
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_mapped_type_is_stored_with_its_value(tmp_path, form):
    rows = pa.table(VALUES)
    sink = sink_in(tmp_path, form)
    sink.open(rows.schema)
    sink.commit(rows, [])

    assert rows_of(sink) == [STORED]


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (pa.duration("us"), DELTA),
        (pa.duration("us"), ICEBERG),
        (pa.time64("us"), DELTA),
        (pa.decimal256(40, 0), ICEBERG),
        (pa.null(), DELTA),
        (pa.list_(pa.duration("s")), ICEBERG),
        (pa.struct([("a", pa.time32("s"))]), DELTA),
        (pa.map_(pa.string(), pa.month_day_nano_interval()), ICEBERG),
    ],
)
def test_a_type_that_the_format_does_not_store_is_refused_with_its_column(kind, form):
    with pytest.raises(TableError, match=f"{form.name} does not store column 'c' .*: cast it in transform="):
        stored_schema(pa.schema([("c", kind)]), form)


def test_iceberg_stores_times_and_delta_small_integers():
    assert stored_type(pa.time32("s"), ICEBERG) == pa.time64("us")
    assert stored_type(pa.int8(), ICEBERG) == pa.int32()
    assert stored_type(pa.int8(), DELTA) == pa.int8()


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(TableError, match="two columns 'a'"):
        stored_schema(pa.schema([("a", pa.int32()), ("a", pa.string())]), DELTA)


def test_narrower_numbers_fit_and_missing_columns_are_null():
    table = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("later", pa.string())])
    rows = pa.table({"x": pa.array([0.5], pa.float32()), "n": pa.array([7], pa.int16())})

    assert new_columns(rows.schema, table, "the table") == []
    assert fit_rows(rows, table).to_pylist() == [{"n": 7, "x": 0.5, "later": None}]


@pytest.mark.parametrize("kind", [pa.string(), pa.int32(), pa.float64()])
def test_a_column_of_another_type_is_refused(kind):
    table, rows = pa.schema([("n", kind)]), pa.schema([("n", pa.int64())])
    with pytest.raises(TableError, match=f"the table has column 'n' of type {kind}, the rows have int64"):
        new_columns(rows, table, "the table")
