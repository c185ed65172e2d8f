"""Zig-zag varints of records: 32 or 64 bits, low groups first, as in protocol buffers (protocol/records.md#varints)."""

from __future__ import annotations

from typing import Final

from kohort.errors import CorruptRecord

LONGEST: Final = 70
"""Number of bits in the longest varint of a 64-bit number: ten bytes of seven bits."""


def varint_bytes(value: int) -> bytes:
    """Encode ``value`` (64 bits, signed) as a zig-zag varint."""
    value = value << 1 ^ value >> 63
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(body: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Return the varint at ``at`` and its end. Raises IndexError beyond ``body``, CorruptRecord beyond 64 bits."""
    byte = body[at]
    at += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at
    value = byte & 0x7F
    shift = 7
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == LONGEST:
            raise CorruptRecord("varint exceeds ten bytes")
    if value > 0xFFFF_FFFF_FFFF_FFFF:
        raise CorruptRecord("varint exceeds 64 bits")
    return value >> 1 ^ -(value & 1), at


_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))
