"""Channels of a client: each has the connection to one node for one purpose, and its queued requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort.client.requests.connections import Connection, ConnectionState, PendingRequest
from kohort.client.requests.metadata import Metadata
from kohort.errors import AuthenticationFailed, ConnectionFailed, KohortError, NotKafka
from kohort.model import Node
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.group_classic import JoinGroupRequest, SyncGroupRequest

FIRST_BOOTSTRAP_ID: Final = -2


class Addresses:
    """Addresses of nodes, from metadata or from ``bootstrap.servers``.

    A bootstrap address has a node id of -2 or less until metadata name the node at that address.
    """

    def __init__(self, bootstrap: Sequence[tuple[str, int]], metadata: Metadata) -> None:
        self.bootstrap = bootstrap
        self._metadata = metadata

    def of(self, node_id: int) -> tuple[str, int] | None:
        if node_id <= FIRST_BOOTSTRAP_ID:
            at = FIRST_BOOTSTRAP_ID - node_id
            return self.bootstrap[at] if at < len(self.bootstrap) else None
        node = self._metadata.node(node_id)
        return None if node is None else (node.host, node.port)

    def candidates(self) -> list[int]:
        """Return node ids to connect to: known nodes, then bootstrap addresses that belong to no known node."""
        known = {(node.host, node.port) for node in self._metadata.nodes}
        unknown = [FIRST_BOOTSTRAP_ID - i for i, address in enumerate(self.bootstrap) if address not in known]
        return [node.node_id for node in self._metadata.nodes] + unknown

    def bootstrap_id(self, node: Node) -> int | None:
        address = (node.host, node.port)
        return FIRST_BOOTSTRAP_ID - self.bootstrap.index(address) if address in self.bootstrap else None


LONG_POLLS: Final = frozenset({FetchRequest.API_KEY, JoinGroupRequest.API_KEY, SyncGroupRequest.API_KEY})
"""Requests whose response a broker may delay: later requests on the connection wait for that response."""


@dataclass(slots=True, eq=False)
class Channel:
    """Connection to one node for one purpose, and its queued requests. ``failures``: number of failures in a row."""

    node_id: int
    name: str
    connection: Connection | None = None
    waiting: list[PendingRequest] = field(default_factory=list)
    failures: int = 0
    retry_at_ms: int = 0

    @property
    def is_long_polling(self) -> bool:
        return self.connection is not None and any(
            pending.unsent.request.API_KEY in LONG_POLLS for pending in self.connection.in_flight
        )


class ConnectionLoss(NamedTuple):
    """Reason of a lost connection, and its error class: NotKafka, AuthenticationFailed or ConnectionFailed."""

    text: str
    kind: type[KohortError]


def drop_idle_channels(
    channels: dict[tuple[int, str], Channel], losses: dict[int, ConnectionLoss], addresses: Addresses
) -> None:
    """Drop unused channels and recorded connection losses of nodes that have no known address."""
    for key, channel in list(channels.items()):
        if channel.connection is None and not channel.waiting and addresses.of(channel.node_id) is None:
            del channels[key]
    for node_id in list(losses):
        if addresses.of(node_id) is None:
            del losses[node_id]


def least_loaded(channels: Iterable[Channel], usual: str) -> Channel | None:
    """Return the ready channel with the fewest requests, or None.

    Among equal channels, prefer known nodes to bootstrap addresses, then the channel named ``usual``.
    """
    ready = [
        (channel.connection.load, channel.node_id < 0, channel.name != usual, channel.node_id, channel)
        for channel in channels
        if channel.connection is not None and channel.connection.state is ConnectionState.READY
    ]
    return min(ready, key=lambda entry: entry[:4])[4] if ready else None


def describe_loss(
    channel: Channel, connection: Connection, why: ConnectionLoss, bootstrap: Collection[tuple[str, int]]
) -> str:
    if connection.state is ConnectionState.READY:
        return f"the connection to {connection.address} was lost: {why.text}"
    origin = ""
    if channel.node_id >= 0 and (connection.host, connection.port) not in bootstrap:
        origin = f", the advertised address of node {channel.node_id} (advertised.listeners)"
    problem = "login rejected" if why.kind is AuthenticationFailed else "no broker"
    return f"{problem} at {connection.address}{origin}: {why.text}"


def unreachable(losses: Sequence[ConnectionLoss]) -> KohortError:
    """Return the error of a request that no broker answered. Its message lists the lost connections.

    The error is permanent if a broker rejects the login, or if no address speaks Kafka's protocol.
    """
    attempts = "; ".join(loss.text for loss in losses)
    kinds = {loss.kind for loss in losses}
    if AuthenticationFailed in kinds:
        return AuthenticationFailed(f"no broker accepts this client: {attempts}")
    kind = NotKafka if kinds == {NotKafka} else ConnectionFailed
    return kind(f"no broker could be reached: {attempts}")
