"""A console as a process: any command that serves one and prints its address."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

URL = re.compile(r"https?://[^\s\"]+?(?=/?[\s\"])")


class ConsoleProcess:
    """``kohort`` with these arguments, after it printed the console's address."""

    def __init__(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "kohort", *words]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=None if env is None else dict(env)
        )
        self._complaints: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.lines: list[str] = []
        self.url = self._await_url()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)

    def _await_url(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)
            found = URL.search(line)
            if found and "console" in line:
                return found[0]
        raise RuntimeError(f"the console exited with {self._process.wait()}: {self.complaints}")

    @property
    def complaints(self) -> str:
        """Its stderr so far; complete after its end."""
        if self._process.poll() is not None:
            self._reader.join(5)
        return "".join(self._complaints)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(by)
        code = self._process.wait(30)
        self._reader.join(5)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code


@contextmanager
def console_process(*words: str, env: Mapping[str, str] | None = None) -> Iterator[ConsoleProcess]:
    """Run the console during the block."""
    process = ConsoleProcess(*words, env=env)
    try:
        yield process
    finally:
        process.stop()
