"""Mutations of bytes: bit flips, cuts, repeats, wrong counts, splices."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

EDGES = (
    0,
    1,
    -1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    -0x8000,
    0xFFFF,
    0x7FFFFFFF,
    -0x80000000,
    0x7FFFFFFFFFFFFFFF,
    -(1 << 63),
)
VARINTS = (
    bytes.fromhex("ffffffff0f"), bytes.fromhex("feffffff0f"), bytes.fromhex("ffffffffffffffffff01"),
    bytes.fromhex("80808080808080808080"), bytes.fromhex("808001"), b"\x00", b"\x01", b"\x02",
)  # fmt: skip


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return ``data`` with one to a few changes; splices come from ``others``."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4, 8))):
        _change(changed, rng, others)
    return bytes(changed)


def _change(data: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    size = len(data)
    at = rng.randrange(size) if size else 0
    match rng.randrange(10):
        case 0 | 1 if size:
            data[at] ^= 1 << rng.randrange(8)
        case 2 if size:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        case 3:
            _lie(data, at, rng)
        case 4:
            del data[at : at + rng.choice((1, 2, 4, 8, 64, size))]
        case 5:
            data[at:at] = data[at : at + rng.choice((1, 4, 16, 100))] * rng.choice((1, 1, 2, 50))
        case 6:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))
        case 7 if others:
            other = rng.choice(others)
            start = rng.randrange(len(other)) if other else 0
            data[at : at + rng.choice((0, 4, size))] = other[start : start + rng.choice((4, 32, len(other)))]
        case 8 if size > 8:
            to, length = rng.randrange(size), rng.choice((2, 4, 8))
            data[to : to + length] = data[at : at + length]
        case _:
            place = rng.choice(VARINTS)
            data[at : at + rng.choice((1, 1, len(place)))] = place


def _lie(data: bytearray, at: int, rng: random.Random) -> None:
    """Overwrite bytes with an extreme number: a count, a length, an offset."""
    width, code = rng.choice(((1, "b"), (2, "h"), (4, "i"), (8, "q")))
    value = rng.choice(EDGES) & ((1 << 8 * width) - 1)
    order = rng.choice(">><")
    data[at : at + width] = struct.pack(order + code.upper(), value)
