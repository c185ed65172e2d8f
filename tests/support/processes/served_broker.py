"""``kohort serve`` as a process: start, kill, restart."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


class Served:
    """A served broker in another process."""

    def __init__(self, *args: str, data: Path | None = None) -> None:
        where = ["--data", str(data)] if data is not None else ["--memory"]
        command = [
            sys.executable,
            "-m",
            "kohort",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--output",
            "json",
            *where,
            *args,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reader.start()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"kohort serve ended with {self.process.wait()}: {self.log}")
        self.ready = json.loads(line)
        self.bootstrap: str = self.ready["bootstrap"]

    def _read(self, stream: IO[str]) -> None:
        self._log.extend(stream)

    @property
    def log(self) -> str:
        """Its stderr so far; complete after its end."""
        if self.process.poll() is not None:
            self._reader.join(5)
        return "".join(self._log)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """Stop the process (SIGTERM); return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(20)
        self._reader.join(5)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def memory_bytes(self) -> int:
        """Resident memory (Linux)."""
        return self._memory("VmRSS:")

    def most_memory_bytes(self) -> int:
        """Peak resident memory (Linux)."""
        return self._memory("VmHWM:")

    def _memory(self, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"/proc has no {name}")

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.stop()
