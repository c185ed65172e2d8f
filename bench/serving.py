"""A kohort broker in a separate process, and process statistics of the system."""

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
    """Address and process of the broker."""

    address: str
    pid: int


@contextmanager
def served_broker(data: Path | None = None) -> Iterator[Served]:
    """Run a broker on a free port, in memory or with data in a folder, without initial rebalance delay."""
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
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int | str = "self") -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024
