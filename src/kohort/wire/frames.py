"""Cut a stream of bytes into frames (facts 0.1).

A frame is an int32 length and that many bytes. The reader holds only bytes that have arrived: a length is checked
against the limit as soon as its four bytes are there, and nothing is set aside for what it promises.
"""

from __future__ import annotations

import struct
from typing import Final

from kohort.errors import ProtocolError

_length = struct.Struct(">i")
LENGTH_BYTES: Final = _length.size
TINY: Final = 4096
"""Pieces under this size are gathered in one buffer, so that a peer sending byte by byte costs its bytes only."""


class FrameReader:
    """Takes bytes as they come, gives whole frames (without their length)."""

    __slots__ = ("_head", "_left", "_pieces", "max_bytes", "pending_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.pending_bytes = 0
        """Bytes held of a frame that is not whole yet."""
        self._head = b""
        self._left = 0
        self._pieces: list[bytes | bytearray] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes. Raises ProtocolError for a length below zero or above the limit."""
        at, end = 0, len(data)
        if not self._left and not self._head and end >= LENGTH_BYTES:
            size = self._check(_length.unpack_from(data)[0])
            if size == end - LENGTH_BYTES:
                return [data[LENGTH_BYTES:]]  # one frame and nothing else, as it comes most of the time
        frames: list[bytes] = []
        if self._left:
            at = self._continue(data, frames)
        while at < end:
            if self._head:
                missing = LENGTH_BYTES - len(self._head)
                self._head += data[at : at + missing]
                at = min(at + missing, end)
                if len(self._head) < LENGTH_BYTES:
                    break
                size = self._check(_length.unpack(self._head)[0])
                self._head = b""
            elif end - at < LENGTH_BYTES:
                self._head = data[at:]
                break
            else:
                size = self._check(_length.unpack_from(data, at)[0])
                at += LENGTH_BYTES
            if size <= end - at:
                frames.append(data[at : at + size])
                at += size
            else:
                self._left = size - (end - at)
                self._keep(data[at:])
                at = end
        self.pending_bytes = len(self._head) + sum(map(len, self._pieces))
        return frames

    @property
    def missing_bytes(self) -> int:
        """How many bytes the frame under way still lacks; 0 if none is, or its length has not come."""
        return self._left

    @property
    def frame_bytes(self) -> int:
        """The length of the frame under way; 0 if none is, or its length has not come."""
        return self._left + self.pending_bytes if self._left else 0

    def take_begun(self) -> bytes:
        """What has come of the frame under way. The reader forgets it: the caller reads the rest."""
        begun = b"".join(self._pieces)
        self._pieces.clear()
        self._left = self.pending_bytes = 0
        return begun

    def _check(self, size: int) -> int:
        if size < 0:
            raise ProtocolError(f"a frame of {size} bytes: not a Kafka client, or the stream is out of step")
        if size > self.max_bytes:
            raise ProtocolError(f"a frame of {size} bytes, more than the {self.max_bytes} accepted")
        return size

    def _continue(self, data: bytes, frames: list[bytes]) -> int:
        """Give ``data`` to the frame under way; returns where the rest begins."""
        taken = min(self._left, len(data))
        self._left -= taken
        self._keep(data if taken == len(data) else data[:taken])
        if not self._left:
            frames.append(b"".join(self._pieces))
            self._pieces.clear()
        return taken

    def _keep(self, piece: bytes) -> None:
        if len(piece) >= TINY:
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))
