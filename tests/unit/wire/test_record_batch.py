"""Record batches: bytes, CRC, offsets, malformed records."""

from __future__ import annotations

import struct

import crc32c
import pytest

from kohort.errors import CorruptRecord
from kohort.wire.compression import Codec, TooLarge
from kohort.wire.record_batch import (
    HEADER_BYTES,
    NewRecord,
    ReadRecord,
    build_batch,
    check_crc,
    parse_batch_header,
    read_batch,
    split_batches,
    with_offset,
)

TWO = [NewRecord(b"k", b"value", [("h", b"1"), ("n", None)], 1000), NewRecord(None, None, [], 1003)]


def with_records(records: bytes, count: int, *, last_delta: int | None = None, attributes: int = 0) -> bytes:
    delta = count - 1 if last_delta is None else last_delta
    summed = struct.pack(">hiqqqhii", attributes, delta, 1000, 1000, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 7, 9 + len(summed), 0, 2, crc32c.crc32c(summed)) + summed


# ---------------------------------------------------------------- layout


def test_batch_has_expected_bytes() -> None:
    batch = build_batch([NewRecord(b"k", b"v", [], 1000)], base_offset=7, leader_epoch=0)
    assert batch == with_records(bytes.fromhex("10 00 00 00 02 6b 02 76 00"), 1)


def test_header_has_the_given_fields() -> None:
    batch = build_batch(
        TWO,
        base_offset=40,
        codec=Codec.GZIP,
        producer_id=9,
        producer_epoch=2,
        base_sequence=100,
        leader_epoch=5,
        is_transactional=True,
    )
    header = parse_batch_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 41, 42)
    assert (header.size, header.codec, header.partition_leader_epoch) == (len(batch), Codec.GZIP, 5)
    assert (header.producer_id, header.producer_epoch) == (9, 2)
    assert (header.base_sequence, header.last_sequence) == (100, 101)
    assert (header.base_timestamp, header.max_timestamp, header.timestamp_type) == (1000, 1003, 0)
    assert (header.is_transactional, header.is_control, header.record_count) == (True, False, 2)


def test_last_sequence_wraps_to_zero() -> None:
    header = parse_batch_header(build_batch(TWO, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))
    assert header.last_sequence == 0
    assert parse_batch_header(build_batch(TWO)).last_sequence == -1


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
def test_records_round_trip(codec: Codec) -> None:
    assert read_batch(build_batch(TWO, base_offset=40, codec=codec)) == [
        ReadRecord(40, 1000, b"k", b"value", [("h", b"1"), ("n", None)]),
        ReadRecord(41, 1003, None, None, []),
    ]


def test_log_append_time_applies_to_every_record() -> None:
    batch = build_batch(TWO, log_append_time_ms=5000)
    assert parse_batch_header(batch).timestamp_type == 1
    assert [r.timestamp_ms for r in read_batch(batch)] == [5000, 5000]


def test_records_without_timestamp_have_minus_one() -> None:
    assert [r.timestamp_ms for r in read_batch(build_batch([NewRecord(b"k", b"v")]))] == [-1]


def test_empty_compacted_batch_keeps_next_offset() -> None:
    batch = with_records(b"", 0, last_delta=4)
    assert read_batch(batch) == []
    assert parse_batch_header(batch).next_offset == 12


def test_compacted_batch_keeps_offsets() -> None:
    batch = with_records(bytes.fromhex("0e 00 00 06 02 6b 01 00"), 1, last_delta=4)
    assert read_batch(batch) == [ReadRecord(10, 1000, b"k", None, [])]


# ---------------------------------------------------------------- offsets


def test_with_offset_keeps_crc_and_records() -> None:
    batch = build_batch(TWO)

    head, rest = with_offset(batch, 1234, 56)

    assert isinstance(rest, memoryview)
    assert rest.obj is batch
    placed = bytes(head) + bytes(rest)
    header = parse_batch_header(placed)
    check_crc(placed, 0, header)
    assert (header.base_offset, header.partition_leader_epoch, header.size) == (1234, 56, len(batch))
    assert [r.offset for r in read_batch(placed)] == [1234, 1235]


def test_split_batches_stops_at_partial_batch() -> None:
    first, second = build_batch(TWO), build_batch(TWO[:1], base_offset=2)
    whole = first + second
    assert [(at, h.base_offset) for at, h in split_batches(whole)] == [(0, 0), (len(first), 2)]
    for cut in (len(whole) - 1, len(first) + HEADER_BYTES, len(first) + 3, len(first)):
        assert [at for at, _ in split_batches(memoryview(whole)[:cut])] == [0]
    assert list(split_batches(b"")) == []


