"""Replacements for the system's resolver and clock and for a token source, each controlled by a file."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from support.security.tokens import unsecured

HOST: Final = "broker.faults.test"
"""Host name of the injected resolver."""
RESOLVER, TOKEN, CLOCK = "resolver.json", "token.json", "clock.json"


def inject_resolver(folder: Path) -> None:
    """Resolve HOST as the file says: ``addresses``, ``fails`` (a sentence), ``hangs_s``.

    uvloop resolves in C, where nobody can inject anything: without it asyncio asks ``socket.getaddrinfo``.
    """
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **words: Any) -> Any:
        if host != HOST:
            return real(host, *args, **words)
        answer = json.loads((folder / RESOLVER).read_text())
        time.sleep(answer.get("hangs_s", 0))
        if answer.get("fails"):
            raise socket.gaierror(socket.EAI_AGAIN, answer["fails"])
        return [found for address in answer["addresses"] for found in real(address, *args, **words)]

    socket.getaddrinfo = getaddrinfo


def inject_clock(folder: Path) -> None:
    """Move the clocks when SIGUSR1 comes: the file says ``wall_s`` and ``monotonic_s``, what is added to each."""
    real = {name: getattr(time, name) for name in ("time_ns", "time", "monotonic_ns")}
    added = {"wall_s": 0.0, "monotonic_s": 0.0}

    def look(*_: object) -> None:
        added.update(json.loads((folder / CLOCK).read_text()))

    def time_ns() -> int:
        return int(real["time_ns"]() + added["wall_s"] * 1e9)

    def monotonic_ns() -> int:
        return int(real["monotonic_ns"]() + added["monotonic_s"] * 1e9)

    time.time_ns = time_ns
    time.time = lambda: real["time"]() + added["wall_s"]
    time.monotonic_ns = monotonic_ns
    signal.signal(signal.SIGUSR1, look)


def token_source(folder: Path) -> Callable[[], str]:
    """Return a source of tokens: the file says ``expires_s`` (from now on), ``raises`` (a sentence), ``hangs_s``."""

    def token() -> str:
        answer = json.loads((folder / TOKEN).read_text())
        time.sleep(answer.get("hangs_s", 0))
        if answer.get("raises"):
            raise RuntimeError(answer["raises"])
        return unsecured("alice", exp=int(time.time() + answer["expires_s"]))

    return token
