"""What is fuzzed: one place at which bytes come in that kohort did not make itself."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeVar

T = TypeVar("T")
HANG_MS = 50.0
"""What one step may take of the processor: as long as one request may hold up others."""
MEMORY_MB = 192
"""What one input may add to the peak of the process, where the entrance says nothing else: the reader of one batch may
decompress 128 MB, and holds it twice for a moment."""


class Wrong(Exception):
    """A promise that did not hold, in words: what an entrance raises by itself."""


class Watch:
    """Measures the steps of one input by processor time, which others on the machine do not lengthen."""

    def __init__(self) -> None:
        self.slowest_ms = 0.0
        self.inputs = 0
        """How many things were fed, where one script holds several."""

    def step(self, work: Callable[[], T]) -> T:
        """Do one step, and take note of how long it took."""
        began = time.thread_time_ns()
        try:
            return work()
        finally:
            self.slowest_ms = max(self.slowest_ms, (time.thread_time_ns() - began) / 1e6)


class Entrance(ABC):
    """One of them. An input is bytes, whatever it means: so it can be kept, mutated, replayed and cut."""

    name: ClassVar[str]
    feeds: ClassVar[str]
    """What is fed to what, in a few words."""
    hang_ms: ClassVar[float] = HANG_MS
    memory_mb: ClassVar[int] = MEMORY_MB

    @abstractmethod
    def generate(self, rng: random.Random) -> bytes:
        """Return an input: mostly something valid that was changed a little."""

    @abstractmethod
    def run(self, data: bytes, watch: Watch) -> None:
        """Feed it. Whatever is raised is a finding: what the code promises to raise is caught here."""

    def pieces(self, data: bytes) -> list[bytes] | None:  # noqa: ARG002 - of most inputs every byte is one
        """Return the parts of an input that can be left out when a finding is cut, if there are such."""
        return None

    def whole(self, pieces: list[bytes]) -> bytes:
        """Return the input of these parts."""
        return b"".join(pieces)
