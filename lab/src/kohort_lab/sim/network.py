"""Simulated network between clients and brokers: delays, cuts, stalls, refused connections.

A link is a TCP connection: in each direction bytes arrive in order or not at all. A cut loses bytes in flight; each
side learns of it at its own time, so a client may reconnect while the broker still has the old link. Data is split at
random places, so that readers cannot rely on whole frames.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final, Protocol

from kohort_lab.sim.tap import frame_starts
from kohort_lab.sim.world import World

Address = tuple[str, int]

GIVES_UP_MS: Final = 1_000
"""Connection timeout of a client, in ms."""


class ClientSide(Protocol):
    """Actor that opens links."""

    name: str
    host: str

    def link_opened(self, connection: int) -> None: ...
    def link_received(self, connection: int, data: bytes) -> None: ...
    def link_closed(self, connection: int, reason: str) -> None: ...


class Wiretap(Protocol):
    """Observer of the wire, in whole frames."""

    def client_sent(self, link_id: int, client: str, data: bytes) -> None: ...
    def server_sent(self, link_id: int, data: bytes) -> None: ...
    def link_closed(self, link_id: int) -> None: ...


class ServerSide(Protocol):
    """Actor that listens at an address."""

    def peer_connected(self, link: int, host: str) -> None: ...
    def peer_received(self, link: int, data: bytes) -> None: ...
    def peer_disconnected(self, link: int) -> None: ...


@dataclass(slots=True)
class Weather:
    """Network conditions, as probabilities per message; faults change them, the calm phase resets them."""

    delay_ms: tuple[int, int] = (0, 3)
    cut: float = 0.0
    refuse: float = 0.0
    clog: float = 0.0
    clog_ms: tuple[int, int] = (200, 4000)
    split: float = 0.1


@dataclass(slots=True)
class Link:
    """Connection; ``next_ms``: earliest arrival time that keeps the byte order, by direction."""

    link_id: int
    client: ClientSide
    connection: int
    server: ServerSide
    client_up: bool = True
    server_up: bool = True
    to_server_ms: int = 0
    to_client_ms: int = 0
    opened: bool = field(default=False)
    lost: bool = False
    """True if cut while a side does not know it; no bytes pass."""
    deaf_server: bool = False
    deaf_client: bool = False
    """True if one direction is cut: bytes to that side are lost without notice."""


class Network:
    """All links of a run."""

    def __init__(self, world: World, tap: Wiretap, delay_ms: tuple[int, int]) -> None:
        self._world = world
        self._tap = tap
        self._rng: random.Random = world.fork_rng()
        self._delay_ms = delay_ms
        self.weather = self.fair_weather()
        self._servers: dict[Address, ServerSide] = {}
        self._links: dict[int, Link] = {}
        self._by_client: dict[tuple[ClientSide, int], Link] = {}
        self._parted: set[tuple[str, Address]] = set()
        self._last_id = 0
        self.cuts = 0

    def fair_weather(self) -> Weather:
        """Return conditions without faults, with the delay of this run."""
        return Weather(delay_ms=self._delay_ms)

    def listen(self, address: Address, server: ServerSide) -> None:
        self._servers[address] = server

    def vanish(self, address: Address) -> None:
        """Remove the server at ``address``: reset its links, refuse new ones."""
        server = self._servers.pop(address, None)
        for link in list(self._links.values()):
            if link.server is server:
                link.server_up = False
                self._close_client(link, self._delay(), "connection reset by peer")

    def open(self, client: ClientSide, connection: int, address: Address) -> None:
        """Connect a client; it learns the result later."""
        if (client.name, address) in self._parted:
            self._world.after(GIVES_UP_MS, lambda: client.link_closed(connection, "connection timed out"))
            return
        server = self._servers.get(address)
        if server is None or self._rng.random() < self.weather.refuse:
            self._world.after(self._delay(), lambda: client.link_closed(connection, "connection refused"))
            return
        self._last_id += 1
        link = Link(self._last_id, client, connection, server)
        self._links[link.link_id] = link
        self._by_client[client, connection] = link
        self._world.after(self._delay(), lambda: self._accept(link, address))

    def _accept(self, link: Link, address: Address) -> None:
        if not link.client_up or self._servers.get(address) is not link.server:
            self._close_client(link, self._delay(), "connection refused")
            return
        link.opened = True
        link.server.peer_connected(link.link_id, link.client.host)
        self._world.after(self._delay(), lambda: self._notify_opened(link))

    def _notify_opened(self, link: Link) -> None:
        if link.client_up:
            link.client.link_opened(link.connection)

    def client_dies(self, client: ClientSide) -> None:
        """End a client's process; its servers learn of it later."""
        for link in list(self._links.values()):
            if link.client is client:
                link.client_up = False
                self._close_server(link, self._delay())

    def client_sends(self, client: ClientSide, connection: int, data: bytes) -> None:
        link = self._by_client.get((client, connection))
        if link is None or not link.client_up:
            return
        self._tap.client_sent(link.link_id, client.name, data)
        for chunk in self._chunks(data):
            if self._maybe_cut(link):
                return
            at_ms = max(self._world.now_ms + self._delay(), link.to_server_ms)
            link.to_server_ms = at_ms
            self._world.after(at_ms - self._world.now_ms, lambda c=chunk: self._to_server(link, c))  # type: ignore[misc]  # bound at once

    def server_sends(self, link_id: int, data: bytes) -> None:
        link = self._links.get(link_id)
        if link is None or not link.server_up:  # a frozen server does not know of the cut
            self._tap.link_closed(link_id)
            self._tap.server_sent(link_id, data)
            return
        self._tap.server_sent(link_id, data)
        for chunk in self._chunks(data):
            if self._maybe_cut(link):
                return
            at_ms = max(self._world.now_ms + self._delay(), link.to_client_ms)
            link.to_client_ms = at_ms
            self._world.after(at_ms - self._world.now_ms, lambda c=chunk: self._to_client(link, c))  # type: ignore[misc]  # bound at once

    def client_closes(self, client: ClientSide, connection: int) -> None:
        link = self._by_client.get((client, connection))
        if link is not None and link.client_up:
            link.client_up = False
            self._close_server(link, max(link.to_server_ms - self._world.now_ms, 0) + self._delay())

    def server_closes(self, link_id: int) -> None:
        link = self._links.get(link_id)
        if link is not None and link.server_up:
            link.server_up = False
            wait_ms = max(link.to_client_ms - self._world.now_ms, 0) + self._delay()
            self._close_client(link, wait_ms, "closed by the broker")

    def _to_server(self, link: Link, chunk: bytes) -> None:
        if link.server_up and not link.deaf_server and not link.lost:
            link.server.peer_received(link.link_id, chunk)

    def _to_client(self, link: Link, chunk: bytes) -> None:
        if link.client_up and not link.deaf_client and not link.lost:
            link.client.link_received(link.connection, chunk)

    def _maybe_cut(self, link: Link) -> bool:
        if self._rng.random() >= self.weather.cut:
            return False
        self.cut(link)
        return True

    def cut(self, link: Link) -> None:
        """Cut the link and lose its bytes in flight; each side learns of it later."""
        self.cuts += 1
        link.lost = True
        late = self._rng.randrange(0, 8000) if self._rng.random() < 0.3 else 0
        self._close_client(link, self._delay(), "connection lost")
        self._close_server(link, self._delay() + late)

    def deafen_some(self, share: float) -> None:
        """Cut one direction of open links with probability ``share``, without notice."""
        for link in list(self._links.values()):
            if self._rng.random() < share:
                self.cuts += 1
                side = self._rng.random() < 0.5
                link.deaf_server, link.deaf_client = link.deaf_server or side, link.deaf_client or not side

    def part(self, client: ClientSide, address: Address) -> None:
        """Drop all bytes between a client and an address until ``join_again``, without notice."""
        self._parted.add((client.name, address))
        for link in self._links_between(client, address):
            link.deaf_server = link.deaf_client = True

    def join_again(self, client: ClientSide, address: Address) -> None:
        """End a ``part``; cut the links that were open since."""
        self._parted.discard((client.name, address))
        for link in self._links_between(client, address):
            if link.deaf_server and link.deaf_client:
                self.cut(link)

    def _links_between(self, client: ClientSide, address: Address) -> list[Link]:
        server = self._servers.get(address)
        return [link for link in self._links.values() if link.client is client and link.server is server]

    def heal(self) -> None:
        """Reset the conditions; cut the links that lost bytes in one direction."""
        self.weather = self.fair_weather()
        for link in list(self._links.values()):
            if link.deaf_server or link.deaf_client:
                self.cut(link)

    def cut_some(self, share: float) -> None:
        """Cut each open link with probability ``share``."""
        for link in list(self._links.values()):
            if self._rng.random() < share:
                self.cut(link)

    def _close_client(self, link: Link, delay_ms: int, reason: str) -> None:
        if not link.client_up:
            self._forget(link)
            return

        def close() -> None:
            if link.client_up:
                link.client_up = False
                link.client.link_closed(link.connection, reason)
            self._forget(link)

        self._world.after(delay_ms, close)

    def _close_server(self, link: Link, delay_ms: int) -> None:
        def close() -> None:
            if link.server_up:
                link.server_up = False
                if link.opened:
                    link.server.peer_disconnected(link.link_id)
            self._forget(link)

        self._world.after(delay_ms, close)

    def _forget(self, link: Link) -> None:
        if not link.client_up:
            self._by_client.pop((link.client, link.connection), None)
            self._tap.link_closed(link.link_id)
        if not link.client_up and not link.server_up:
            self._links.pop(link.link_id, None)

    def _delay(self) -> int:
        low, high = self.weather.delay_ms
        delay_ms = self._rng.randint(low, high)
        if self._rng.random() < self.weather.clog:
            delay_ms += self._rng.randint(*self.weather.clog_ms)
        return delay_ms

    def _chunks(self, data: bytes) -> list[bytes]:
        if self._rng.random() < self.weather.split:
            at = _within_a_frame(data, self._rng.random())
            return [data[:at], data[at:]]
        return [data]


def _within_a_frame(data: bytes, chance: float) -> int:
    """Choose a split inside a random frame, independent of frame lengths."""
    starts = list(frame_starts(data))
    which, within = divmod(chance * len(starts), 1)
    start = starts[int(which)]
    end = starts[int(which) + 1] if int(which) + 1 < len(starts) else len(data)
    return start + 1 + int(within * (end - start - 1))
