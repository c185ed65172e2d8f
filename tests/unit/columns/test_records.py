"""Record batches to records: the plain reader and the kernels give equal results."""

from __future__ import annotations

import gc
import pickle
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from kohort.columns import records, records_by_kernels
from kohort.columns.batches import OffsetRange, ReadOptions, next_offset, sections
from kohort.columns.plain import read_section
from kohort.columns.records import WORTH_LOADING, KernelReader, records_of
from kohort.columns.records_by_kernels import located_records
from kohort.columns.section_tables import address_of
from kohort.errors import CorruptRecord
from kohort.model import Record
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch

MIXED = [
    NewRecord(b"k0", b"v0", [], 1000),
    NewRecord(None, b"v1", [("trace", b"abc"), ("empty", b""), ("none", None)], 1005),
    NewRecord(b"", None, [], 990),
    NewRecord(b"k3" * 100, b"x" * 5000, [("h", b"y" * 300)], 5_000_000),
]


def plain(buf, *, start_offset=0, end_offset=None, check_crcs=True, aborted=(), max_batch_bytes=1 << 20):
    offset_range = OffsetRange("t", 2, start_offset, end_offset)
    out: list[Record] = []
    for section in sections(buf, offset_range, ReadOptions(check_crcs, max_batch_bytes, aborted)):
        read_section(section, offset_range, out)
    return out


def fast(buf, *, start_offset=0, end_offset=None, check_crcs=True, aborted=(), max_batch_bytes=1 << 20):
    offset_range = OffsetRange("t", 2, start_offset, end_offset)
    return located_records(buf, offset_range, ReadOptions(check_crcs, max_batch_bytes, aborted))


@pytest.fixture(params=[plain, fast], ids=["plain", "kernels"])
def read(request):
    return request.param


@pytest.mark.parametrize(
    ("name", "text"), [(b"\xff\xfe\xfd", "\ufffd" * 3), (b"a\xe2\x82", "a\ufffd"), ("h\u00e9".encode(), "h\u00e9")]
)
def test_invalid_utf8_header_name_has_replacements_in_record(read, name, text):
    placed = build_batch([NewRecord(b"k", b"v", [("x" * len(name), b"1")], 1)]).replace(b"x" * len(name), name)

    (record,) = read(placed, check_crcs=False)

    assert record.headers == ((text, b"1"),)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_returns_keys_values_headers_and_timestamps(read, codec):
    data = build_batch(MIXED, base_offset=40, codec=codec, leader_epoch=7)

    found = read(data)

    assert found == [
        Record("t", 2, 40 + i, new.timestamp_ms, new.key, new.value, tuple(new.headers), 0, 7)
        for i, new in enumerate(MIXED)
    ]


def test_mixed_batches_are_read_in_order_without_partial_one(read):
    parts = [build_batch(MIXED, base_offset=4 * i, codec=Codec(i % 5), leader_epoch=i) for i in range(10)]

    found = read(b"".join(parts) + parts[0][:70])

    assert [r.offset for r in found] == list(range(40))
    assert [r.leader_epoch for r in found] == [i // 4 for i in range(40)]
    assert [r.key for r in found] == [new.key for new in MIXED] * 10


def test_records_outside_span_are_skipped(read):
    data = b"".join(build_batch(MIXED, base_offset=4 * i) for i in range(5))

    assert [r.offset for r in read(data, start_offset=6, end_offset=13)] == list(range(6, 13))
    assert read(data, start_offset=20) == []
    assert read(data, start_offset=3, end_offset=3) == []


def test_log_append_time_is_in_every_record(read):
    data = build_batch(MIXED, log_append_time_ms=77_000)

    assert {(r.timestamp_ms, r.timestamp_type) for r in read(data)} == {(77_000, 1)}


def test_batch_without_timestamps_gives_minus_one(read):
    data = build_batch([NewRecord(b"k", b"v")] * 3)

    assert [r.timestamp_ms for r in read(data)] == [-1, -1, -1]


def test_control_and_empty_batches_are_skipped(read):
    marker = build_batch([NewRecord(bytes(4), bytes(6))], base_offset=4, producer_id=1, is_control=True)
    emptied = bytearray(build_batch([], base_offset=5))
    data = build_batch(MIXED) + marker + bytes(emptied)

    assert [r.offset for r in read(data)] == [0, 1, 2, 3]
    assert next_offset(data, 0) == 6
    assert next_offset(data, 0, end_offset=3) == 3


def test_aborted_records_are_skipped(read):
    def batch(base_offset, producer_id, control=None):
        record = NewRecord(b"k", b"v") if control is None else NewRecord(struct.pack(">hh", 0, control), bytes(6))
        return build_batch(
            [record],
            base_offset=base_offset,
            producer_id=producer_id,
            is_transactional=True,
            is_control=control is not None,
        )

    data = b"".join(
        [batch(0, 1), batch(1, 2), batch(2, 1), batch(3, 1, control=0), batch(4, 1), batch(5, 2, control=1)]
    )

    assert [r.offset for r in read(data, aborted=[(1, 0)])] == [1, 4]
    assert [r.offset for r in read(data)] == [0, 1, 2, 4]


def test_flipped_bit_error_has_topic_partition_and_offset(read):
    good, bad = build_batch(MIXED, base_offset=8), bytearray(build_batch(MIXED, base_offset=12))
    bad[100] ^= 1

    with pytest.raises(CorruptRecord, match="t-2 at offset 12: CRC") as caught:
        read(good + bytes(bad), start_offset=8)

    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 2, 12)
    assert [r.offset for r in read(good + bytes(bad), start_offset=8, end_offset=caught.value.offset)] == [8, 9, 10, 11]


