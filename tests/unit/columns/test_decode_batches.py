"""Record batches to Arrow columns, in the requested schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kohort.columns import decode as requested
from kohort.columns.batches import OffsetRange, ReadOptions
from kohort.columns.decode import (
    REMEMBERED_MOST,
    check_room,
    column_for,
    decode_batches,
    decode_chunks,
    requested_columns,
)
from kohort.columns.records import records_of
from kohort.columns.schema import COLUMNS, HEADERS_TYPE, record_schema
from kohort.errors import CorruptRecord, UsageError
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch

ALL = (*COLUMNS, "headers")
MIXED = [
    NewRecord(b"k0", b"v0", [], 1000),
    NewRecord(None, b"v1", [("trace", b"abc"), ("empty", b""), ("none", None)], 1005),
    NewRecord(b"", None, [], 990),
    NewRecord("k\u00e9".encode() * 100, b"x" * 5000, [("h", b"y" * 300)], 5_000_000),
]


def decode(buf, *, start_offset=0, end_offset=None, schema=None, columns=None, **options):
    offset_range = OffsetRange("t", 2, start_offset, end_offset)
    batch = decode_batches(buf, offset_range, schema=schema, columns=columns, options=ReadOptions(**options))
    batch.validate(full=True)
    return batch


def rows_of(batch):
    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns["timestamp"].cast(pa.int64()).to_pylist()
    plain = {name: column.to_pylist() for name, column in columns.items() if name != "timestamp"}
    return [
        (
            plain["topic"][i],
            plain["partition"][i],
            plain["offset"][i],
            -1 if times[i] is None else times[i],
            plain["key"][i],
            plain["value"][i],
            tuple((h["key"], h["value"]) for h in plain["headers"][i]),
            plain["timestamp_type"][i],
        )
        for i in range(batch.num_rows)
    ]


def expected_of(buf, **options):
    found = records_of(buf, OffsetRange("t", 2, 0), ReadOptions(**options))
    return [
        (r.topic, r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers, r.timestamp_type) for r in found
    ]


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_decodes_to_rows_equal_to_records(codec):
    data = b"".join(build_batch(MIXED, base_offset=4 * i, codec=codec) for i in range(3))

    batch = decode(data + data[:50], columns=ALL)

    assert batch.schema == record_schema(ALL)
    assert rows_of(batch) == expected_of(data)


def test_batches_of_mixed_codecs_times_and_gaps_make_one_record_batch():
    data = b"".join(
        [
            build_batch(MIXED, base_offset=0),
            build_batch(MIXED, base_offset=10, codec=Codec.ZSTD, log_append_time_ms=99),
            build_batch([NewRecord(bytes(4), bytes(6))], base_offset=14, producer_id=1, is_control=True),
            build_batch([NewRecord(None, None)] * 3, base_offset=15, codec=Codec.GZIP),
        ]
    )

    batch = decode(data, columns=ALL)

    assert rows_of(batch) == expected_of(data)
    assert batch["timestamp_type"].to_pylist() == [0] * 4 + [1] * 4 + [0] * 3
    assert batch["timestamp"].null_count == 3


def test_headers_column_is_optional_and_never_null():
    data = build_batch([NewRecord(b"k", b"v", [], 1)] * 5)

    assert decode(data).schema.names == list(COLUMNS)
    headers = decode(data, columns=["headers"]).column(0)
    assert headers.type == HEADERS_TYPE
    assert headers.null_count == 0
    assert headers.to_pylist() == [[]] * 5


def test_requested_columns_are_built_in_order():
    batch = decode(build_batch(MIXED), columns=["value", "offset"])

    assert batch.schema.names == ["value", "offset"]
    assert batch["value"].to_pylist() == [r.value for r in MIXED]


def test_requested_schema_is_returned_exactly():
    schema = pa.schema(
        [
            pa.field("timestampType", pa.int32()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("value", pa.large_binary()),
            pa.field("key", pa.string()),
            pa.field("topic", pa.large_string()),
            pa.field("partition", pa.int64(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("headers", pa.list_(pa.field("element", HEADERS_TYPE.value_type))),
        ],
        metadata={"origin": "user"},
    )
    data = build_batch(MIXED, base_offset=5)

    batch = decode(data, schema=schema)

    assert batch.schema.equals(schema, check_metadata=True)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [1000 * r.timestamp_ms for r in MIXED]
    assert batch["key"].to_pylist() == ["k0", None, "", "k\u00e9" * 100]
    assert batch["offset"].to_pylist() == [5, 6, 7, 8]


@pytest.mark.parametrize(("unit", "expected"), [("s", 1), ("ms", 1005), ("us", 1_005_000), ("ns", 1_005_000_000)])
def test_timestamps_have_the_requested_unit(unit, expected):
    schema = pa.schema([pa.field("timestamp", pa.timestamp(unit, "UTC"))])

    assert decode(build_batch(MIXED), schema=schema)[0].cast(pa.int64())[1].as_py() == expected


def test_missing_timestamp_is_null_or_minus_one():
    data = build_batch([NewRecord(b"k", b"v")])

    for nullable, expected in ((True, None), (False, -1)):
        schema = pa.schema([pa.field("timestamp", pa.int64(), nullable=nullable)])
        assert decode(data, schema=schema)[0].to_pylist() == [expected]


def test_timestamp_out_of_unit_range_is_corrupt():
    data = build_batch([NewRecord(b"k", b"v", (), 1 << 60)])

    with pytest.raises(CorruptRecord, match="t-2 at offset 0: a timestamp does not fit"):
        decode(data, schema=pa.schema([pa.field("timestamp", pa.timestamp("ns"))]))


def test_invalid_utf8_value_error_has_batch_offset():
    data = build_batch([NewRecord(None, b"good")] * 3) + build_batch([NewRecord(None, b"\xff\xfe")], base_offset=3)

    with pytest.raises(CorruptRecord, match="t-2 at offset 3: the value is not UTF-8"):
        decode(data, schema=pa.schema([pa.field("value", pa.string())]))


def test_null_in_non_nullable_column_raises_usage_error():
    with pytest.raises(UsageError, match="column 'key' is not nullable, but 1 of 4"):
        decode(build_batch(MIXED), schema=pa.schema([pa.field("key", pa.binary(), nullable=False)]))


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        (pa.field("key", pa.int64()), "binary, string"),
        (pa.field("offset", pa.int32()), "int64"),
        (pa.field("timestamp", pa.date32()), "a timestamp"),
        (pa.field("headers", pa.list_(pa.binary())), "list<struct"),
        (pa.field("topic", pa.int8()), "string"),
    ],
)
def test_unsupported_column_type_error_lists_types(field, allowed):
    with pytest.raises(UsageError, match=f"column {field.name!r} has type .*, expected .*{allowed}"):
        decode(b"", schema=pa.schema([field]))


def test_unknown_column_error_lists_columns():
    with pytest.raises(UsageError, match="no column 'colour', only topic, partition"):
        decode(b"", columns=["colour"])


def test_empty_buffer_decodes_to_empty_batch():
    for data in (b"", b"\0" * 20, build_batch(MIXED)[:-1]):
        batch = decode(data, columns=ALL)
        assert (batch.num_rows, batch.schema) == (0, record_schema(ALL))
    assert decode(build_batch(MIXED), start_offset=4).num_rows == 0


def test_offsets_outside_span_are_skipped():
    data = b"".join(build_batch(MIXED, base_offset=4 * i) for i in range(4))

    assert decode(data, start_offset=6, end_offset=11)["offset"].to_pylist() == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_chunks_limit_memory_and_keep_all_rows(codec):
    data = b"".join(
        build_batch([NewRecord(None, bytes(1000))] * 10, base_offset=10 * i, codec=codec) for i in range(20)
    )

    chunks = list(decode_chunks(data, OffsetRange("t", 2, 5), chunk_bytes=30_000))

    assert [offset for chunk in chunks for offset in chunk["offset"].to_pylist()] == list(range(5, 200))
    assert len(chunks) == 7
    assert max(chunk.nbytes for chunk in chunks) < 40_000


def test_column_above_2_gigabytes_error_has_advice():
    with pytest.raises(UsageError, match=r"too many for binary: use large_binary .* or decode in chunks"):
        check_room(1 << 31, column_for(pa.field("value", pa.binary())))
    check_room(1 << 31, column_for(pa.field("value", pa.large_binary())))
    check_room((1 << 31) - 1, column_for(pa.field("value", pa.binary())))


def test_schema_cache_is_limited():
    batch = build_batch([NewRecord(b"k", b"v", (), 1)])
    for n in range(3 * REMEMBERED_MOST):
        kind = pa.large_binary() if n % 2 else pa.string()
        found = decode_batches(batch, OffsetRange("t", 0, 0), schema=pa.schema([("value", kind)]))
        assert found.schema.field(0).type == kind
        assert found.column(0).to_pylist() == [b"v" if n % 2 else "v"]
    kept = requested_columns(record_schema())
    assert requested_columns(record_schema()) is kept
    assert len(requested._remembered) == REMEMBERED_MOST


def test_invalid_utf8_header_name_has_replacements_in_column():
    good = build_batch([NewRecord(b"k", b"v", [("ok", b"1")], 1)] * 3)
    bad = build_batch([NewRecord(b"k", b"v", [("ok", b"1"), ("abcd", b"2")], 1)], base_offset=3).replace(
        b"abcd", b"a\xff\xfed"
    )

    batch = decode(good + bad, columns=["headers"], check_crcs=False)
    records = records_of(good + bad, OffsetRange("t", 2, 0), ReadOptions(check_crcs=False))

    pairs = [[(header["key"], header["value"]) for header in row] for row in batch.column("headers").to_pylist()]
    assert pairs == [list(record.headers) for record in records]
    assert pairs[3] == [("ok", b"1"), ("a\ufffd\ufffdd", b"2")]
