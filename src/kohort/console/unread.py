"""Unread answers: sent in pieces, within a budget of bytes for all; the oldest answer gives way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import Send

PIECE: Final = 64 << 10
MOST_UNREAD: Final = 64 << 20
"""Bytes of all answers together. A larger one is sent alone."""
ANSWER_S: Final = 120.0
"""Time limit of a whole answer."""


class AnswerBudget:
    """The answers on their way."""

    def __init__(self, most_bytes: int = MOST_UNREAD) -> None:
        self._most = most_bytes
        self._open: dict[asyncio.Timeout, int] = {}
        """Sizes of the answers on their way, the oldest first."""

    @property
    def size(self) -> int:
        """Bytes of all answers on their way."""
        return sum(self._open.values())

    @asynccontextmanager
    async def sending(self, size: int) -> AsyncIterator[None]:
        """Send an answer of ``size`` bytes in the block, which ends early where the answer has to give way."""
        if size <= PIECE:  # the buffers of the connection take it
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
    """Return a ``send`` that waits after each piece of a body until the client reads it."""

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
