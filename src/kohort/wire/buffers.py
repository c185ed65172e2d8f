"""Reusable large buffers: the operating system clears fresh memory, which costs more than a copy.

A buffer is free if it has no memoryview. Each ``Buffers`` belongs to one owner and one thread.
"""

from __future__ import annotations

from typing import Final

STEP_BYTES: Final = 1 << 20


class Buffers:
    """Reusable buffers for large reads; at most ``kept_most`` bytes are kept."""

    def __init__(self, kept_most: int) -> None:
        self._kept: list[bytearray] = []
        self._kept_most = kept_most

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self._kept))

    def take(self, size: int) -> memoryview:
        """Return ``size`` bytes at the beginning of a free buffer."""
        fitting = [b for b in self._kept if len(b) >= size]
        for buffer in sorted(fitting, key=len):
            if is_free(buffer):
                return memoryview(buffer)[:size]
        buffer = bytearray(-(-size // STEP_BYTES) * STEP_BYTES)
        if len(buffer) <= self._kept_most:
            self._make_room(len(buffer))
            self._kept.append(buffer)
        return memoryview(buffer)[:size]

    def _make_room(self, size: int) -> None:
        while self._kept and self.kept_bytes + size > self._kept_most:
            self._kept.pop(0)


def is_free(buffer: bytearray) -> bool:
    """Return True if ``buffer`` has no view: the size of a bytearray with views cannot change."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
