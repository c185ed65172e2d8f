"""The states of a transaction, as a table; the numbers are those of the log (KIP-98)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """``number`` stands in records; ``value`` is what administrators are shown."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def number(self) -> int:
        return NUMBERS[self]


NUMBERS: Final = {state: number for number, state in enumerate(State)}
BY_NUMBER: Final = {number: state for state, number in NUMBERS.items()}
NAMES: Final = frozenset({state.value for state in State} | {"Dead", "PrepareEpochFence"})
"""Those that Kafka knows; the last two are never listed."""
DECIDED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""How it ends is written; the markers may not all be."""
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""No transaction is open."""

PREVIOUS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: AT_REST,
    State.ONGOING: AT_REST | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: AT_REST | {State.ONGOING},  # with KIP-890 a transaction that wrote nothing may be aborted
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
}
"""From which states each is reached."""
