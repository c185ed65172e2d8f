"""Ctrl-C while Spark runs: noted, and obeyed between two micro-batches.

pyspark's own handler cancels jobs and raises in whatever the main thread does, which is mostly a question to the JVM:
so the documented way to stop would end in tracebacks of PySpark's. A first Ctrl-C is only noted here. A second does
what it did before: in a program it raises KeyboardInterrupt, in the command it ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final

Handler = Callable[[int, FrameType | None], None]
_STDERR: Final = 2


class StopSignal:
    """Within it, a first SIGINT is noted. Outside of the main thread, which alone gets signals, it does nothing."""

    def __init__(self, say: str = "") -> None:
        self._say = say
        self._before: signal.Handlers | int | Handler | None = None
        self._installed = False
        self.asked = threading.Event()

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            self._installed = callable(self._before)  # else a shell has it ignored, for a process in the background
        if self._installed:
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            before = self._before
            if callable(before):
                before(number, frame)
            return
        self.asked.set()
        if self._say:
            os.write(_STDERR, f"{self._say}\n".encode())  # print may be what was interrupted

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before)


@contextmanager
def ends_at_once(code: int) -> Iterator[Callable[[], None]]:
    """Let SIGINT end this process within the block, and Spark with it, which sees that its driver is gone. Nothing is
    lost: what is under way is done again by the next run. Yields what to call once there is a session: pyspark puts a
    handler of its own in place."""

    def end(_number: int, _frame: FrameType | None) -> None:
        os.write(_STDERR, b"\n")
        os._exit(code)

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    handler = end if callable(before) else before  # a shell has it ignored, for a process in the background

    def install() -> None:
        signal.signal(signal.SIGINT, handler)

    install()
    try:
        yield install
    finally:
        signal.signal(signal.SIGINT, before)
