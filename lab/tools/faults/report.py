"""Task and reports of a client under test: progress, errors, and the end."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kohort_lab.history.writer import ClientHistory

PROGRESS: Final = struct.Struct("<qqq")
"""Number of successful operations; begin and end of the last one, in microseconds."""
AGAIN_S: Final = 0.2
"""Delay of a program after an error."""
_monotonic_ns = time.monotonic_ns  # the real clock, before the injection


def now_us() -> int:
    """Return CLOCK_MONOTONIC, which all processes of a machine share."""
    return _monotonic_ns() // 1000


@dataclass(frozen=True)
class Task:
    """Task of a client: a JSON file of the campaign."""

    face: str
    name: str
    folder: str
    bootstrap: str
    options: dict[str, Any]
    """Client options by name."""
    group: str
    inject: list[str]
    """Injections: ``resolver``, ``token``."""

    @classmethod
    def read(cls) -> Task:
        return cls(**json.loads(Path(sys.argv[1]).read_text()))

    def file(self, ending: str) -> Path:
        return Path(self.folder) / f"{self.name}.{ending}"


class Report:
    """Writes the reports of a client."""

    def __init__(self, of: Task) -> None:
        self._reports = of.file("said").open("w", buffering=1)
        self._progress = os.open(of.file("progress"), os.O_RDWR | os.O_CREAT)
        self._lock = threading.Lock()
        self._count = 0
        handler = logging.Handler(logging.INFO)
        handler.emit = self._log  # type: ignore[method-assign]
        logging.getLogger("kohort").addHandler(handler)

    def done(self, begun_us: int) -> None:
        """Report the success of an operation that needs the broker."""
        with self._lock:
            self._count += 1
            os.pwrite(self._progress, PROGRESS.pack(self._count, begun_us, now_us()), 0)

    def failed(self, error: BaseException) -> None:
        """Report an error of a call."""
        self._write("error", type(error).__name__, str(error))

    def closed(self, begun_us: int) -> None:
        """Report the duration of ``close``."""
        self._write("closed", "", str((now_us() - begun_us) / 1e6))

    def _log(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self._write("log", record.levelname, record.getMessage())

    def _write(self, kind: str, name: str, text: str) -> None:
        self._reports.write(json.dumps({"at": now_us(), "kind": kind, "name": name, "text": text}) + "\n")


def history(of: Task, **about: Any) -> ClientHistory:
    """Open the history of this process; each line is flushed to the system."""
    file = of.file("jsonl").open("w", buffering=1)
    return ClientHistory(file, of.name, now_us, threading.Lock(), clock=socket.gethostname(), library="kohort", **about)


def until_stopped() -> threading.Event:
    """Return an event that SIGTERM sets."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    return over
