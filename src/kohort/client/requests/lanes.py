"""What a client talks to one node for, and why it could not."""

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

FIRST_STAND_IN: Final = -2


class Addresses:
    """Bootstrap addresses stand for nodes -2, -3, ... until metadata names the real ones."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], metadata: Metadata) -> None:
        self.bootstrap = bootstrap
        self._metadata = metadata

    def of(self, node_id: int) -> tuple[str, int] | None:
        if node_id <= FIRST_STAND_IN:
            at = FIRST_STAND_IN - node_id
            return self.bootstrap[at] if at < len(self.bootstrap) else None
        node = self._metadata.node(node_id)
        return None if node is None else (node.host, node.port)

    def candidates(self) -> list[int]:
        """Return known nodes, then stand-ins for bootstrap addresses of no known node."""
        known = {(node.host, node.port) for node in self._metadata.nodes}
        unknown = [FIRST_STAND_IN - i for i, address in enumerate(self.bootstrap) if address not in known]
        return [node.node_id for node in self._metadata.nodes] + unknown

    def stand_in(self, node: Node) -> int | None:
        address = (node.host, node.port)
        return FIRST_STAND_IN - self.bootstrap.index(address) if address in self.bootstrap else None


HELD_BACK: Final = frozenset({FetchRequest.API_KEY, JoinGroupRequest.API_KEY, SyncGroupRequest.API_KEY})
"""Requests that are answered when there is something to say; a broker serves a connection in order."""


@dataclass(slots=True, eq=False)
class Lane:
    """One purpose of talking to one node: its connection, what waits for it, and how often it failed in a row."""

    node_id: int
    name: str
    connection: Connection | None = None
    waiting: list[PendingRequest] = field(default_factory=list)
    failures: int = 0
    retry_at_ms: int = 0

    @property
    def is_held(self) -> bool:
        """True while a request in flight may be parked by the broker: later ones would wait behind it."""
        return self.connection is not None and any(
            pending.unsent.request.API_KEY in HELD_BACK for pending in self.connection.in_flight
        )


class Refusal(NamedTuple):
    """Why the last connection to a node ended, and what error that is: NotKafka, AuthenticationFailed, or a loss."""

    text: str
    kind: type[KohortError]


def forget_those_that_left(
    lanes: dict[tuple[int, str], Lane], refused: dict[int, Refusal], addresses: Addresses
) -> None:
    idle = [key for key, lane in lanes.items() if lane.connection is None and not lane.waiting]
    for key in [key for key in idle if addresses.of(key[0]) is None]:
        del lanes[key]
    for node_id in [node_id for node_id in refused if addresses.of(node_id) is None]:
        del refused[node_id]


def least_loaded(lanes: Iterable[Lane], usual: str) -> Lane | None:
    """Return the lane with the fewest requests on a connection that stands, of several one to a node of the cluster, of
    the ``usual`` name; None where no connection stands."""
    ready = [
        (lane.connection.load, lane.node_id < 0, lane.name != usual, lane.node_id, lane)
        for lane in lanes
        if lane.connection is not None and lane.connection.state is ConnectionState.READY
    ]
    return min(ready, key=lambda entry: entry[:4])[4] if ready else None


def told_of_loss(lane: Lane, connection: Connection, why: Refusal, bootstrap: Collection[tuple[str, int]]) -> str:
    if connection.state is ConnectionState.READY:
        return f"the connection to {connection.address} was lost: {why.text}"
    whose = ""
    if lane.node_id >= 0 and (connection.host, connection.port) not in bootstrap:
        whose = f", the address that the cluster gives for node {lane.node_id} (advertised.listeners)"
    what = "not let in" if why.kind is AuthenticationFailed else "no broker"
    return f"{what} at {connection.address}{whose}: {why.text}"


def unreachable(refusals: Sequence[Refusal]) -> KohortError:
    """Return the error for who was nowhere answered: it lasts where nobody who is there lets the client in, and where
    nobody speaks Kafka's protocol."""
    told = "; ".join(refusal.text for refusal in refusals)
    kinds = {refusal.kind for refusal in refusals}
    if AuthenticationFailed in kinds:
        return AuthenticationFailed(f"no broker lets this client in: {told}")
    kind = NotKafka if kinds == {NotKafka} else ConnectionFailed
    return kind(f"no broker could be reached: {told}")
