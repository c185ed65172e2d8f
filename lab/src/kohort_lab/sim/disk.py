"""A disk that refuses, and a process that dies in the middle of a write.

What was appended outlives the process, as the page cache does. A refusal leaves the file as it was, as the seam
promises; a death leaves any prefix of what was being written, which is what recovery at start has to mend.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kohort.errors import StorageError
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.codec import Buffer


class ProcessDied(BaseException):
    """The process that was writing is gone. Not an Exception: nothing in the process may catch its own death."""


@dataclass(slots=True)
class DiskWeather:
    """Probabilities per write; faults change them, calm resets them."""

    refuse: float = 0.0
    die: float = 0.0


class FaultyDisk(MemoryStorage):
    """Storage of one broker; it stays when the broker dies."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.weather = DiskWeather()
        self.refusals = 0
        """How many writes were refused so far."""
        self._rng = rng

    def open(self, name: str) -> MemoryFile:
        return _FaultyFile(super().open(name), self)

    def replace(self, name: str, content: Buffer, *, durable: bool = True, private: bool = False) -> None:
        self.strike(f"replace {name}")
        super().replace(name, content, durable=durable, private=private)

    def strike(self, what: str) -> bool:
        """Tell whether the process dies in this write. Raises StorageError where the disk refuses it."""
        if self._rng.random() < self.weather.refuse:
            self.refusals += 1
            raise StorageError(f"cannot {what}: the disk refused")
        return self._rng.random() < self.weather.die

    def torn(self, data: bytes) -> bytes:
        """Return what of ``data`` was written when the process died."""
        return data[: int(self._rng.random() * (len(data) + 1))]


class _FaultyFile(MemoryFile):
    """A file whose appends may be refused or torn."""

    __slots__ = ("_disk",)

    def __init__(self, inner: MemoryFile, disk: FaultyDisk) -> None:
        super().__init__(inner._data)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self._disk.strike("append"):
            super().append([self._disk.torn(b"".join(bytes(b) for b in buffers))])
            raise ProcessDied
        return super().append(buffers)

    def overwrite(self, at: int, data: Buffer) -> None:
        self._disk.strike("overwrite")
        super().overwrite(at, data)
