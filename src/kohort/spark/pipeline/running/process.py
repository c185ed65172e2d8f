"""Process of a pipeline run: the file lock beside the checkpoint, and the signals that end the run.

The operating system releases the file lock however the process ends. So two runs never use one checkpoint, and
``kohort pipeline status`` can tell an active run from a lock file that a killed run left.

pyspark's Ctrl-C handler cancels jobs and raises an error in the main thread, which waits for the JVM: the run would
end with tracebacks. So the first Ctrl-C or SIGTERM only sets a flag, which the run checks between micro-batches. A
second signal has its usual effect: it raises KeyboardInterrupt in a Python program, and ends ``kohort pipeline run``.
SIGTERM works even if Ctrl-C is ignored, as in background processes of a shell script.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final, NamedTuple

from kohort.errors import KohortError
from kohort.spark.pipeline.definition import Pipeline

_FILE = "running.json"


class CurrentRun(NamedTuple):
    host: str
    pid: int
    since_ms: int


@contextmanager
def exclusive_run(pipeline: Pipeline) -> Iterator[None]:
    """Lock a pipeline for this process until the ``with`` block ends.

    Raises KohortError if another process has the lock.
    """
    target = pipeline.state / _FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = current_run(pipeline)
            who = f": process {other.pid} on {other.host}" if other else ""
            raise KohortError(
                f"pipeline {pipeline.name} is already running{who}. Two runs cannot share the checkpoint "
                f"{pipeline.state}"
            ) from None
        held.truncate(0)
        json.dump(CurrentRun(socket.gethostname(), os.getpid(), int(time.time() * 1000))._asdict(), held)
        held.flush()
        try:
            yield
        finally:
            target.unlink(missing_ok=True)


def current_run(pipeline: Pipeline) -> CurrentRun | None:
    try:
        with (pipeline.state / _FILE).open() as found:
            try:
                fcntl.flock(found, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return CurrentRun(**json.load(found))
    except (FileNotFoundError, ValueError, TypeError):
        pass
    return None


Handler = Callable[[int, FrameType | None], None]
_STDERR: Final = 2


class StopRequest:
    """Sets the event ``requested`` at the first SIGINT or SIGTERM. A second signal calls the previous handler.

    Has no effect outside the main thread, or on ignored signals.
    """

    def __init__(self, say: str = "") -> None:
        self._say = say
        self._before: dict[int, signal.Handlers | int | Handler | None] = {}
        self.requested = threading.Event()

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.requested.is_set():
            self.requested.set()
            if self._say:
                # not print(): the signal may interrupt another print(), and print() is not reentrant
                os.write(_STDERR, f"{self._say}\n".encode())
            return
        before = self._before[number]
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


@contextmanager
def exit_on_signal(code: int) -> Iterator[Callable[[], None]]:
    """End this process and Spark if SIGINT or SIGTERM arrives in the ``with`` block.

    Yields a function that sets the signal handlers again: pyspark replaces the handlers when a session starts.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        os.write(_STDERR, b"\n")
        os._exit(code)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: before for number, before in found.items() if before is not None}

    def install() -> None:
        for number, before in handlers.items():
            signal.signal(number, before if before == signal.SIG_IGN else end)

    install()
    try:
        yield install
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)
