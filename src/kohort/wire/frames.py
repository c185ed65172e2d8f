"""Split a byte stream into frames (protocol/requests.md#frames).

A frame is an int32 length and that many bytes. A length is checked against the limit as soon as it arrives, and no
memory is reserved for it: the reader has only received bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from kohort.errors import ProtocolError

_length = struct.Struct(">i")
LENGTH_BYTES: Final = _length.size


class FrameReader:
    __slots__ = ("_begun", "_head", "_left", "_uncopied_above", "max_bytes", "pending_bytes")

    def __init__(self, max_bytes: int, *, uncopied_above: int | None = None) -> None:
        """Create a reader. A frame of more than ``uncopied_above`` bytes stays a bytearray: a copy takes too long."""
        self.max_bytes = max_bytes
        self._uncopied_above = uncopied_above
        self.pending_bytes = 0
        self._head = b""
        self._left = 0
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Return the frames that ``data`` completes. Raises ProtocolError for an invalid length."""
        at, end = 0, len(data)
        if not self._left and not self._head and end >= LENGTH_BYTES:
            size = self._check(_length.unpack_from(data)[0])
            if size == end - LENGTH_BYTES:
                return [data[LENGTH_BYTES:]]  # the usual case: exactly one frame
        frames: list[bytes | bytearray] = []
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
                self._begun += data[at:]
                at = end
        self.pending_bytes = len(self._head) + len(self._begun)
        return frames

    @property
    def missing_bytes(self) -> int:
        """Missing bytes of the partial frame; 0 before its length arrived."""
        return self._left

    @property
    def frame_bytes(self) -> int:
        """Length of the partial frame; 0 before its length arrived."""
        return self._left + self.pending_bytes if self._left else 0

    def first_bytes(self, count: int) -> bytes:
        """Return the first bytes of the partial frame, fewer if fewer arrived."""
        return bytes(self._begun[:count])

    def take_begun(self) -> bytes:
        """Return the bytes of the partial frame and forget it: the caller reads the rest."""
        begun = bytes(self._begun)
        self._begun = bytearray()
        self._left = self.pending_bytes = 0
        return begun

    def _check(self, size: int) -> int:
        if size < 0:
            raise ProtocolError(f"a frame of {size} bytes: the peer does not speak Kafka's protocol, or lost bytes")
        if size > self.max_bytes:
            raise ProtocolError(f"a frame of {size} bytes, more than the {self.max_bytes} accepted")
        return size

    def _continue(self, data: bytes, frames: list[bytes | bytearray]) -> int:
        taken = min(self._left, len(data))
        self._left -= taken
        self._begun += data if taken == len(data) else data[:taken]
        if not self._left:
            whole, self._begun = self._begun, bytearray()
            is_copied = self._uncopied_above is None or len(whole) <= self._uncopied_above
            frames.append(bytes(whole) if is_copied else whole)
        return taken
