"""Batches with any damage: kernels and plain reader agree, and raise nothing but CorruptRecord."""

from __future__ import annotations

import struct

import msgspec
from fuzz.entrances.record_batches import records_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.columns.batches import OffsetRange, ReadOptions, sections
from kohort.columns.decode import decode_batches
from kohort.columns.encode import RecordColumns, encode_partitions
from kohort.columns.plain import read_section
from kohort.columns.records_by_kernels import located_records
from kohort.columns.schema import COLUMNS
from kohort.errors import CorruptRecord
from kohort.model import Record
from kohort.wire.compression import Codec, compress
from kohort.wire.record_batch import (
    HEADER_BYTES,
    NewRecord,
    build_batch,
    pack_batch,
    parse_batch_header,
    read_batch,
)
from support.encoded_batch import encode_batch

ALL = (*COLUMNS, "headers")
MAX_BATCH = 1 << 20

blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4)
times = st.integers(-1, 1 << 45)
records = st.builds(NewRecord, blobs, blobs, headers, times)
UNCHECKED = ReadOptions(check_crcs=False, max_batch_bytes=MAX_BATCH)
lots = st.lists(records, min_size=1, max_size=12)
mutations = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6)


def plain(buf: bytes, start: int, stop: int | None) -> list[Record] | int:
    """Return the records, or the offset of the corruption."""
    offset_range = OffsetRange("t", 0, start, stop)
    out: list[Record] = []
    try:
        for section in sections(buf, offset_range, UNCHECKED):
            read_section(section, offset_range, out)
    except CorruptRecord as error:
        return error.offset
    return out


def by_kernels(buf: bytes, start: int, stop: int | None) -> list[Record] | int:
    try:
        return located_records(buf, OffsetRange("t", 0, start, stop), UNCHECKED)
    except CorruptRecord as error:
        return error.offset


def by_arrow(buf: bytes, start: int, stop: int | None) -> list[Record] | int:
    try:
        batch = decode_batches(buf, OffsetRange("t", 0, start, stop), columns=ALL, options=UNCHECKED)
    except CorruptRecord as error:
        return error.offset
    return records_of(batch)


def without_epochs(found: list[Record] | int) -> list[Record] | int:
    if isinstance(found, list):
        return [msgspec.structs.replace(record, leader_epoch=-1) for record in found]
    return found


def mutated(data: bytes, changes: list[tuple[int, int]], first: int) -> bytes:
    """``data`` with some of its bytes from ``first`` on replaced."""
    changed = bytearray(data)
    for at, value in changes:
        changed[first + at % (len(changed) - first)] = value
    return bytes(changed)


def test_first_of_two_faults_is_reported_if_the_second_batch_is_misplaced():
    first = [NewRecord(None, b"v", [("h", None)], 1), NewRecord(None, b"w", [("h", b"x")], 2)]
    damaged = bytearray(build_batch(first))
    damaged[-1] ^= 0x7F  # the last header's value
    damaged[-2] ^= 0x08  # and its length
    later = bytearray(build_batch(first, base_offset=2))
    later[0] = 0x80
    both = bytes(damaged + later)

    expected = plain(both, 1, None)

    assert expected == 0
    assert by_kernels(both, 1, None) == expected
    assert by_arrow(both, 1, None) == expected


