"""The process that runs a pipeline: a lock beside the checkpoint, and the signals that end the run.

The lock is on a file and goes with the process, however that ends: two runs are never on one checkpoint, and ``status``
can tell a run from the file of a killed one.

pyspark's own handler of Ctrl-C cancels jobs and raises in the main thread, which mostly waits for the JVM: a run would
end in tracebacks of PySpark. So the first Ctrl-C or SIGTERM is only noted here, and obeyed between two micro-batches.
The second does what it did before: in a program Ctrl-C raises KeyboardInterrupt, in the command both end the process.
SIGTERM is noted even where Ctrl-C is ignored, as in a process that a shell script put into the background.
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
    """A run that goes on."""

    host: str
    pid: int
    since_ms: int


@contextmanager
def as_the_only_run(pipeline: Pipeline) -> Iterator[None]:
    """Hold the pipeline's lock within the block: this process runs it. Raises KohortError where another does."""
    target = pipeline.state / _FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = current_run(pipeline)
            who = f": process {other.pid} on {other.host}" if other else ""
            raise KohortError(
                f"pipeline {pipeline.name} is running already{who}. Two runs cannot share the checkpoint "
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
    """Return the run of another process, if one is active."""
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


class StopSignal:
    """Within it, a first SIGINT or SIGTERM is noted. It does nothing outside of the main thread, which alone gets
    signals, and for a signal that is ignored."""

    def __init__(self, say: str = "") -> None:
        self._say = say
        self._before: dict[int, signal.Handlers | int | Handler | None] = {}
        self.asked = threading.Event()

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.asked.is_set():
            self.asked.set()
            if self._say:
                os.write(_STDERR, f"{self._say}\n".encode())  # print may be what was interrupted
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
def ends_at_once(code: int) -> Iterator[Callable[[], None]]:
    """Let SIGINT and SIGTERM end this process within the block, and Spark with it, which sees that its driver is gone.
    Nothing is lost: the next run repeats the micro-batch in flight. Yields what to call once there is a session:
    pyspark puts a handler of its own in place."""

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
