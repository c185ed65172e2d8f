"""Memory check: after all clients have left, a broker has only persisted state."""

from __future__ import annotations

from kohort.broker.broker import Broker
from kohort_lab.sim.checks.broken import CheckFailed


def check_nothing_remains(broker: Broker, group_id: str, sessions: int) -> None:
    """Check that no request is parked, no group timer runs, and fetch sessions belong to dead clients."""
    state = broker.state
    remaining = {
        "connections": len(broker.state.connections),
        "parked requests": len(state.purgatory),
        "timers of the group": len(state.coordinator.timers_of(group_id)),
        "fetch sessions": max(len(state.sessions) - sessions, 0),
    }
    if any(remaining.values()):
        raise CheckFailed(f"all clients have left, but the broker still has {remaining}")
