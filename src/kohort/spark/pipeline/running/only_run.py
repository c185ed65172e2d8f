"""Whether a pipeline runs, since when, and as which process: a file beside its checkpoint, locked by the process that
runs it.

The lock goes with the process, however it ends: so two runs are never on one checkpoint, and ``status`` knows a run
from what one that was killed has left.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
    """Return the run that goes on, if there is one."""
    try:
        with (pipeline.state / _FILE).open() as found:
            try:
                fcntl.flock(found, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return CurrentRun(**json.load(found))
    except (FileNotFoundError, ValueError, TypeError):
        pass
    return None
