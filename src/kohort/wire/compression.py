"""Compress and decompress the records of a batch, in the framings that Kafka's clients read (facts 6.2).

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


def codec_of(value: int) -> Codec:
    """The codec of a number off the wire. Raises CorruptRecord for one that does not exist."""
    codec = _codecs.get(value)
    if codec is None:
        raise CorruptRecord(f"compression codec {value} does not exist")
    return codec


def compress(codec: Codec, data: Buffer) -> bytes:
    """``data`` in the framing of ``codec``; unchanged for NONE."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data)
    return bytes(cramjam.zstd.compress(data, level=3))


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """What ``data`` holds. Raises TooLarge past ``max_bytes``, CorruptRecord for what is not such a blob."""
    if codec is Codec.NONE:
        if len(data) > max_bytes:
            raise TooLarge(f"{len(data)} bytes of records, more than the {max_bytes} accepted")
        return bytes(data)
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


def _decompress_growing(into: Callable[[Any, Any], int], data: Buffer, max_bytes: int, codec: Codec) -> bytes:
    """Decompress into a fixed buffer; where it is too small, into a larger one, up to ``max_bytes`` and one more."""
    room = max(len(data) * FIRST_GUESS, SMALLEST_BUFFER)
    while True:
        room = min(room, max_bytes)
        out = bytearray(room)
        try:
            size = into(data, memoryview(out))
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):  # the one failure that more room can cure
                raise
        else:
            return bytes(memoryview(out)[:size])
        if room == max_bytes:
            raise TooLarge(f"a {codec.name.lower()} blob of {len(data)} bytes holds more than the {max_bytes} accepted")
        room *= FIRST_GUESS


def _compress_xerial(data: Buffer) -> bytes:
    """The framing of the Java snappy library: a header, then blocks of 32 KiB, each with its compressed length."""
    view = memoryview(data)
    out = [XERIAL_HEADER]
    for at in range(0, len(view), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + XERIAL_BLOCK]))
        out.append(len(block).to_bytes(4, "big"))
        out.append(block)
    return b"".join(out)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    """Xerial chunks, however many; anything else is taken for one raw block, as some clients send."""
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


def _compress_lz4(data: Buffer) -> bytes:
    """An LZ4 frame of independent blocks without checksums, the one form that every Kafka client reads."""
    view = memoryview(data)
    out = [LZ4_HEADER]
    for at in range(0, len(view), LZ4_BLOCK):
        chunk = view[at : at + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(chunk, store_size=False))
        size = len(block)
        if size >= len(chunk):
            block = bytes(chunk)
            size = len(block) | LZ4_STORED
        out.append(size.to_bytes(4, "little"))
        out.append(block)
    out.append(bytes(4))
    return b"".join(out)