def test_earlier_of_two_faults_is_reported_after_batch_with_invalid_utf8_header_name():
    records = [NewRecord(None, b"v", (), 1), NewRecord(None, b"w", [("name", b"x")], 2)]
    name_at = bytes(build_batch(records)).index(b"name") - HEADER_BYTES

    def damaged(base_offset, codec, at, byte):
        """A batch of two records with one byte changed before compression."""
        plain_batch = bytearray(build_batch(records, base_offset=base_offset))
        plain_batch[HEADER_BYTES + at] = byte
        header = parse_batch_header(bytes(plain_batch))
        return pack_batch(header._replace(attributes=codec), compress(codec, plain_batch[HEADER_BYTES:]))

    text = damaged(0, Codec.LZ4, name_at, 0xFF)  # no fault: the name is read with a replacement
    walk = damaged(2, Codec.LZ4, 0, 0x7F)  # found by the walk: a record's length
    blob = bytearray(damaged(4, Codec.LZ4, 0, 0))
    blob[HEADER_BYTES] ^= 0xFF  # found when it is decompressed: no LZ4 frame
    three = text + walk + bytes(blob)

    assert plain(three, 1, None) == 2
    assert by_kernels(three, 1, None) == 2
    assert by_arrow(three, 1, None) == 2
    assert plain(text, 0, None) == by_kernels(text, 0, None)


@settings(max_examples=100)
@given(st.lists(lots, min_size=1, max_size=3), st.sampled_from(Codec), mutations, st.integers(0, 8), st.integers(0, 30))
def test_changed_batches_have_equal_results_in_all_three_readers(lot, codec, changes, start, length):
    parts, base = [], 0
    for part in lot:
        parts.append(build_batch(part, base_offset=base, codec=codec))
        base += len(part)
    damaged = mutated(b"".join(parts), changes, 0)
    stop = start + length if length % 2 else None

    expected = plain(damaged, start, stop)

    assert by_kernels(damaged, start, stop) == expected
    assert by_arrow(damaged, start, stop) == without_epochs(expected)


@settings(max_examples=150)
@given(lots, mutations)
def test_changed_records_in_valid_batch_have_equal_results_in_all_three_readers(lot, changes):
    damaged = mutated(build_batch(lot), changes, HEADER_BYTES)

    expected = plain(damaged, 0, None)

    assert by_kernels(damaged, 0, None) == expected
    assert by_arrow(damaged, 0, None) == without_epochs(expected)
    assert expected == 0 or isinstance(expected, list)


@settings(max_examples=100)
@given(st.binary(max_size=300), st.integers(0, 40))
def test_random_records_in_valid_batch_have_equal_results_in_all_three_readers(noise, count):
    head = bytearray(build_batch([], base_offset=0))
    head[8:12] = struct.pack(">i", HEADER_BYTES - 12 + len(noise))
    head[23:27] = struct.pack(">i", 1 << 20)
    head[57:61] = struct.pack(">i", count)
    damaged = bytes(head) + noise

    assert by_kernels(damaged, 0, None) == plain(damaged, 0, None)
    assert by_arrow(damaged, 0, None) == plain(damaged, 0, None)


@settings(max_examples=100)
@given(lots, st.sampled_from(Codec))
def test_encoded_columns_are_read_back_by_the_plain_reader(lot, codec):
    batch = encode_batch(
        RecordColumns(
            [r.key for r in lot], [r.value for r in lot], [r.timestamp_ms for r in lot], [r.headers for r in lot]
        ),
        codec=codec,
    )

    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in read_batch(batch)] == [
        (r.key, r.value, list(r.headers), r.timestamp_ms) for r in lot
    ]


@settings(max_examples=60)
@given(lots, st.integers(1, 5), st.integers(60, 600))
def test_partitioned_rows_keep_all_records_and_the_order_of_each_key(lot, partitions, batch_bytes):
    values = [b"%d" % i for i in range(len(lot))]

    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    for batch in encode_partitions(
        RecordColumns([r.key for r in lot], values), partitions=partitions, batch_bytes=batch_bytes
    ):
        rows = read_batch(batch.data)
        assert len(rows) == batch.records
        found.setdefault(batch.partition, []).extend((r.key, r.value) for r in rows)

    everything = [pair for rows in found.values() for pair in rows]
    assert sorted(int(value) for _, value in everything) == list(range(len(lot)))
    for pairs in found.values():
        numbers = [int(value) for _, value in pairs]
        assert numbers == sorted(numbers)
    for key in {r.key for r in lot} - {None}:
        assert len({p for p, rows in found.items() for k, _ in rows if k == key}) == 1
