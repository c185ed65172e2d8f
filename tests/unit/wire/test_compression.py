"""Codecs: round trips, formats of Kafka's clients, malformed data."""

from __future__ import annotations

import struct
import tracemalloc

import cramjam
import pytest

from kohort.errors import CorruptRecord
from kohort.wire.compression import (
    LZ4_BLOCK,
    XERIAL_BLOCK,
    XERIAL_HEADER,
    Codec,
    TooLarge,
    codec_of,
    compress,
    decompress,
)

COMPRESSED = [c for c in Codec if c is not Codec.NONE]
TEXT = b"a line of a log that repeats itself, but for its number " * 5000
NOISE = bytes((i * i * 2654435761 >> 7) & 0xFF for i in range(200_000))
MIB = 1 << 20


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, NOISE, bytes(3 * MIB), TEXT[:XERIAL_BLOCK], TEXT[: LZ4_BLOCK + 1]], ids=len
)
def test_every_codec_round_trips(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data


def test_lz4_frame_has_independent_blocks_and_no_checksums() -> None:
    blob = compress(Codec.LZ4, TEXT)
    magic, flags, size = struct.unpack_from("<IBB", blob)
    assert (magic, flags, size) == (0x184D2204, 0b01_1_0_0_0_0_0, 4 << 4)
    assert blob[-4:] == bytes(4)


def test_lz4_stores_incompressible_blocks() -> None:
    blob = compress(Codec.LZ4, NOISE[:1000])
    (size,) = struct.unpack_from("<I", blob, 7)
    assert size == 0x8000_0000 | 1000
    assert blob[11:1011] == NOISE[:1000]


def test_snappy_has_java_framing() -> None:
    blob = compress(Codec.SNAPPY, TEXT[: XERIAL_BLOCK + 10])
    assert blob[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (first,) = struct.unpack_from(">i", blob, 16)
    assert bytes(cramjam.snappy.decompress_raw(blob[20 : 20 + first])) == TEXT[:XERIAL_BLOCK]


def test_raw_snappy_block_is_decompressed() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_unknown_codec_raises_with_its_number() -> None:
    assert codec_of(4) is Codec.ZSTD
    with pytest.raises(CorruptRecord, match="codec 5 does not exist"):
        codec_of(5)


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda c: c.name)
def test_decompression_bomb_is_rejected(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MIB))

    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="accepted"):
            decompress(codec, bomb, MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 3 * MIB


def test_uncompressed_records_are_limited() -> None:
    with pytest.raises(TooLarge, match="11 bytes of records, more than the 10 accepted"):
        decompress(Codec.NONE, b"eleven char", 10)


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda c: c.name)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_data_is_corrupt(codec: Codec, share: float) -> None:
    blob = compress(codec, TEXT)
    with pytest.raises(CorruptRecord):
        decompress(codec, blob[: int(len(blob) * share)])


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda c: c.name)
@pytest.mark.parametrize("blob", [b"", b"\x01", b"garbage!", b"\xff" * 100], ids=repr)
def test_random_data_is_corrupt(codec: Codec, blob: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decompress(codec, blob)


def test_snappy_block_claiming_4_gigabytes_allocates_nothing() -> None:
    liar = b"\xff\xff\xff\xff\x0f" + bytes(20)
    for blob in (liar, XERIAL_HEADER + struct.pack(">i", len(liar)) + liar):
        tracemalloc.start()
        try:
            with pytest.raises(CorruptRecord, match="claims to hold 4294967295"):
                decompress(Codec.SNAPPY, blob, 1 << 40)
            assert tracemalloc.get_traced_memory()[1] < 50_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (XERIAL_HEADER[:12], "ends in its header"),
        (XERIAL_HEADER + b"\x00\x00", "ends in the length of a block"),
        (XERIAL_HEADER + b"\xff\xff\xff\xff", "a snappy block of 4294967295 bytes with 0 left"),
    ],
)
def test_truncated_snappy_stream_error_has_its_cause(blob: bytes, problem: str) -> None:
    with pytest.raises(CorruptRecord, match=problem):
        decompress(Codec.SNAPPY, blob)
