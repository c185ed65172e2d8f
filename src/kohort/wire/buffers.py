"""Large buffers that are used again: fresh memory has to be cleared by the system first, which costs more than a copy.

A buffer is free as soon as no view of it is left. It has one owner and one thread.
"""

from __future__ import annotations

from typing import Final

STEP_BYTES: Final = 1 << 20


class Buffers:
    """Buffers for large pieces. They are used again, and no more of them is kept than ``kept_most``."""

    def __init__(self, kept_most: int) -> None:
        self._kept: list[bytearray] = []
        self._kept_most = kept_most

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self._kept))

    def take(self, size: int) -> memoryview:
        """Room for ``size`` bytes, at the beginning of a buffer that nobody looks into."""
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
        """Let go of the oldest, free or not: those in use live on with who uses them."""
        while self._kept and self.kept_bytes + size > self._kept_most:
            self._kept.pop(0)


def is_free(buffer: bytearray) -> bool:
    """Tell whether no view looks into ``buffer``: only then may its size change, and it is changed back at once."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
