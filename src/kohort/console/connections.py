"""Connections of browsers to a console: time limits, memory limit for unread answers, log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from kohort.aio.serving.broker_log import BrokerLog
from kohort.extras import needs
from kohort.notes import Level, Note

if TYPE_CHECKING:
    from starlette.types import Send


LONGEST_NAME: Final = 100
"""Maximum length of a user name in a log line, in characters."""

UNFINISHED: Final = {
    "ASGI callable returned without completing response.": "an answer was cut off, since the client read too slowly"
}


class ConsoleLog:
    """Log of the console. Use it only on the server's event loop."""

    def __init__(self) -> None:
        self._lines = BrokerLog(logging.getLogger("kohort.console"))
        self._timer: asyncio.TimerHandle | None = None

    def write(self, note: Note) -> None:
        """Write a note to the log, at most one of each kind in a minute. Further notes of the kind are only counted."""
        self._lines.write([note], _now_ms())
        self._write_counts_later()

    def end(self) -> None:
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
        self._lines.write([], _now_ms())
        self._write_counts_later()


class ConnectionLog:
    """Logger with the methods that uvicorn calls on the logger of a connection."""

    level = logging.WARNING

    def __init__(self, log: ConsoleLog) -> None:
        self._log = log

    def warning(self, text: str, *args: Any) -> None:
        self._write(Level.WARNING, text, args)

    def error(self, text: str, *args: Any, exc_info: BaseException | None = None) -> None:
        text = UNFINISHED.get(text, text.strip())
        self._write(Level.WARNING, text if exc_info is None else f"{text}: {exc_info!r}", args)

    def log(self, level: int, text: str, *args: Any) -> None:
        """Discard uvicorn's log lines of level TRACE."""

    def _write(self, level: Level, text: str, args: tuple[Any, ...]) -> None:
        self._log.write(Note(level, f"a connection of the console: {text % args if args else text}", text))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


PIECE: Final = 64 << 10
MOST_UNREAD: Final = 64 << 20
"""Maximum total size in bytes of the answers that clients have not read yet. A single larger answer is sent alone."""
ANSWER_S: Final = 120.0


class AnswerBudget:
    """Memory limit for answers that clients have not read yet."""

    def __init__(self, most_bytes: int = MOST_UNREAD) -> None:
        self._most = most_bytes
        self._open: dict[asyncio.Timeout, int] = {}
        """Answers that are being sent, oldest first: the asyncio timeout of each, and its size in bytes."""

    @property
    def size(self) -> int:
        return sum(self._open.values())

    @asynccontextmanager
    async def sending(self, size: int) -> AsyncIterator[None]:
        """Reserve memory for an answer of ``size`` bytes while it is sent. A newer answer may take the memory over."""
        if size <= PIECE:  # small answers need no reservation: they fit into the buffers of the connection
            yield
            return
        while self._open and self.size + size > self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.reschedule(0)
        try:
            async with asyncio.timeout(ANSWER_S) as limit:
                self._open[limit] = size
                try:
                    yield
                finally:
                    self._open.pop(limit, None)
        except TimeoutError:
            return


def in_pieces(send: Send) -> Send:
    """Wrap ASGI's ``send`` so that it splits bodies. It sends a piece after the client has read the previous one."""

    async def sent(message: Mapping[str, Any]) -> None:
        body = message.get("body", b"")
        if message["type"] != "http.response.body" or len(body) <= PIECE:
            await send({**message})
            return
        for at in range(0, len(body), PIECE):
            is_last = at + PIECE >= len(body)
            more = bool(message.get("more_body", False)) or not is_last
            await send({**message, "body": body[at : at + PIECE], "more_body": more})

    return sent


with needs("console", "the console"):
    from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE: Final = 512
"""Maximum number of open connections. At the limit, a new connection replaces the one that is idle longest."""
HEAD_S: Final = 10.0
"""Time limit in seconds for a client to send a request head, or to finish a TLS handshake."""
PIECE_S: Final = 20.0
"""Time limit in seconds for a client to read one piece of an answer."""
Phase = Literal["head", "work", "answer"]
LIMITS: Final[dict[Phase, float]] = {"head": HEAD_S, "answer": PIECE_S}


class ConsoleConnection(H11Protocol):
    """A connection with time limits. ``cut_overdue`` closes connections that exceed a limit."""

    def __init__(self, *args: Any, log: ConsoleLog, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger: Any = ConnectionLog(log)
        self._steps = 0
        self._known: tuple[Phase, int] = ("head", 0)
        self.since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection. At the connection limit, first close the connection that is idle longest."""
        if (
            len(self.connections) >= AT_ONCE - 1
        ):  # with ``AT_ONCE`` open connections, uvicorn would answer requests with 503
            waiting = [one for one in self.connections if isinstance(one, ConsoleConnection) and one.phase != "work"]
            if waiting:
                min(waiting, key=lambda one: one.since_s).cut()
        super().connection_made(transport)

    @property
    def phase(self) -> Phase:
        """Phase of the connection.

        ``head``: wait for a request head; ``work``: compute the answer; ``answer``: the client reads the answer.
        """
        if self.flow.write_paused:
            return "answer"
        if self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing():
            return "work"
        return "answer" if self.transport.get_write_buffer_size() else "head"

    def on_response_complete(self) -> None:
        self._steps += 1
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._steps += 1
        super().resume_writing()

    def is_overdue(self, now_s: float) -> bool:
        phase = self.phase
        if (phase, self._steps) != self._known:
            self._known, self.since_s = (phase, self._steps), now_s
        return phase in LIMITS and now_s - self.since_s > LIMITS[phase]

    def cut(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


def cut_overdue(connections: Iterable[asyncio.Protocol], now_s: float) -> None:
    """Close the connections that exceed a time limit. The server calls this twice a second."""
    for one in list(connections):
        if isinstance(one, ConsoleConnection) and one.is_overdue(now_s):
            one.cut()
