"""Statistics of a process: processor time, memory, open files, threads (Linux)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")
STAT_UTIME, STAT_STIME, STAT_THREADS = 11, 12, 17
"""Field numbers in /proc/PID/stat after the name."""


@dataclass(frozen=True)
class Sample:
    """One sample of a process."""

    cpu_s: float
    """User and system time since its start."""
    rss_bytes: int
    handles: int
    threads: int


def sample(pid: int) -> Sample:
    """Sample a process. Raises OSError if it has ended."""
    proc = Path("/proc") / str(pid)
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    pages = int((proc / "statm").read_text().split()[1])
    return Sample(
        cpu_s=(int(fields[STAT_UTIME]) + int(fields[STAT_STIME])) / TICKS,
        rss_bytes=pages * PAGE_BYTES,
        handles=sum(1 for _ in (proc / "fd").iterdir()),
        threads=int(fields[STAT_THREADS]),
    )
