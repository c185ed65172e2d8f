"""Where the bytes of one connection land: a large frame straight in a buffer of its own, which is used again.

A Fetch brings megabytes. Gathered in pieces and joined they would be copied three times, and each time into memory that
the system has to clear first, which costs more than the copies. So once the length of a large frame is known, the
socket is read into the frame's own place; small frames are cut from a scratch buffer. A buffer is free for the next
frame as soon as no view of it is left.
"""

from __future__ import annotations

from typing import Final

from kohort.wire.buffers import Buffers
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameReader

SCRATCH_BYTES: Final = 64 << 10
IN_PLACE_FROM: Final = 128 << 10
"""Frames from this size on get a buffer of their own."""
IN_PLACE_MOST: Final = 64 << 20
"""Larger frames are gathered as they come: nothing of this size is set aside for what a length merely promises."""
KEPT_BYTES: Final = 48 << 20
"""How much one connection keeps for frames to come."""


class FrameBuffers:
    """Asked for room, told how many bytes came, gives whole frames. A frame in place is a view from the beginning of
    its buffer."""

    def __init__(self, max_bytes: int) -> None:
        self._reader = FrameReader(max_bytes)
        self._buffers = Buffers(KEPT_BYTES)
        self._scratch = bytearray(SCRATCH_BYTES)
        self._frame: memoryview | None = None
        self._filled = 0

    @property
    def is_begun(self) -> bool:
        """Whether some bytes of a frame have come, and not all."""
        return self._frame is not None or self._reader.pending_bytes > 0 or self._reader.missing_bytes > 0

    def room(self) -> memoryview:
        """Return where the next bytes are to be written, from its beginning."""
        return memoryview(self._scratch) if self._frame is None else self._frame[self._filled :]

    def arrived(self, count: int) -> list[Buffer]:
        """Return the frames that are whole now that ``count`` bytes were written. Raises ProtocolError for a length
        below zero or above the limit."""
        if self._frame is None:
            frames: list[Buffer] = [*self._reader.feed(bytes(memoryview(self._scratch)[:count]))]
            self._reserve()
            return frames
        self._filled += count
        if self._filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _reserve(self) -> None:
        """Give the frame under way a place of its own, if it is large."""
        size = self._reader.pending_bytes + self._reader.missing_bytes
        if self._reader.missing_bytes and IN_PLACE_FROM <= size <= IN_PLACE_MOST:
            begun = self._reader.take_begun()
            self._frame, self._filled = self._buffers.take(size), len(begun)
            self._frame[: self._filled] = begun
