"""What goes into a broker and what comes out of it: the whole of its contact with the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from kohort.broker.request import ConnectionId, Request
from kohort.config.listeners import DEFAULT_LISTENER
from kohort.notes import Note
from kohort.wire.codec import Buffer

E = TypeVar("E")


@dataclass_transform(frozen_default=True)
def _event(cls: type[E]) -> type[E]:
    """Make a dataclass as messages are made (wire/schema.py): frozen for the type checker, at run time not, which makes
    them in a third."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@_event
class Connected:
    """A peer opened a connection to ``listener``; ``host`` is its address, and ``port`` where it comes from, if known.

    Where the listener uses TLS, nothing is Received before Secured.
    """

    connection: ConnectionId
    host: str
    listener: str = DEFAULT_LISTENER
    port: int | None = None


@_event
class Secured:
    """The TLS handshake of a connection succeeded; ``name`` is the subject of the peer's certificate, as Kafka writes
    it, or None where it showed none."""

    connection: ConnectionId
    name: str | None


@_event
class Received:
    """Bytes arrived: any part of a frame, or several frames."""

    connection: ConnectionId
    data: bytes


@_event
class Disconnected:
    connection: ConnectionId


@_event
class Tick:
    """Time passed: ``wake_at_ms`` is due."""


@_event
class Stalled:
    """The process did nothing from ``since_ms`` until now, whatever there was to do; told before the event that is
    late."""

    since_ms: int


@_event
class WallClockSet:
    """The wall clock is ``ahead_ms`` ahead of ``now_ms`` from now on."""

    ahead_ms: int


@_event
class Congested:
    """What was sent on the connection piles up unread by the peer; it is sent nothing more until Drained.

    Told right after the event whose outputs were too much, before any other.
    """

    connection: ConnectionId


@_event
class Drained:
    """The peer reads again."""

    connection: ConnectionId


@_event
class Serve:
    """Serve a request that an ``Intercept`` kept (broker/request.py). Nothing happens if its peer is gone."""

    request: Request

    @property
    def connection(self) -> ConnectionId:
        """Where it came from."""
        return self.request.reply_to.connection


@_event
class EndWaits:
    """Whoever waits has waited long enough, whatever the clock says: fetches are answered with what there is, and it is
    looked whether the disk has what other answers wait for."""


@_event
class KeysFetched:
    """What an address of FetchKeys holds; or None, and the problem in words."""

    url: str
    content: bytes | None
    problem: str = ""


@_event
class FetchKeys:
    """Fetch the keys with which tokens are signed; KeysFetched tells what came of it. It is of no connection."""

    url: str
    connection: ConnectionId = -1


@_event
class Send:
    """Buffers to write in this order; they are never joined by the broker."""

    connection: ConnectionId
    buffers: Sequence[Buffer]


@_event
class Close:
    """End the connection after what was sent before is written, or ``at_once`` where its peer reads nothing.

    ``note`` is for the log.
    """

    connection: ConnectionId
    note: Note
    at_once: bool = False

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self.note.text


@_event
class Pause:
    """Read no more from the connection: it has sent much while an earlier request of its own still waits."""

    connection: ConnectionId


@_event
class Resume:
    """Read from the connection again."""

    connection: ConnectionId


Input = (
    Connected
    | Secured
    | Received
    | Disconnected
    | Congested
    | Drained
    | Tick
    | Stalled
    | WallClockSet
    | Serve
    | EndWaits
    | KeysFetched
)
Output = Send | Close | Pause | Resume | FetchKeys
