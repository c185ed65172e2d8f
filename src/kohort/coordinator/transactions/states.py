"""The states of a transaction, as a table: the theory of them, for whoever edits it (KIP-98, KIP-890).

What the states are
-------------------
Empty               A producer has its id and epoch, and has written nothing in a transaction.
Ongoing             A transaction is open: partitions are added, and a deadline runs.
PrepareCommit,      How it ends is written, and cannot be changed any more. Each of its partitions gets a marker; who
PrepareAbort        asks for anything else meanwhile gets CONCURRENT_TRANSACTIONS.
CompleteCommit,     All markers are written. The producer may begin the next transaction.
CompleteAbort

Who may change them
-------------------
``decide.py`` alone makes a ``Transaction`` in another state, and asserts the table below (``_next``). A state is true
once its record is in ``__transaction_state``; the number there is ``TransactionState.number``, so the order of the
members of the enum is a format.

Two rules
---------
1. From Prepare there is one way on, to the Complete of the same kind: a decision that is written is never taken back,
   whatever the disk refuses meanwhile.
2. A client of KIP-890 may abort a transaction in which it wrote nothing, hence the ways from a state at rest to
   PrepareAbort.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
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


NUMBERS: Final = {state: number for number, state in enumerate(TransactionState)}
BY_NUMBER: Final = {number: state for state, number in NUMBERS.items()}
NAMES: Final = frozenset({state.value for state in TransactionState} | {"Dead", "PrepareEpochFence"})
"""Those that Kafka knows; the last two are never listed."""
DECIDED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome is persisted; markers may be missing."""
AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
