"""Scripts of broker events, encoded so that any bytes are a valid script."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

_HEAD = struct.Struct(">BBI")
SEND, SEND_IN_PIECES, CONNECT, LEAVE, WAIT, RESTART, KILL = range(7)
OPS = 7


class Step(NamedTuple):
    """One step: kind, connection, bytes (or milliseconds)."""

    op: int
    connection: int
    payload: bytes = b""


def build(steps: Iterable[Step]) -> bytes:
    return b"".join(_HEAD.pack(s.op, s.connection, len(s.payload)) + s.payload for s in steps)


def parse(data: bytes) -> list[Step]:
    """Parse any bytes as a script: numbers are reduced to their range, lengths to the remaining bytes."""
    steps, at = [], 0
    while at + _HEAD.size <= len(data):
        op, connection, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        steps.append(Step(op % OPS, connection % 4, data[at : at + size]))
        at += size
    return steps
