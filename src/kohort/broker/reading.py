"""Whether a connection is read: not one that is far ahead of its answers, or for which there is no room."""

from __future__ import annotations

from kohort.broker.connections import Connection
from kohort.broker.io import Input, Output, Pause, Received, Resume
from kohort.broker.open_connections import OpenConnections


def maybe_pause(connections: OpenConnections, given: Input, out: list[Output]) -> None:
    """Read no more from who has just sent something, and has to wait."""
    if isinstance(given, Received):
        connection = connections.get(given.connection)
        if connection is not None and connection.must_pause and not connection.paused:
            connection.paused = True
            out.append(Pause(given.connection))


def maybe_resume(connection: Connection, out: list[Output]) -> None:
    """Read on where nothing has to wait any more."""
    if connection.paused and not (connection.closed or connection.must_pause):
        connection.paused = False
        out.append(Resume(connection.connection_id))
