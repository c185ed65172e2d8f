"""Compression and decompression of batch records, in the formats of Kafka clients (protocol/records.md#compression).

The caller limits the decompressed size. Larger data raise ``TooLarge``; output buffers grow with the actual output, not
with the size that a header claims.
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
    """Compression codec: the three low bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_codecs: Final = {int(codec): codec for codec in Codec}


class TooLarge(CorruptRecord):
    """Compressed data that exceed the reader's limit when decompressed."""


DEFAULT_MAX_BYTES: Final = 128 * 1024 * 1024
"""Default limit of the decompressed records of one batch."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK: Final = 32 * 1024
SNAPPY_MOST_FROM_ONE_BYTE: Final = 22
"""Largest expansion of a byte: a snappy copy element of 3 bytes yields 64, so a larger size is a false claim."""

LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
"""Frame magic; version 1, independent blocks, no checksums, no size; blocks of 64 KiB; header checksum."""
LZ4_BLOCK: Final = 64 * 1024
LZ4_STORED: Final = 0x8000_0000

FIRST_GUESS: Final = 8
"""Size of the first output buffer as a multiple of the input; each retry multiplies it again."""
SMALLEST_BUFFER: Final = 16 * 1024

STREAM_BYTES: Final = 128 * 1024
US_PER_KIB: Final = {Codec.GZIP: 30.0, Codec.SNAPPY: 2.0, Codec.LZ4: 2.0, Codec.ZSTD: 6.0}


def codec_of(value: int) -> Codec:
    codec = _codecs.get(value)
    if codec is None:
        raise CorruptRecord(f"compression codec {value} does not exist")
    return codec


def compress(codec: Codec, data: Buffer) -> bytes:
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
    found = decompressed(codec, data, max_bytes)
    return found if isinstance(found, bytes) else bytes(found)


def decompressed(codec: Codec, data: Buffer, max_bytes: int) -> Buffer:
    """Decompress ``data`` without another copy; return uncompressed ``data`` itself, without a size check."""
    if codec is Codec.NONE:
        return data
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        library = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
        return _decompress_growing(library.decompress_into, data, max_bytes, codec)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"not a {codec.name.lower()} blob: {error}") from None


def _decompress_growing(into: Callable[[Any, Any], int], data: Buffer, max_bytes: int, codec: Codec) -> memoryview:
    """Decompress into a fixed buffer, then into larger ones up to ``max_bytes``."""
    room = max(len(data) * FIRST_GUESS, SMALLEST_BUFFER)
    while True:
        room = min(room, max_bytes)
        out = bytearray(room)
        try:
            size = into(data, memoryview(out))
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):  # only this failure needs a larger buffer
                raise
        else:
            return memoryview(out)[:size]
        if room == max_bytes:
            raise TooLarge(f"a {codec.name.lower()} blob of {len(data)} bytes holds more than the {max_bytes} accepted")
        room *= FIRST_GUESS


def _xerial_block(data: memoryview) -> tuple[bytes, bytes]:
    """Return the compressed length and the block, in the format of the Java snappy library."""
    block = bytes(cramjam.snappy.compress_raw(data))
    return len(block).to_bytes(4, "big"), block


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    """Decompress Xerial chunks; other data are one raw block, as some clients send it."""
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
    """Return the size and the block of an LZ4 frame; the block stays uncompressed if that is smaller."""
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(block) >= len(data):
        return (len(data) | LZ4_STORED).to_bytes(4, "little"), bytes(data)
    return len(block).to_bytes(4, "little"), block


_Block = Callable[[memoryview], tuple[bytes, bytes]]
_blockwise: Final[dict[Codec, tuple[int, bytes, _Block, bytes]]] = {
    Codec.SNAPPY: (XERIAL_BLOCK, XERIAL_HEADER, _xerial_block, b""),
    Codec.LZ4: (LZ4_BLOCK, LZ4_HEADER, _lz4_block, bytes(4)),
}
"""Block size, header, block encoder and trailer. Every Kafka client reads LZ4 frames without checksums."""
