"""What a client talks to one node for, and why it could not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.client.requests.connections import Connection, PendingRequest
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


def unreachable(refusals: Sequence[Refusal]) -> KohortError:
    """Return the error for who was nowhere answered: it lasts where nobody who is there lets the client in, and where
    nobody speaks Kafka's protocol."""
    told = "; ".join(refusal.text for refusal in refusals)
    kinds = {refusal.kind for refusal in refusals}
    if AuthenticationFailed in kinds:
        return AuthenticationFailed(f"no broker lets this client in: {told}")
    kind = NotKafka if kinds == {NotKafka} else ConnectionFailed
    return kind(f"no broker could be reached: {told}")
