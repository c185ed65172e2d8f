"""A kohort broker in a process of its own, and what the system says of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """Where the broker is."""

    address: str
    pid: int


@contextmanager
def served_broker(data: Path | None = None) -> Iterator[Served]:
    """A broker on a free port, in memory or with its data in a folder; groups do not wait for more members."""
    command = [sys.executable, "-m", "kohort", "serve", "--listen", "127.0.0.1:0", "--output", "json"]
    command += ["--memory"] if data is None else ["--data", str(data)]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        yield Served(json.loads(server.stdout.readline())["bootstrap"], server.pid)
    finally:
        server.terminate()
        server.wait()


def cpu_of(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int | str = "self") -> float:
    """What of a process is in memory now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024
