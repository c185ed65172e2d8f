"""Sending of responses: a limited number of bytes per event, the rest when the client has read them."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.connections.budgets import UnreadAnswers
from kohort.broker.connections.connection import Connection
from kohort.broker.counters import BrokerCounters
from kohort.broker.io import Output, Send
from kohort.broker.request import ConnectionId
from kohort.errors import StorageError
from kohort.log.batches import LogSlice
from kohort.notes import Note, warning
from kohort.wire.codec import Buffer


class AnswerSender:
    """Sends responses to clients, a limited number of bytes in each event."""

    def __init__(self, unread: UnreadAnswers, counters: BrokerCounters) -> None:
        self._unread = unread
        self._counters = counters
        self._handed: list[Connection] = []
        self.later: dict[ConnectionId, Connection] = {}

    def next_event(self) -> list[Connection]:
        """Start a new event; return connections with unsent bytes whose clients have read all sent bytes."""
        while self._handed:
            connection = self._handed.pop()
            if not connection.congested:
                connection.burst_bytes = 0
        if not self.later:
            return []
        going_on = list(self.later.values())
        self.later.clear()
        return going_on

    def must_wait(self, connection: Connection) -> bool:
        """Return True if the connection may send no more bytes in this event."""
        if connection.burst_bytes < self._unread.piece_bytes:
            return False
        self.later[connection.connection_id] = connection
        return True

    def send(self, connection: Connection, answer: Sequence[Buffer], out: list[Output]) -> None:
        """Send a response; the rest of a large one follows in later events. Raises StorageError (unreadable log)."""
        if not connection.is_blocked and LogSlice not in map(type, answer):  # usual case: a small response in memory
            self._hand(connection, answer, out)
        else:
            connection.outbox.add(answer)
            self.send_on(connection, out)

    def send_on(self, connection: Connection, out: list[Output]) -> None:
        """Send more of a connection's unsent responses, as much as one event may send. Raises StorageError."""
        outbox = connection.outbox
        while outbox.parts and not connection.congested and not self.must_wait(connection):
            self._hand(connection, outbox.take(self._unread.piece_bytes - connection.burst_bytes), out)
        self.count(connection)

    def count(self, connection: Connection) -> None:
        handed = connection.burst_bytes if connection.congested else 0
        self._unread.set(connection.connection_id, handed + connection.outbox.held_bytes)

    def _hand(self, connection: Connection, buffers: Sequence[Buffer], out: list[Output]) -> None:
        if not connection.burst_bytes:
            self._handed.append(connection)
        size = sum(map(len, buffers))
        connection.burst_bytes += size
        self._counters.bytes_out += size
        out.append(Send(connection.connection_id, buffers))


def broken_off(error: StorageError) -> Note:
    """Return the reason to close a connection whose response cannot be read completely from the log."""
    return warning(f"the rest of a response cannot be read: {error}", "unreadable")
