"""Simulated disk with write errors, and process deaths during a write.

Appended data survives the process, like the page cache. A write error leaves the file unchanged; a death leaves any
prefix of the write, which recovery must truncate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kohort.errors import StorageError
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.codec import Buffer


class ProcessDied(BaseException):
    """Death of the writing process. A BaseException, so that the process cannot catch it."""


@dataclass(slots=True)
class DiskWeather:
    """Failure probabilities per write; faults raise them, the calm phase resets them."""

    refuse: float = 0.0
    die: float = 0.0


class FaultyDisk(MemoryStorage):
    """Storage of one broker; survives the broker's death."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.weather = DiskWeather()
        self.refusals = 0
        """Number of failed writes."""
        self._rng = rng

    def open(self, name: str) -> MemoryFile:
        return _FaultyFile(super().open(name), self)

    def replace(self, name: str, content: Buffer, *, durable: bool = True, private: bool = False) -> None:
        self.strike(f"replace {name}")
        super().replace(name, content, durable=durable, private=private)

    def strike(self, what: str) -> bool:
        """Return True if the process dies in this write. Raises StorageError for a write error."""
        if self._rng.random() < self.weather.refuse:
            self.refusals += 1
            raise StorageError(f"cannot {what}: the disk refused")  # brokers send it; another text changes every digest
        return self._rng.random() < self.weather.die

    def torn(self, data: bytes) -> bytes:
        """Return the part of ``data`` that was written at the death."""
        return data[: int(self._rng.random() * (len(data) + 1))]


class _FaultyFile(MemoryFile):
    """File whose appends may fail or be torn."""

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
