"""A fuzzed entrance: a place where foreign bytes enter kohort."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeVar

T = TypeVar("T")
HANG_MS = 50.0
"""Limit of one step's processor time: the documented longest event."""
MEMORY_MB = 192
"""Default limit of one input's growth of peak memory: the reader of one batch may decompress 128 MB, and briefly
has two copies.
"""


class Wrong(Exception):
    """A violated guarantee, raised by an entrance."""


class Watch:
    """Measures the steps of an input in processor time, which is independent of other processes."""

    def __init__(self) -> None:
        self.slowest_ms = 0.0
        self.inputs = 0
        """Number of inputs within one script."""

    def step(self, work: Callable[[], T]) -> T:
        """Run one step, and record its duration."""
        began = time.thread_time_ns()
        try:
            return work()
        finally:
            self.slowest_ms = max(self.slowest_ms, (time.thread_time_ns() - began) / 1e6)


class Entrance(ABC):
    """An entrance. Its inputs are bytes, so that they can be kept, mutated, replayed and minimized."""

    name: ClassVar[str]
    feeds: ClassVar[str]
    """Short description of the input and its reader."""
    hang_ms: ClassVar[float] = HANG_MS
    memory_mb: ClassVar[int] = MEMORY_MB

    @abstractmethod
    def generate(self, rng: random.Random) -> bytes:
        """Return an input: usually a valid one with small changes."""

    @abstractmethod
    def run(self, data: bytes, watch: Watch) -> None:
        """Process an input. Any exception is a finding; documented errors are caught here."""

    def pieces(self, data: bytes) -> list[bytes] | None:  # noqa: ARG002 - of most inputs every byte is one
        """Return the parts that a minimization can leave out; None without such parts."""
        return None

    def whole(self, pieces: list[bytes]) -> bytes:
        """Return the input of these parts."""
        return b"".join(pieces)
