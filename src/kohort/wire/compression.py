"""Compress and decompress the records of a batch, in the framings that Kafka's clients read.

The rules: protocol/records.md#compression.

What comes out is bounded before it exists: the caller says how many bytes it will take, and a blob that holds more is
``TooLarge``, found in a buffer that grows with what really comes out and never with what a header claims.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import cramjam

from kohort.errors import CorruptRecord
from kohort.steps import Pace, Steps, at_once
from kohort.wire.codec import Buffer


class Codec(IntEnum):
    """The three low bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_codecs: Final = {int(codec): codec for codec in Codec}


class TooLarge(CorruptRecord):
    """A compressed blob that would decompress to more than its reader accepts."""


DEFAULT_MAX_BYTES: Final = 128 * 1024 * 1024
"""What a reader accepts from one batch unless told otherwise."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK: Final = 32 * 1024
SNAPPY_MOST_FROM_ONE_BYTE: Final = 22
"""A snappy copy of 64 bytes takes 3, so no block honestly claims more than this many bytes out per byte in."""

LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
"""Frame magic; version 1, independent blocks, no checksums, no size; blocks of 64 KiB; checksum of those two bytes."""
LZ4_BLOCK: Final = 64 * 1024
LZ4_STORED: Final = 0x8000_0000

FIRST_GUESS: Final = 8
"""The first output buffer, as a multiple of the input; a blob that holds more is tried again with 8 times the room."""
SMALLEST_BUFFER: Final = 16 * 1024

STREAM_BYTES: Final = 128 * 1024
US_PER_KIB: Final = {Codec.GZIP: 30.0, Codec.SNAPPY: 2.0, Codec.LZ4: 2.0, Codec.ZSTD: 6.0}


def codec_of(value: int) -> Codec:
    codec = _codecs.get(value)
    if codec is None:
        raise CorruptRecord(f"compression codec {value} does not exist")
    return codec


def compress(codec: Codec, data: Buffer) -> bytes:
    """``data`` in the framing of ``codec``; unchanged for NONE."""
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3))
    return at_once(compress_in_steps(codec, data))


def compress_in_steps(codec: Codec, data: Buffer) -> Steps[bytes]:
    if codec is Codec.NONE:
        return bytes(data)
    view, pace = memoryview(data), Pace()
    if codec in _blockwise:
        block_bytes, head, make_block, tail = _blockwise[codec]
        out = [head]
        for at in range(0, len(view), block_bytes):
            out += make_block(view[at : at + block_bytes])
            if pace.is_due(US_PER_KIB[codec] * block_bytes / 1024):
                yield
        return b"".join((*out, tail))
    stream = cramjam.gzip.Compressor() if codec is Codec.GZIP else cramjam.zstd.Compressor(level=3)
    for at in range(0, len(view), STREAM_BYTES):
        stream.compress(bytes(view[at : at + STREAM_BYTES]))
        if pace.is_due(US_PER_KIB[codec] * STREAM_BYTES / 1024):
            yield
    return bytes(stream.finish())


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Decompress ``data``. Raises TooLarge above ``max_bytes``, CorruptRecord if it is malformed."""
    if codec is Codec.NONE and len(data) > max_bytes:
        raise TooLarge(f"{len(data)} bytes of records, more than the {max_bytes} accepted")
    held = decompressed(codec, data, max_bytes)
    return held if isinstance(held, bytes) else bytes(held)


def decompressed(codec: Codec, data: Buffer, max_bytes: int) -> Buffer:
    """Decompress without another copy: ``data`` itself where it is not compressed."""
    if codec is Codec.NONE:
        return data
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        decompress_into = {
            Codec.GZIP: cramjam.gzip.decompress_into,
            Codec.LZ4: cramjam.lz4.decompress_into,
            Codec.ZSTD: cramjam.zstd.decompress_into,
        }[codec]
        return _decompress_growing(decompress_into, data, max_bytes, codec)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"not a {codec.name.lower()} blob: {error}") from None


def _decompress_growing(into: Callable[[Any, Any], int], data: Buffer, max_bytes: int, codec: Codec) -> memoryview:
    """Decompress into a fixed buffer, then into larger ones up to ``max_bytes`` and one more."""
    room = max(len(data) * FIRST_GUESS, SMALLEST_BUFFER)
    while True:
        room = min(room, max_bytes)
        out = bytearray(room)
        try:
            size = into(data, memoryview(out))
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):  # a larger buffer can cure this failure
                raise
        else:
            return memoryview(out)[:size]
        if room == max_bytes:
            raise TooLarge(f"a {codec.name.lower()} blob of {len(data)} bytes holds more than the {max_bytes} accepted")
        room *= FIRST_GUESS


def _xerial_block(data: memoryview) -> tuple[bytes, bytes]:
    """Return a block in the framing of the Java snappy library, after its compressed length."""
    block = bytes(cramjam.snappy.compress_raw(data))
    return len(block).to_bytes(4, "big"), block


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    """Decompress Xerial chunks; any other blob is one raw block, as some clients send it."""
    view = memoryview(data)
    if bytes(view[:8]) != XERIAL_MAGIC:
        return _decompress_block(view, max_bytes)
    if len(view) < len(XERIAL_HEADER):
        raise CorruptRecord("a snappy stream that ends in its header")
    out: list[bytes] = []
    at, left = len(XERIAL_HEADER), max_bytes
    while at < len(view):
        if len(view) - at < 4:
            raise CorruptRecord("a snappy stream that ends in the length of a block")
        size = int.from_bytes(view[at : at + 4], "big")
        at += 4
        if size > len(view) - at:
            raise CorruptRecord(f"a snappy block of {size} bytes with {len(view) - at} left")
        block = _decompress_block(view[at : at + size], left)
        out.append(block)
        left -= len(block)
        at += size
    return b"".join(out)


def _decompress_block(block: memoryview, max_bytes: int) -> bytes:
    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > len(block) * SNAPPY_MOST_FROM_ONE_BYTE:
        raise CorruptRecord(f"a snappy block of {len(block)} bytes that claims to hold {claimed}")
    if claimed > max_bytes:
        raise TooLarge(f"a snappy blob that holds more than the bytes accepted ({claimed} here, {max_bytes} left)")
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4_block(data: memoryview) -> tuple[bytes, bytes]:
    """Return a block of an LZ4 frame after its size; uncompressed where that is smaller."""
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(block) >= len(data):
        return (len(data) | LZ4_STORED).to_bytes(4, "little"), bytes(data)
    return len(block).to_bytes(4, "little"), block


_Block = Callable[[memoryview], tuple[bytes, bytes]]
_blockwise: Final[dict[Codec, tuple[int, bytes, _Block, bytes]]] = {
    Codec.SNAPPY: (XERIAL_BLOCK, XERIAL_HEADER, _xerial_block, b""),
    Codec.LZ4: (LZ4_BLOCK, LZ4_HEADER, _lz4_block, bytes(4)),
}
"""How much goes into a block, what comes before the blocks, what makes one, what comes after them. An LZ4 frame of
independent blocks without checksums is the one form that every Kafka client reads."""
