"""What a client talks to one node for, and why it could not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.client.requests.connections import Connection, ConnectionState, PendingRequest
from kohort.errors import AuthenticationFailed, ConnectionFailed, KohortError, NotKafka


@dataclass(slots=True, eq=False)
class Lane:
    """One purpose of talking to one node: its connection, what waits for it, and how often it failed in a row."""

    node_id: int
    name: str
    connection: Connection | None = None
    waiting: list[PendingRequest] = field(default_factory=list)
    failures: int = 0
    retry_at_ms: int = 0


class Refusal(NamedTuple):
    """Why the last connection to a node ended, and what error that is: NotKafka, AuthenticationFailed, or a loss."""

    text: str
    kind: type[KohortError]


def told_of_loss(lane: Lane, connection: Connection, why: Refusal, bootstrap: Collection[tuple[str, int]]) -> str:
    """Say of ``lane`` that its connection was lost, or was never had."""
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
