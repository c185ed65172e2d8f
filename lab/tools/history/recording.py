"""Shared code of the recorded clients: their file, their clock, their end."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from kohort_lab.history.writer import ClientHistory

SESSION_MS = 10_000
POLL_MS = 200
SEND_EVERY_S = 0.02


class Task(NamedTuple):
    """Task of a client, from its command line."""

    verb: str
    """``produce``, ``consume`` or ``copy``."""
    bootstrap: str
    name: str
    folder: Path
    kind: str
    """Producer: ``plain`` or ``idempotent``; consumer: the group's protocol, ``classic`` or ``consumer``."""


def task() -> Task:
    verb, bootstrap, name, folder, kind = sys.argv[1:]
    return Task(verb, bootstrap, name, Path(folder), kind)


def now_us() -> int:
    """Return CLOCK_MONOTONIC, which all processes of a machine share."""
    return time.monotonic_ns() // 1000


def history(of: Task, library: str, **about: Any) -> ClientHistory:
    """Open the history of this process; each line is flushed to the system, so that a kill loses none."""
    file = (of.folder / f"{of.name}.jsonl").open("w", buffering=1)
    return ClientHistory(
        file, of.name, now_us, threading.Lock(), clock=socket.gethostname(), library=library, kind=of.kind, **about
    )


def until_stopped() -> threading.Event:
    """Return an event that SIGTERM sets."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    return over
