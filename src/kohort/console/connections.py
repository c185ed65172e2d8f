"""Connections of a console, with time limits: for the head of a request, and for each piece of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Literal

from kohort.console.console_log import ConnectionLog, ConsoleLog
from kohort.extras import needs

with needs("console", "the console"):
    from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE: Final = 512
"""Bound on connections; a new one replaces the longest idle one."""
HEAD_S: Final = 10.0
"""Time limit of a request head, and of a TLS handshake."""
PIECE_S: Final = 20.0
"""Time limit of each piece of an answer, until the client has read it."""
Phase = Literal["head", "work", "answer"]
LIMITS: Final[dict[Phase, float]] = {"head": HEAD_S, "answer": PIECE_S}


class ConsoleConnection(H11Protocol):
    """A connection; ``cut_overdue`` ends those that hold up the console."""

    def __init__(self, *args: Any, log: ConsoleLog, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger: Any = ConnectionLog(log)
        self._steps = 0
        """Number of sent answers and read pieces; each restarts the time limit."""
        self._known: tuple[Phase, int] = ("head", 0)
        self.since_s = self.loop.time()
        """Start of the present phase."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; at the bound, close the longest idle one."""
        if len(self.connections) >= AT_ONCE - 1:  # one more, and uvicorn answers 503
            waiting = [one for one in self.connections if isinstance(one, ConsoleConnection) and one.phase != "work"]
            if waiting:
                min(waiting, key=lambda one: one.since_s).cut()
        super().connection_made(transport)

    @property
    def phase(self) -> Phase:
        """Return the present phase: request head, work of the console, or unread answer."""
        if self.flow.write_paused:
            return "answer"
        if self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing():
            return "work"
        return "answer" if self.transport.get_write_buffer_size() else "head"

    def on_response_complete(self) -> None:
        """Start the time limit of the next request head."""
        self._steps += 1
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Start the time limit of the next piece."""
        self._steps += 1
        super().resume_writing()

    def is_overdue(self, now_s: float) -> bool:
        """Return whether the present phase exceeds its time limit."""
        phase = self.phase
        if (phase, self._steps) != self._known:
            self._known, self.since_s = (phase, self._steps), now_s
        return phase in LIMITS and now_s - self.since_s > LIMITS[phase]

    def cut(self) -> None:
        """Close the connection at once, unread bytes included."""
        self.connections.discard(self)
        self.transport.abort()


def cut_overdue(connections: Iterable[asyncio.Protocol], now_s: float) -> None:
    """Close the overdue connections; the server calls this twice a second."""
    for one in list(connections):
        if isinstance(one, ConsoleConnection) and one.is_overdue(now_s):
            one.cut()
