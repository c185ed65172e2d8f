"""Hold up the connections whose clients go over a quota: they are answered, told for how long, and not served till then
(KIP-219).

What a held up connection sends meanwhile waits as behind any request under way: a little is read, then nothing.
"""

from __future__ import annotations

from copy import copy
from typing import TypeVar

from kohort.broker.client_quotas import ClientQuotas, HeldUp
from kohort.broker.connections import Connection
from kohort.broker.open_connections import OpenConnections
from kohort.broker.request import Answer, ReplyTo
from kohort.errors import ProtocolError
from kohort.notes import Note, info
from kohort.wire.headers import client_id_of
from kohort.wire.schema import Message

A = TypeVar("A", bound=Answer)


class Throttling:
    """Between the requests of connections and what is measured of them."""

    def __init__(self, quotas: ClientQuotas, connections: OpenConnections) -> None:
        self._quotas = quotas
        self._connections = connections
        self._notes: list[Note] = []

    def begin(self, connection: Connection, frame: bytes | bytearray) -> None:
        """Measure the request in ``frame`` from now on."""
        try:
            client_id, _ = client_id_of(frame)
        except ProtocolError:
            return  # it will not be served either
        user = connection.caller.principal.name
        self._quotas.begin(connection.connection_id, user, client_id or "", len(frame))

    def settle(self, reply_to: ReplyTo, answer: A, now_ms: int) -> A:
        """Count a request that is measured, now that it is answered; return the answer, which says for how long the
        client is held up if it is."""
        number = reply_to.connection
        charge = self._quotas.under_way.get(number)
        connection = self._connections.get(number)
        message = answer if isinstance(answer, Message) else None
        held_up = self._quotas.settle(number, reply_to.api_key, message, now_ms)
        if charge is None or connection is None or not held_up.ms:
            return answer
        self._connections.mute(connection, now_ms + held_up.ms)
        self._notes.append(_told(charge.client_id, charge.user, held_up).about(connection.host))
        if hasattr(answer, "throttle_time_ms"):
            answer = copy(answer)
            setattr(answer, "throttle_time_ms", held_up.ms)  # noqa: B010 - frozen for the type checker alone
        return answer

    def take_notes(self) -> list[Note]:
        """Return lines for the broker's log, each given once."""
        notes, self._notes = self._notes, []
        return notes


def _told(client_id: str, user: str, held_up: HeldUp) -> Note:
    return info(
        f"client {client_id!r} of user {user!r} is throttled for {held_up.ms} ms ({held_up.quota}={held_up.value:g})",
        "throttled",
    )
