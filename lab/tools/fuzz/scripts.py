"""A script: what happens to a broker, step by step, as bytes that any change leaves a script."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

_HEAD = struct.Struct(">BBI")
SEND, SEND_IN_PIECES, CONNECT, LEAVE, WAIT, RESTART, KILL = range(7)
OPS = 7


class Step(NamedTuple):
    """One of them: what, on which connection, with which bytes (or after how many milliseconds)."""

    op: int
    connection: int
    payload: bytes = b""


def build(steps: Iterable[Step]) -> bytes:
    return b"".join(_HEAD.pack(s.op, s.connection, len(s.payload)) + s.payload for s in steps)


def parse(data: bytes) -> list[Step]:
    """Read any bytes as a script: numbers are taken into their bounds, and lengths end with the bytes."""
    steps, at = [], 0
    while at + _HEAD.size <= len(data):
        op, connection, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        steps.append(Step(op % OPS, connection % 4, data[at : at + size]))
        at += size
    return steps
