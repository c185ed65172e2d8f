"""The log of a console's connections and logins: the first line of a kind at once, then a count a minute."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from kohort.aio.serving.broker_log import BrokerLog
from kohort.notes import Level, Note

LONGEST_NAME: Final = 100
"""Letters of a user's name in a line."""

UNFINISHED: Final = {
    "ASGI callable returned without completing response.": "an answer was cut off, since its reader took too long"
}


class ConsoleLog:
    """Lines of ``kohort.console``. Used on the loop of the server alone."""

    def __init__(self) -> None:
        self._lines = BrokerLog(logging.getLogger("kohort.console"))
        self._timer: asyncio.TimerHandle | None = None

    def write(self, note: Note) -> None:
        """Write a line, or count it where its kind had one within the last minute."""
        self._lines.tell([note], _now_ms())
        self._write_counts_later()

    def end(self) -> None:
        """Write the counts."""
        if self._timer is not None:
            self._timer.cancel()
        self._lines.end()

    def _write_counts_later(self) -> None:
        at_ms = self._lines.wake_at_ms
        if self._timer is None and at_ms is not None:
            delay_s = max(0, at_ms - _now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._write_counts)

    def _write_counts(self) -> None:
        self._timer = None
        self._lines.tell([], _now_ms())
        self._write_counts_later()


class ConnectionLog:
    """The part of ``logging.Logger`` that uvicorn uses for a connection, without its own logger at the root."""

    level = logging.WARNING

    def __init__(self, log: ConsoleLog) -> None:
        self._log = log

    def warning(self, text: str, *args: Any) -> None:
        """Log a refused request."""
        self._write(Level.WARNING, text, args)

    def error(self, text: str, *args: Any, exc_info: BaseException | None = None) -> None:
        """Log a failed answer."""
        text = UNFINISHED.get(text, text.strip())
        self._write(Level.WARNING, text if exc_info is None else f"{text}: {exc_info!r}", args)

    def log(self, level: int, text: str, *args: Any) -> None:
        """Log nothing: uvicorn traces connections with it."""

    def _write(self, level: Level, text: str, args: tuple[Any, ...]) -> None:
        self._log.write(Note(level, f"a connection of the console: {text % args if args else text}", text))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
