"""A member of the campaign: a process of any client; the verb ``play`` of ``interop/clients/README.md``."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from support.campaign.clients import CLIENTS
from support.campaign.plan import Role
from support.peers.client_programs import program

HEARTBEAT_MS: Final = 400
SESSION_MS: Final = 8_000
STATIC_SESSION_MS: Final = 25_000
"""Longer than a restart takes."""
POLL_MS: Final = 28_000
"""More than three times the session; seven times are usual."""
END_S: Final = 30.0


class ClientProcess:
    """A running member of a group at ``bootstrap``, as planned by ``role``; ``words``: its subscription and options."""

    def __init__(self, role: Role, bootstrap: str, group: str, strategy: str, words: dict[str, str]) -> None:
        self.role = role
        self.stopped = False
        static = role.instance is not None
        options = {
            "bootstrap": bootstrap,
            "group": group,
            "client": role.client_id,
            "strategy": strategy,
            "instance": role.instance or "-",
            "session": STATIC_SESSION_MS if static else SESSION_MS,
            "heartbeat": HEARTBEAT_MS,
            "poll": POLL_MS,
            **words,
        }
        line = [*program(CLIENTS[role.client].program), "play", *(f"{name}={value}" for name, value in options.items())]
        with tempfile.NamedTemporaryFile(prefix=f"{role.client_id}-", suffix=".log", delete=False) as log:
            self._log = Path(log.name)
            self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)

    def order(self, *words: str) -> None:
        """Send a command to the client."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        """Suspend the process (SIGSTOP); its connections stay open."""
        self.stopped = True
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        self.stopped = False
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process (SIGKILL): it does not leave its group."""
        self.process.kill()
        self._end()

    def close(self) -> None:
        """End the process (SIGTERM): a dynamic member leaves its group."""
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._end()

    def _end(self) -> None:
        self.process.wait(END_S)
        if self.process.stdin is not None:
            self.process.stdin.close()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def output_tail(self) -> str:
        """The end of its output."""
        return self._log.read_text(errors="replace")[-1500:]

    def forget(self) -> None:
        """End the process if it runs, and remove its log."""
        if self.is_running:
            self.kill()
        self._log.unlink(missing_ok=True)
