"""Tree server at an address of the simulated network."""

from __future__ import annotations

from kohort.wire.frames import FrameReader
from kohort_lab.sim.network import Address, Network
from kohort_lab.sim.tree.messages import FRAME_MAX, framed, parse_to_server
from kohort_lab.sim.tree.server import Outgoing, TreeServer
from kohort_lab.sim.world import World


class TreeHost:
    """Host of the tree server: delivers bytes and ticks."""

    def __init__(self, world: World, network: Network, address: Address) -> None:
        self.server = TreeServer()
        self._world = world
        self._network = network
        self._readers: dict[int, FrameReader] = {}
        self._wake_at_ms: int | None = None
        network.listen(address, self)

    def peer_connected(self, link: int, host: str) -> None:
        del host
        self._readers[link] = FrameReader(FRAME_MAX)

    def peer_received(self, link: int, data: bytes) -> None:
        for frame in self._readers[link].feed(data):
            self._send(self.server.received(link, parse_to_server(frame), self._world.now_ms))
        self._arm()

    def peer_disconnected(self, link: int) -> None:
        self._readers.pop(link, None)
        self.server.link_closed(link)

    def _send(self, messages: Outgoing) -> None:
        for link, message in messages:
            self._network.server_sends(link, framed(message))

    def _arm(self) -> None:
        at_ms = self.server.wake_at_ms
        if at_ms is not None and (self._wake_at_ms is None or at_ms < self._wake_at_ms):
            self._wake_at_ms = at_ms
            self._world.after(max(0, at_ms - self._world.now_ms), lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._wake_at_ms == at_ms:
            self._wake_at_ms = None
            self._send(self.server.tick(self._world.now_ms))
            self._arm()
