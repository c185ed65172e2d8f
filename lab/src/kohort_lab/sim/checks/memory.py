"""When everybody has left, a broker holds what is written and nothing else."""

from __future__ import annotations

from kohort.broker.broker import Broker
from kohort_lab.sim.checks.broken import CheckFailed


def check_nothing_left(broker: Broker, group_id: str, sessions: int) -> None:
    """Check, once nobody is connected, that nothing is parked, the group has no timer, and fetch
    sessions are of the dead."""
    state = broker.state
    held = {
        "connections": len(broker.state.connections),
        "parked requests": len(state.purgatory),
        "timers of the group": len(state.coordinator.timers_of(group_id)),
        "fetch sessions": max(len(state.sessions) - sessions, 0),
    }
    if any(held.values()):
        raise CheckFailed(f"everybody has left, but the broker still holds {held}")
