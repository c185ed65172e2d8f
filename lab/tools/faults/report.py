"""What a client under test tells the campaign: what it was told to do, how far it is, what went wrong, how it ended."""

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
"""How many operations succeeded; when the last one of them began and ended, in microseconds."""
AGAIN_S: Final = 0.2
"""How long a program waits after an error until it goes on, as a sane one does."""
_monotonic_ns = time.monotonic_ns  # before anybody injects another


def now_us() -> int:
    """CLOCK_MONOTONIC, which all processes of a machine share."""
    return _monotonic_ns() // 1000


@dataclass(frozen=True)
class Task:
    """What a client is to do: a JSON file that the campaign writes."""

    face: str
    name: str
    folder: str
    bootstrap: str
    options: dict[str, Any]
    """Options of the client by their names."""
    group: str
    inject: list[str]
    """What is injected: ``resolver``, ``token``."""

    @classmethod
    def read(cls) -> Task:
        """Return the task of this process."""
        return cls(**json.loads(Path(sys.argv[1]).read_text()))

    def file(self, ending: str) -> Path:
        return Path(self.folder) / f"{self.name}.{ending}"


class Report:
    """Writes how a client is doing."""

    def __init__(self, of: Task) -> None:
        self._said = of.file("said").open("w", buffering=1)
        self._progress = os.open(of.file("progress"), os.O_RDWR | os.O_CREAT)
        self._lock = threading.Lock()
        self._count = 0
        handler = logging.Handler(logging.INFO)
        handler.emit = self._log  # type: ignore[method-assign]
        logging.getLogger("kohort").addHandler(handler)

    def done(self, begun_us: int) -> None:
        """Tell that an operation succeeded which needs the broker."""
        with self._lock:
            self._count += 1
            os.pwrite(self._progress, PROGRESS.pack(self._count, begun_us, now_us()), 0)

    def failed(self, error: BaseException) -> None:
        """Tell of an error that a call raised."""
        self._write("error", type(error).__name__, str(error))

    def closed(self, begun_us: int) -> None:
        """Tell how long ``close`` took."""
        self._write("closed", "", str((now_us() - begun_us) / 1e6))

    def _log(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self._write("log", record.levelname, record.getMessage())

    def _write(self, kind: str, name: str, text: str) -> None:
        self._said.write(json.dumps({"at": now_us(), "kind": kind, "name": name, "text": text}) + "\n")


def history(of: Task, **about: Any) -> ClientHistory:
    """Begin the history of this process; each line is with the system at once."""
    file = of.file("jsonl").open("w", buffering=1)
    return ClientHistory(file, of.name, now_us, threading.Lock(), clock=socket.gethostname(), library="kohort", **about)


def until_told() -> threading.Event:
    """Return what is set by SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    return over
