"""What the parts of a broker forget when a connection is closed."""

from __future__ import annotations

from kohort.broker.request import ConnectionId
from kohort.broker.state import BrokerState


def forget_connection(state: BrokerState, number: ConnectionId, now_ms: int) -> None:
    """Let go of what is kept for a connection: nobody waits there for anything any more."""
    state.unread.set(number, 0)
    state.purgatory.forget(number)
    state.amendments.pop(number, None)
    state.client_metrics.forget_connection(number)
    state.coordinator.connection_closed(number, now_ms)
