"""A consumer of any client as a process, and what it has said so far."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMBER = Path(__file__).parents[1] / "interop" / "member.py"
DEADLINE_S = 60.0


def eventually(what: str, check: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """Wait until ``check()`` is true and return what it gave; fail with ``what`` once the deadline has passed."""
    ends = time.monotonic() + deadline_s
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < ends, f"not within {deadline_s:.0f} s: {what}"
        time.sleep(0.05)


class Member:
    """A running member."""

    def __init__(self, client: str, bootstrap: str, group: str, topic: str) -> None:
        command = [sys.executable, str(MEMBER), client, bootstrap, group, topic]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.owns: set[int] | None = None
        self.read: set[tuple[int, int]] = set()
        self.left = False
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._collect, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "owns" in said:
                self.owns = set(said["owns"])
            elif "read" in said:
                self.read.add(tuple(said["read"]))
            else:
                self.left = True

    def _collect(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def kill(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self.process.kill()
        self._end()

    def close(self) -> None:
        """SIGTERM: it commits, leaves, and ends."""
        self.process.terminate()
        self._end()

    def _end(self) -> None:
        self.process.wait(30)
        for thread in self._threads:
            thread.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