def test_flipped_bit_fails_the_crc() -> None:
    batch = bytearray(build_batch(TWO, base_offset=40))
    batch[-1] ^= 1
    header = parse_batch_header(batch)
    with pytest.raises(CorruptRecord, match="CRC is") as raised:
        check_crc(batch, 0, header)
    assert raised.value.offset == 40


# ---------------------------------------------------------------- malformed batches


def test_truncated_header_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="a batch header of 60 bytes, fewer than 61"):
        parse_batch_header(build_batch(TWO)[:60])


@pytest.mark.parametrize(("at", "patch", "problem"), [(16, b"\x01", "format 1"), (8, b"\xff" * 4, "length of -1")])
def test_invalid_header_is_corrupt(at: int, patch: bytes, problem: str) -> None:
    batch = bytearray(build_batch(TWO))
    batch[at : at + len(patch)] = patch
    with pytest.raises(CorruptRecord, match=problem):
        parse_batch_header(batch)
    with pytest.raises(CorruptRecord, match=problem):
        list(split_batches(batch))


def test_incomplete_batch_is_corrupt() -> None:
    batch = build_batch(TWO)
    with pytest.raises(CorruptRecord, match="bytes with"):
        check_crc(batch[:-1], 0, parse_batch_header(batch))
    with pytest.raises(CorruptRecord, match="bytes with"):
        read_batch(batch[:-1])


@pytest.mark.parametrize(
    ("records", "count", "problem"),
    [
        ("10 00 00 00 02 6b 02 76 00", 2, "a count of 2 records in 9 bytes"),
        ("10 00 00 00 02 6b 02 76 00", -1, "a count of -1 records"),
        ("10 00 00 00 02 6b 02 76 00", 0, "9 bytes after the last of 0 records"),
        ("10 00 00 00 02 6b 02 76 00 00", 1, "1 bytes after the last of 1 records"),
        ("12 00 00 00 02 6b 02 76 00", 1, "a record of 9 bytes with 8 left"),
        ("0e 00 00 00 02 6b 02 76 00", 1, "a count of 0 headers with -1 bytes left in the record"),
        ("10 00 00 00 02 6b 04 76 00", 1, "record 0 of 1 runs past the end"),
        ("10 00 00 00 02 6b 20 76 00", 1, "a length of 16 with 2 bytes left in the record"),
        ("10 00 00 00 03 6b 02 76 00", 1, "a length of -2"),
        ("10 00 00 00 02 6b 02 76 02", 1, "a count of 1 headers with 0 bytes left"),
        ("10 00 00 00 02 6b 02 76 01", 1, "a count of -1 headers"),
        ("14 00 00 00 02 6b 02 76 00 00 00", 1, "a record that ends 2 bytes before its length says"),
        ("12 00 00 00 01 01 02 01 00 00", 1, "a record header without a key"),
        ("14 00 00 00 01 01 02 02 ff 00 00", 1, "a header whose key is not UTF-8"),
        ("10 00 00 02 02 6b 02 76 00", 1, "an offset delta of 1 in a batch that ends at 0"),
        ("10 00 00 01 02 6b 02 76 00", 1, "an offset delta of -1"),
        ("80 80 80 80 80 80 80 80 80 80 01", 1, "varint exceeds ten bytes"),
        ("ff ff ff ff ff ff ff ff ff 7f", 1, "varint exceeds 64 bits"),
        ("80 80 80 80 80 80 80", 1, "record 0 of 1 runs past the end"),
    ],
)
def test_malformed_record_is_corrupt_with_offset(records: str, count: int, problem: str) -> None:
    batch = with_records(bytes.fromhex(records), count, last_delta=max(count - 1, 0))
    check_crc(batch, 0, parse_batch_header(batch))
    with pytest.raises(CorruptRecord, match=problem) as raised:
        read_batch(batch)
    assert raised.value.offset == 7


def test_batch_with_negative_offset_delta_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="a last offset delta of -5"):
        read_batch(with_records(b"", 0, last_delta=-5))


def test_unknown_codec_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="codec 7 does not exist"):
        read_batch(with_records(b"", 0, last_delta=0, attributes=7))


def test_too_large_batch_raises_with_offset() -> None:
    bomb = build_batch([NewRecord(None, bytes(1 << 20))], base_offset=3, codec=Codec.ZSTD)
    with pytest.raises(TooLarge) as raised:
        read_batch(bomb, max_bytes=1 << 16)
    assert raised.value.offset == 3
