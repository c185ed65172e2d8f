"""States of a transaction and their transitions (KIP-98, KIP-890).

Empty               The producer has an id and epoch, and wrote nothing in a transaction.
Ongoing             A transaction is open: partitions are added, and its timeout runs.
PrepareCommit,      The outcome is persisted and final; each partition gets its marker. Other requests get
PrepareAbort        CONCURRENT_TRANSACTIONS.
CompleteCommit,     All markers are written; the next transaction may begin.
CompleteAbort

``decide.py`` alone changes states, and asserts the table below (``_next``). ``TransactionState.number`` is stored in
``__transaction_state``: the order of the enum is a format.

PrepareCommit leads only to CompleteCommit, PrepareAbort only to CompleteAbort. A KIP-890 client may abort a transaction
without writes, hence the transitions from Empty and from the Complete states to PrepareAbort.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
    """State of a transaction. Records store ``number``; ``value`` is Kafka's name."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def number(self) -> int:
        return NUMBERS[self]


NUMBERS: Final = {state: number for number, state in enumerate(TransactionState)}
BY_NUMBER: Final = {number: state for state, number in NUMBERS.items()}
NAMES: Final = frozenset({state.value for state in TransactionState} | {"Dead", "PrepareEpochFence"})
"""Names of all transaction states in Kafka. No transaction of kohort is ever Dead or in PrepareEpochFence."""
DECIDED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""States between the persisted outcome of a transaction and its last marker."""
AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
