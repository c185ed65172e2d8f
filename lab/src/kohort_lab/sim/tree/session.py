"""Tree server client as an actor: one session over successive connections.

A request in flight is sent again on the next connection or session, as the early client library did, so a request of an
expired session takes effect in the new one. Without a connection, requests wait and watches are silent.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Protocol

from kohort.wire.frames import FrameReader
from kohort_lab.sim.network import Address, Network
from kohort_lab.sim.tree.messages import (
    FRAME_MAX,
    Changed,
    End,
    Expired,
    Numbered,
    OpenSession,
    Ping,
    SessionOpened,
    ToClient,
    ToServer,
    TreeAnswer,
    TreeRequest,
    framed,
    parse_to_client,
)
from kohort_lab.sim.world import World

RECONNECT_MS: Final = (0, 1000)
"""Range of the reconnect delay, in ms."""

Then = Callable[[TreeAnswer], None]


class SessionUser(Protocol):
    """Owner of a session."""

    def watch_fired(self, path: str) -> None: ...
    def session_renewed(self) -> None:
        """Handle a new session after an expiry; the ephemeral nodes are gone."""


class TreeSession:
    """Session of one client process, from ``start`` to ``end`` or ``kill``."""

    def __init__(self, name: str, world: World, network: Network, address: Address, timeout_ms: int) -> None:
        self.name = name
        self.host = "10.0.1.1"
        self.user: SessionUser | None = None
        self.rtt_ms = 0
        """Round-trip time of the last response, in ms."""
        self._world = world
        self._network = network
        self._address = address
        self._timeout_ms = timeout_ms
        self._rng: random.Random = world.fork_rng()
        self._alive = False
        self._life = 0
        self._connection = 0
        self._is_open = False
        self._reader = FrameReader(FRAME_MAX)
        self._session_id = 0
        self._had_session = False
        self._contact_ms = 0
        self._numbers = 0
        self._waiting: dict[int, tuple[TreeRequest, Then, int]] = {}
        self._frozen_until_ms = 0
        self._queued: list[Callable[[], None]] = []

    def start(self) -> None:
        """Open a session; ``user`` receives its events."""
        self._alive, self._session_id, self._had_session, self._is_open = True, 0, False, False
        self._waiting.clear()
        self._queued.clear()
        self._connect()
        self._life += 1
        self._beat_later(self._life)

    def kill(self) -> None:
        """Kill the process; the session expires later."""
        self._alive = self._is_open = False
        self._network.client_dies(self)

    def end(self) -> None:
        """End the session; the server removes ephemeral nodes at once, if connected."""
        if not self._is_open:
            self.kill()
            return
        self._send(End())
        self._alive = self._is_open = False
        self._network.client_closes(self, self._connection)

    def freeze(self, for_ms: int) -> None:
        """Freeze the process; messages wait."""
        self._frozen_until_ms = self._world.now_ms + for_ms
        self._world.after(for_ms, self._thaw)

    def _thaw(self) -> None:
        if self._world.now_ms < self._frozen_until_ms:
            return
        queued, self._queued = self._queued, []
        for act in queued:
            act()

    def _unless_frozen(self, act: Callable[[], None]) -> None:
        if not self._alive:
            return
        if self._world.now_ms < self._frozen_until_ms:
            self._queued.append(act)
        else:
            act()

    def ask(self, request: TreeRequest, then: Then) -> None:
        """Send a request as soon as a session exists, and call ``then`` with the response."""
        self._numbers += 1
        self._waiting[self._numbers] = (request, then, self._world.now_ms)
        if self._is_open:
            self._send(Numbered(self._numbers, request))

    def _send(self, message: ToServer) -> None:
        self._network.client_sends(self, self._connection, framed(message))

    def _connect(self) -> None:
        self._connection += 1
        self._is_open = False
        self._reader = FrameReader(FRAME_MAX)
        self._contact_ms = self._world.now_ms
        self._network.open(self, self._connection, self._address)

    def _reconnect_later(self) -> None:
        self._is_open = False
        self._connection += 1  # ignores late messages of the old connection
        number = self._connection
        wait_ms = self._rng.randint(*RECONNECT_MS)
        self._world.after(wait_ms, lambda: self._unless_frozen(lambda: self._reconnect(number)))

    def _reconnect(self, number: int) -> None:
        if self._connection == number:
            self._connect()

    def _beat_later(self, life: int) -> None:
        self._world.after(self._timeout_ms // 3, lambda: self._unless_frozen(lambda: self._beat(life)))

    def _beat(self, life: int) -> None:
        """Send a keep-alive, and close a silent connection."""
        if life != self._life:
            return
        if self._is_open:
            self._send(Ping())
        if self._is_open and self._world.now_ms - self._contact_ms > 2 * self._timeout_ms // 3:
            self._network.client_closes(self, self._connection)
            self._reconnect_later()
        self._beat_later(life)

    def link_opened(self, connection: int) -> None:
        self._unless_frozen(lambda: self._opened(connection))

    def link_received(self, connection: int, data: bytes) -> None:
        self._unless_frozen(lambda: self._received(connection, data))

    def link_closed(self, connection: int, reason: str) -> None:
        del reason
        self._unless_frozen(lambda: self._closed(connection))

    def _opened(self, connection: int) -> None:
        if connection == self._connection:
            self._send(OpenSession(self._session_id, self._timeout_ms))

    def _closed(self, connection: int) -> None:
        if connection == self._connection:
            self._reconnect_later()

    def _received(self, connection: int, data: bytes) -> None:
        if connection != self._connection:
            return
        for frame in self._reader.feed(data):
            self._contact_ms = self._world.now_ms
            self._take(parse_to_client(frame))
            if connection != self._connection:
                return

    def _take(self, message: ToClient) -> None:
        match message:
            case TreeAnswer(number=number):
                _, then, sent_ms = self._waiting.pop(number)
                self.rtt_ms = self._world.now_ms - sent_ms
                then(message)
            case Changed(path=path):
                if self.user is not None:
                    self.user.watch_fired(path)
            case SessionOpened(session_id=session_id):
                self._begin(session_id)
            case Ping():
                pass  # keep-alive of the server
            case Expired():
                self._session_id = 0
                self._network.client_closes(self, self._connection)
                self._reconnect_later()

    def _begin(self, session_id: int) -> None:
        is_renewed = self._had_session and session_id != self._session_id
        self._session_id, self._had_session, self._is_open = session_id, True, True
        for number, (request, then, _) in list(self._waiting.items()):
            self._waiting[number] = (request, then, self._world.now_ms)
            self._send(Numbered(number, request))
        if is_renewed and self.user is not None:
            self.user.session_renewed()
