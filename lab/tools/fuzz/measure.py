"""Run one input of an entrance, and classify the result: crash, hang, too much memory, or none."""

from __future__ import annotations

import gc
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fuzz.entrance import Entrance, Watch, Wrong

LONGEST_S = 10.0
"""Limit of processor time: a longer run is stopped as a hang."""
KIB = 1024


class Finding(NamedTuple):
    """An error; ``where`` is equal for equal errors."""

    kind: str
    what: str
    where: str


class Hang(BaseException):
    """An input that exceeds the time limit."""


def peak_mb() -> float:
    """Return the peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / KIB / (KIB if sys.platform == "darwin" else 1)


class InputRunner:
    """Classifies the inputs of one entrance."""

    def __init__(self, entrance: Entrance) -> None:
        self.entrance = entrance
        self.slowest_ms = 0.0
        self.inputs = 0
        self.begin()

    def begin(self) -> None:
        """Start to measure the growth of memory."""
        self._began_mb = peak_mb()

    @property
    def growth_mb(self) -> float:
        """Growth of peak memory since the first input."""
        return peak_mb() - self._began_mb

    def run(self, data: bytes) -> Finding | None:
        """Run one input; return its finding, if any."""
        watch = Watch()
        found = self._crash(data, watch)
        self.inputs += max(watch.inputs, 1)
        if found is not None:
            return found
        if watch.slowest_ms > self.entrance.hang_ms:
            ms = min(watch.slowest_ms, *(self._alone_ms(data) for _ in range(2)))
            self.slowest_ms = max(self.slowest_ms, ms)
            if ms > self.entrance.hang_ms:
                return Finding("hang", f"{ms:.0f} ms of processor time, three times over", "hang")
        else:
            self.slowest_ms = max(self.slowest_ms, watch.slowest_ms)
        if self.growth_mb > self.entrance.memory_mb:
            return Finding("memory", f"the peak has grown by {self.growth_mb:.0f} MB", "memory")
        return None

    def _crash(self, data: bytes, watch: Watch) -> Finding | None:
        try:
            with ended_after(LONGEST_S):
                self.entrance.run(data, watch)
        except Hang:
            return Finding("hang", f"not done after {LONGEST_S:.0f} s of processor time", "hang")
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return Finding("crash", "".join(traceback.format_exception(error)), place_of(error))
        return None

    def _alone_ms(self, data: bytes) -> float:
        gc.collect()
        watch = Watch()
        self._crash(data, watch)
        return watch.slowest_ms


def place_of(error: BaseException) -> str:
    """Return the type of an error and its innermost line in the project."""
    if isinstance(error, Wrong):
        return f"wrong: {str(error)[:60]}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "kohort" in f.filename] or list(frames)
    return f"{type(error).__name__} at {ours[-1].filename.rpartition('kohort/')[2]}:{ours[-1].name}"


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise Hang after this much processor time."""

    def end(_signal: int, _frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
