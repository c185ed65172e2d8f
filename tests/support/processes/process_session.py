"""Suspend and kill all processes of a session together."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

ENDS_S = 300.0
"""Longest time until processes end, also on a busy machine."""


def family(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes of the session that ``process`` started (``start_new_session``), itself included.

    No process of Spark starts another session.
    """
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
    """Kill the session's processes (SIGKILL) until none is left."""
    while family(process):
        signal_family(process, signal.SIGKILL)
    process.wait(ENDS_S)