def with_records(body: bytes, count: int, last_delta: int = 10) -> bytes:
    batch = bytearray(build_batch([], base_offset=30)) + body
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[23:27] = struct.pack(">i", last_delta)
    batch[57:61] = struct.pack(">i", count)
    return bytes(batch)


@pytest.mark.parametrize(
    ("body", "count", "problem"),
    [
        ("", 1, "end inside a number"),
        ("0c 00 00 00 01 01", 1, "its length is negative"),
        ("01", 1, "its length is negative"),
        ("0c 00 00 00 01 01 00", 2, "record 1 of the batch"),
        ("0c 00 00 00 01 01 00 55", 1, "bytes are left after the last record"),
        ("0e 00 00 00 01 01 00 00", 1, "bytes are left after its headers"),
        ("0c 00 00 01 01 01 00", 1, "its offset lies outside"),
        ("0c 00 00 16 01 01 00", 1, "its offset lies outside"),
        ("0c 00 00 00 08 01 00", 1, "the length of its key"),
        ("0c 00 00 00 03 01 00", 1, "the length of its key"),
        ("0c 00 00 00 01 10 00", 1, "the length of its value"),
        ("0c 00 00 00 01 01 02", 1, "the count of its headers"),
        ("0c 00 00 00 01 01 01", 1, "the count of its headers"),
        ("10 00 00 00 01 01 02 01 01", 1, "the name of a header is null"),
        ("10 00 00 00 01 01 02 08 01", 1, "the name of a header is null, or passes"),
        ("10 00 00 00 01 01 02 00 08", 1, "the value of a header"),
        ("22 00 ff ff ff ff ff ff ff ff ff 7f 00 01 01 00 00 00", 1, "longer than its type"),
        ("22 00 ff ff ff ff ff ff ff ff ff ff 01 00 01 01 00 00", 1, "longer than its type"),
    ],
)
def test_malformed_record_error_has_topic_partition_and_offset(read, body, count, problem):
    data = with_records(bytes.fromhex(body), count)

    with pytest.raises(CorruptRecord, match=problem) as caught:
        read(data, check_crcs=False)

    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 2, 30)


def test_timestamp_beyond_64_bits_is_corrupt(read):
    batch = bytearray(build_batch([NewRecord(b"k", b"v", (), 0), NewRecord(b"k", b"v", (), 5)]))
    batch[27:35] = struct.pack(">q", (1 << 63) - 2)

    with pytest.raises(CorruptRecord, match="its timestamp does not fit"):
        read(bytes(batch), check_crcs=False)


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, struct.pack(">q", -5)), (0, struct.pack(">q", (1 << 63) - 1)), (23, struct.pack(">i", -2)), (57, b"\xff" * 4)],
)
def test_header_with_invalid_offsets_or_count_is_corrupt(read, at, value):
    batch = bytearray(build_batch(MIXED))
    batch[at : at + len(value)] = value

    with pytest.raises(CorruptRecord, match="batch "):
        read(bytes(batch), check_crcs=False)


