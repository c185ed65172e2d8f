"""Columns to record batches, compared with the plain reader and the client's partitioner."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kohort.client.writing.partitioner import murmur2
from kohort.columns.batches import OffsetRange
from kohort.columns.encode import RecordColumns, encode_partitions
from kohort.columns.records import records_of
from kohort.errors import UsageError
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, check_crc, parse_batch_header, read_batch
from support.encoded_batch import encode_batch

KEYS = [b"k0", None, b"", "k\u00e9".encode() * 100]
VALUES = [b"v0", b"v1", None, b"x" * 5000]
TIMES = [1000, 1005, 990, 5_000_000]
HEADERS = [[], [("trace", b"abc"), ("empty", b""), ("none", None)], None, [("h", b"y" * 300)]]
EXPECTED = [
    (0, 1000, b"k0", b"v0", []),
    (1, 1005, None, b"v1", [("trace", b"abc"), ("empty", b""), ("none", None)]),
    (2, 990, b"", None, []),
    (3, 5_000_000, "k\u00e9".encode() * 100, b"x" * 5000, [("h", b"y" * 300)]),
]


def read(batch):
    header = parse_batch_header(batch)
    assert header.size == len(batch)
    check_crc(batch, 0, header)
    return [tuple(record) for record in read_batch(batch)]


@pytest.mark.parametrize("codec", Codec)
def test_lists_encode_to_a_readable_batch(codec):
    batch = encode_batch(RecordColumns(KEYS, VALUES, TIMES, HEADERS), codec=codec)

    assert read(batch) == EXPECTED
    assert parse_batch_header(batch).codec is codec
    assert parse_batch_header(batch).max_timestamp == 5_000_000


def test_encoded_bytes_equal_build_batch():
    records = [NewRecord(k, v, h or (), t) for k, v, t, h in zip(KEYS, VALUES, TIMES, HEADERS, strict=True)]

    assert encode_batch(RecordColumns(KEYS, VALUES, TIMES, HEADERS)) == build_batch(records)


def test_every_arrow_column_type_gives_the_same_batch():
    expected = encode_batch(RecordColumns(KEYS, VALUES, TIMES, HEADERS))
    keys = pa.array(KEYS, pa.binary())
    values = pa.array(VALUES, pa.binary())
    headers = pa.array(
        [None if row is None else [{"key": k, "value": v} for k, v in row] for row in HEADERS],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    as_map = pa.array(HEADERS, pa.map_(pa.string(), pa.binary()))
    times = pa.array(TIMES, pa.timestamp("ms"))

    assert encode_batch(RecordColumns(keys, values, times, headers)) == expected
    assert (
        encode_batch(
            RecordColumns(
                keys.cast(pa.string()), values.cast(pa.large_binary()), times.cast(pa.timestamp("us", "UTC")), as_map
            )
        )
        == expected
    )
    assert (
        encode_batch(RecordColumns(keys.cast(pa.large_string()), values, pa.array(TIMES, pa.int32()), headers))
        == expected
    )
    assert (
        encode_batch(
            RecordColumns(keys.dictionary_encode(), pa.chunked_array([values[:1], values[1:]]), times, headers)
        )
        == expected
    )


def test_sliced_columns_are_encoded_from_their_offset():
    keys, values = (
        pa.array([None, b"zz", *KEYS, b"after"], pa.binary()),
        pa.array([b"a", None, *VALUES, None], pa.binary()),
    )
    headers = pa.array([[("x", b"1")], [], *HEADERS, []], pa.map_(pa.string(), pa.binary()))
    times = pa.array([5, None, *TIMES, 6])

    sliced = [column.slice(2, 4) for column in (keys, values, times, headers)]

    assert encode_batch(RecordColumns(*sliced)) == encode_batch(RecordColumns(KEYS, VALUES, TIMES, HEADERS))


def test_rows_without_timestamp_get_the_default():
    assert [
        r[1] for r in read(encode_batch(RecordColumns(None, [b"a", b"b", b"c"], [None, 7, None], timestamp_ms=99)))
    ] == [99, 7, 99]
    assert [r[1] for r in read(encode_batch(RecordColumns(None, [b"a", b"b", b"c"], [None, 7, None])))] == [-1, 7, -1]
    assert [r[1] for r in read(encode_batch(RecordColumns(None, [b"a", b"b"], timestamp_ms=42)))] == [42, 42]
    assert [r[1] for r in read(encode_batch(RecordColumns(None, [b"a", b"b"])))] == [-1, -1]


def test_no_rows_encode_to_no_batch():
    assert list(encode_partitions(RecordColumns([], []), partitions=3)) == []


def test_keyed_rows_use_java_partitioner_in_order():
    dice = random.Random(5)
    keys = [dice.randbytes(dice.randrange(0, 20)) for _ in range(2000)]
    values = [b"%d" % i for i in range(2000)]

    batches = list(encode_partitions(RecordColumns(keys, values), partitions=7, batch_bytes=2000, codec=Codec.LZ4))

    found = {p: [] for p in range(7)}
    for batch in batches:
        rows = read(batch.data)
        assert len(rows) == batch.records
        assert [r[0] for r in rows] == list(range(len(rows)))
        found[batch.partition] += [(r[2], r[3]) for r in rows]
    expected = {p: [] for p in range(7)}
    for key, value in zip(keys, values, strict=True):
        expected[(murmur2(key) & 0x7FFFFFFF) % 7].append((key, value))
    assert found == expected


def test_batches_are_limited_and_large_record_is_alone():
    values = [bytes(300)] * 50 + [bytes(5000)] + [bytes(300)] * 50

    batches = list(encode_partitions(RecordColumns(None, values), partitions=1, batch_bytes=1000))

    sizes = [len(b.data) - 61 for b in batches]
    assert sum(b.records for b in batches) == 101
    assert [b.records for b in batches if len(b.data) - 61 > 1000] == [1]
    assert sorted(sizes)[-2] <= 1000
    assert max(b.records for b in batches) == 3


def test_rows_without_key_fill_partitions_in_turn():
    batches = list(
        encode_partitions(RecordColumns(None, [bytes(90)] * 100), partitions=4, batch_bytes=1000, first_unkeyed=6)
    )

    assert sum(b.records for b in batches) == 100
    assert {b.partition for b in batches} == {0, 1, 2, 3}
    assert len(batches) <= 16
    assert [b.partition for b in encode_partitions(RecordColumns(None, [b"x"] * 5), partitions=4, first_unkeyed=6)] == [
        2
    ]


def test_partition_column_overrides_the_key():
    partition = pa.array([3, None, 0, 3], pa.int32())
    of_key = (murmur2(b"a") & 0x7FFFFFFF) % 4

    batches = encode_partitions(RecordColumns([b"a"] * 4, ["1", "2", "3", "4"], partitions=partition), partitions=4)

    found = [(batch.partition, r[3]) for batch in batches for r in read(batch.data)]
    assert sorted(found) == sorted([(3, b"1"), (of_key, b"2"), (0, b"3"), (3, b"4")])


@pytest.mark.parametrize(
    ("columns", "partition", "problem"),
    [
        ({"keys": pa.array([1])}, None, "column 'key' has type int64, not binary or text"),
        ({"timestamps": pa.array(["noon"])}, None, "column 'timestamp' has type string"),
        ({"headers": pa.array([[1]])}, None, "column 'headers' has type list"),
        ({}, [4], "partition 4 does not exist; the topic has 4"),
        ({}, [-1], "partition -1 does not exist"),
        ({}, [1, 2], "column 'partition' does not have the 1 rows of the other columns"),
        ({}, pa.array(["1"]), "column 'partition' has type string, not an integer type"),
    ],
)
def test_unsupported_columns_are_rejected(columns, partition, problem):
    record_columns = RecordColumns(**{"keys": [b"k"], "values": [b"a"]} | columns)
    with pytest.raises(UsageError, match=problem):
        list(encode_partitions(record_columns._replace(partitions=partition), partitions=4))


def test_different_lengths_and_null_header_names_are_rejected():
    with pytest.raises(UsageError, match="different lengths: key 1, value 2"):
        encode_batch(RecordColumns([b"k"], [b"a", b"b"]))
    nameless = pa.array(
        [[{"key": None, "value": b"x"}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    with pytest.raises(UsageError, match="a header without a name"):
        encode_batch(RecordColumns(None, [b"a"], None, nameless))
    with pytest.raises(UsageError, match="column 'value'"):
        encode_batch(RecordColumns(None, [3.5]))


def test_encoded_batch_round_trips_through_records_of():
    batch = encode_batch(RecordColumns(KEYS, VALUES, TIMES, HEADERS), codec=Codec.ZSTD)

    found = records_of(batch, OffsetRange("t", 0, 1))

    assert [(r.offset, r.key, r.value) for r in found] == [(i, KEYS[i], VALUES[i]) for i in (1, 2, 3)]
