"""All the processes of a session, so that what a process has started is stopped and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

ENDS_S = 300.0
"""How long processes may take to end, on a machine however busy."""


def family(process: subprocess.Popen[bytes]) -> list[int]:
    """What runs in the session that ``process`` began (``start_new_session``), itself too; none of Spark's processes
    begins another."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == process.pid and state != "Z":
            found.append(int(path.parent.name))
    return found


def signal_family(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    for pid in family(process):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, until none is left."""
    while family(process):
        signal_family(process, signal.SIGKILL)
    process.wait(ENDS_S)