def test_decreasing_offsets_are_corrupt_at_end_of_previous_batch(read):
    first, second = build_batch(MIXED, base_offset=100), build_batch(MIXED, base_offset=103)

    with pytest.raises(CorruptRecord, match="begins at offset 103, after a batch that ends at 103") as caught:
        read(first + second)

    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 2, 104)
    assert [record.offset for record in read(first + second, end_offset=104)] == [100, 101, 102, 103]


def test_huge_record_count_allocates_nothing(read):
    batch = bytearray(build_batch(MIXED))
    batch[57:61] = struct.pack(">i", 2**31 - 1)

    with pytest.raises(CorruptRecord, match="record 4 of the batch"):
        read(bytes(batch), check_crcs=False)


def test_other_format_and_unknown_codec_are_corrupt(read):
    old, unknown = bytearray(build_batch(MIXED)), bytearray(build_batch(MIXED))
    old[16], unknown[22] = 1, 6

    with pytest.raises(CorruptRecord, match="format 1"):
        read(bytes(old), check_crcs=False)
    with pytest.raises(CorruptRecord, match="codec 6"):
        read(bytes(unknown), check_crcs=False)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_decompression_bomb_error_has_place(read, codec):
    bomb = build_batch([NewRecord(None, bytes(8 << 20))], base_offset=3, codec=codec)

    with pytest.raises(CorruptRecord, match="t-2 at offset 3"):
        read(bomb, max_batch_bytes=1 << 20)


def test_memoryviews_and_bytearrays_are_read_like_bytes(read):
    data = build_batch(MIXED)
    padded = b"xx" + data + b"yy"

    assert read(memoryview(padded)[2:-2]) == read(data)
    assert read(bytearray(data)) == read(data)
    assert read(b"") == []


def test_kernels_are_used_after_many_records(monkeypatch):
    data = build_batch([NewRecord(None, bytes(1000))] * 4)
    way = KernelReader()
    monkeypatch.setattr(records, "kernel_reader", way)
    assert way.found() is None

    assert len(records_of(data, OffsetRange("t", 2, 0))) == 4
    assert way.missed == 4

    way.missed = WORTH_LOADING
    assert way.found().__name__ == located_records.__name__
    assert records_of(data, OffsetRange("t", 2, 0)) == plain(data)
    assert way.missed == WORTH_LOADING


def test_without_numba_all_records_are_read_in_python(monkeypatch):
    way = KernelReader()
    monkeypatch.setattr(records, "find_spec", lambda name: None if name == "numba" else object())
    way.missed = WORTH_LOADING

    assert way.found() is None
    assert way.missed == 0, "the next search for numba follows WORTH_LOADING records"


def test_small_buffer_is_always_read_in_python(monkeypatch):
    data = build_batch(MIXED[:3])
    assert len(data) < records.FEW_BYTES
    way = SimpleNamespace(found=lambda: pytest.fail("kernels for three records"), missed=0)
    monkeypatch.setattr(records, "kernel_reader", way)

    assert records_of(data, OffsetRange("t", 2, 0)) == plain(data)
    assert way.missed == 0


def test_records_are_not_tracked_by_gc(read):
    found = read(build_batch([NewRecord(b"k", b"v")] * 10))

    assert not any(map(gc.is_tracked, found))


def test_record_compares_by_value(read):
    (record,) = read(build_batch([NewRecord(b"k", b"v", (("h", None),), 5)]))

    copy = pickle.loads(pickle.dumps(record))
    assert copy == record
    assert hash(copy) == hash(record)
    with pytest.raises(AttributeError):
        record.value = b"w"


@pytest.mark.parametrize("room", [1, 64, 1 << 16])
def test_byte_strings_of_any_length_are_returned(monkeypatch, room):
    monkeypatch.setattr(records_by_kernels, "ROOM", room)
    expected = [None, b"", b"a", bytes(range(255)), b"x" * 256, None, b"y" * 70_000, b"z"]
    data = b"".join(blob or b"" for blob in expected)
    lengths = np.array([-1 if blob is None else len(blob) for blob in expected], np.int64)
    starts = address_of(data) + np.cumsum(lengths.clip(0)) - lengths.clip(0)

    assert records_by_kernels.byte_strings_at(starts, lengths) == expected
    assert records_by_kernels.byte_strings_at(starts[:1], lengths[:1]) == [None]
