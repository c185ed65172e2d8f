"""The states of a classic group and the transitions between them, as a table (protocol/groups.md#states)."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The value is the name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREVIOUS: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: frozenset(State),
}
"""From which states each may be entered."""


def may_follow(state: State, previous: State) -> bool:
    """Whether a group in ``previous`` may go to ``state``."""
    return previous in PREVIOUS[state]
