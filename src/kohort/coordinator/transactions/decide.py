"""Transitions of a transactional id: the rules of Kafka's coordinator (KIP-98, KIP-360, KIP-890).

Each decision returns the next state of the transactional id, or the same object if nothing changes, or raises ApiError.
The new state takes effect after it is persisted. A KIP-890 client (``version`` 2) gets a new epoch at each end of a
transaction, so a late request never counts for the next transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from kohort.coordinator.transactions.states import AT_REST, DECIDED, PREVIOUS, TransactionState
from kohort.coordinator.transactions.transaction import NONE, Transaction
from kohort.errors import ApiError, ErrorCode
from kohort.model import ProducerIdAndEpoch, TopicPartition

EPOCH_MAX: Final = 0x7FFF
LAST_EPOCH_OF_A_CLIENT: Final = EPOCH_MAX - 1
"""Highest producer epoch that a client gets. The next higher epoch is reserved for fencing the producer."""
WITH_NEW_EPOCHS: Final = 2

NewProducerId = Callable[[], int]


def decide_init(
    known: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Transaction:
    """Return the state of a transactional id after InitProducerId. ``expected``: producer id and epoch in the request.

    If a transaction is open, the returned state aborts it; the producer must then repeat the request.
    """
    if known is None:
        return Transaction(transactional_id, new_producer_id(), 0, timeout_ms, updated_ms=now_ms)
    if expected is not None and not _owned_before(known, expected):
        problem = (
            f"transactional id {transactional_id!r} has producer id {known.producer_id}, not {expected.producer_id}"
        )
        raise ApiError(ErrorCode.PRODUCER_FENCED, problem)
    if known.state in DECIDED:
        raise ApiError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"a transaction of {transactional_id!r} is still ending; repeat the request later",
        )
    if known.state is TransactionState.ONGOING:
        return fence(known, now_ms)
    fresh = _next(known, TransactionState.EMPTY, now_ms, timeout_ms=timeout_ms, started_ms=NONE, client_version=0)
    if _is_exhausted(known, expected):
        return replace(
            fresh,
            producer_id=new_producer_id(),
            epoch=0,
            last_epoch=NONE if expected is None else expected.epoch,
            previous_producer_id=known.producer_id,
        )
    if expected is None:
        return replace(fresh, epoch=known.epoch + 1, last_epoch=NONE)
    if expected.epoch == known.epoch:
        return replace(fresh, epoch=known.epoch + 1, last_epoch=known.epoch)
    if expected.epoch == known.last_epoch:
        return fresh  # the response was lost: the producer repeats InitProducerId
    problem = f"transactional id {transactional_id!r} has epoch {known.epoch}, not {expected.epoch}"
    raise ApiError(ErrorCode.PRODUCER_FENCED, problem)


def _is_exhausted(known: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    if expected is None or expected.epoch == known.epoch:
        return known.epoch >= LAST_EPOCH_OF_A_CLIENT
    return known.epoch > LAST_EPOCH_OF_A_CLIENT and expected.epoch == known.last_epoch


def _owned_before(known: Transaction, expected: ProducerIdAndEpoch) -> bool:
    if expected.producer_id == known.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and expected.epoch >= LAST_EPOCH_OF_A_CLIENT


def fence(known: Transaction, now_ms: int) -> Transaction:
    return replace(time_out(known, now_ms), last_epoch=NONE, client_version=0)


def time_out(known: Transaction, now_ms: int) -> Transaction:
    """Abort a transaction after its timeout. Its producer may continue with the next epoch (KIP-588)."""
    # No client gets the highest epoch, but a log that Kafka wrote may contain it.
    epoch = min(known.epoch + 1, EPOCH_MAX)
    aborting = _next(known, TransactionState.PREPARE_ABORT, now_ms, epoch=epoch, last_epoch=known.epoch)
    return replace(aborting, client_version=WITH_NEW_EPOCHS)


def check_producer(known: Transaction | None, producer: ProducerIdAndEpoch) -> Transaction:
    if known is None or known.producer_id != producer.producer_id:
        problem = f"no transactional id has producer id {producer.producer_id}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, problem)
    if known.epoch != producer.epoch:
        raise _stale_epoch(known, producer)
    return known


def _stale_epoch(known: Transaction, producer: ProducerIdAndEpoch) -> ApiError:
    problem = f"producer epoch {producer.epoch} is stale; the current one is {known.epoch}"
    return ApiError(ErrorCode.PRODUCER_FENCED, problem)


def check_part_of(known: Transaction | None, producer: ProducerIdAndEpoch, partition: TopicPartition) -> None:
    known = check_producer(known, producer)
    if known.state in DECIDED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is ending and accepts no more writes")
    if partition not in known.partitions:
        raise ApiError(ErrorCode.TRANSACTION_ABORTABLE, f"the transaction does not include {partition}")


def decide_add(
    known: Transaction | None,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction:
    known = check_producer(known, producer)
    if known.state in DECIDED:
        raise ApiError(
            ErrorCode.CONCURRENT_TRANSACTIONS, "the previous transaction is still ending; repeat the request later"
        )
    if known.state is TransactionState.ONGOING and known.partitions.issuperset(partitions):
        return known
    started_ms = now_ms if known.state in AT_REST else known.started_ms
    everything = known.partitions.union(partitions)
    ongoing = _next(known, TransactionState.ONGOING, now_ms, partitions=everything, started_ms=started_ms)
    return replace(ongoing, client_version=version)


def decide_end(
    known: Transaction | None,
    producer: ProducerIdAndEpoch,
    version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
    *,
    commit: bool,
) -> Transaction:
    """Commit or abort a transaction (EndTxn). A repeated EndTxn gets the same response."""
    if known is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "unknown transactional id")
    by_epoch = version >= WITH_NEW_EPOCHS
    repeats = by_epoch and _repeats(known, producer)
    if known.producer_id != producer.producer_id and not repeats:
        problem = f"the transactional id has producer id {known.producer_id}, not {producer.producer_id}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, problem)
    if known.epoch != producer.epoch and not (repeats and known.state is not TransactionState.ONGOING):
        raise _stale_epoch(known, producer)
    prepare = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    if known.state is prepare:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is still ending; repeat the request later")
    if known.state is done and (repeats or not by_epoch):
        return known
    may_abort_nothing = by_epoch and not repeats and not commit and known.state in AT_REST
    if known.state is not TransactionState.ONGOING and not may_abort_nothing:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, f"EndTxn cannot end a transaction in state {known.state.value}")
    prepared = _next(known, prepare, now_ms, client_version=version)
    if known.state is not TransactionState.ONGOING:
        prepared = replace(prepared, started_ms=now_ms)
    if not by_epoch:
        return prepared
    next_id = new_producer_id() if known.epoch >= LAST_EPOCH_OF_A_CLIENT else NONE
    return replace(prepared, epoch=known.epoch + 1, last_epoch=known.epoch, next_producer_id=next_id)


def _repeats(known: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Return True if this EndTxn repeats an earlier EndTxn of a KIP-890 client.

    The repeated EndTxn has the same epoch as the first EndTxn, which already gave the producer a new epoch.
    """
    if known.client_version < WITH_NEW_EPOCHS:
        return False
    if known.producer_id == producer.producer_id:
        return known.epoch == producer.epoch + 1
    has_new_id = known.previous_producer_id == producer.producer_id and known.epoch == 0
    return has_new_id and producer.epoch == LAST_EPOCH_OF_A_CLIENT


def complete(known: Transaction, now_ms: int) -> Transaction:
    commits = known.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    done = _next(known, state, now_ms, partitions=frozenset[TopicPartition](), next_producer_id=NONE)
    if known.next_producer_id == NONE:
        return replace(done, previous_producer_id=known.producer_id)
    return replace(done, producer_id=known.next_producer_id, epoch=0, previous_producer_id=known.producer_id)


def next_producer(known: Transaction) -> ProducerIdAndEpoch:
    """Return producer id and epoch for the next transaction of the producer."""
    if known.next_producer_id != NONE:
        return ProducerIdAndEpoch(known.next_producer_id, 0)
    return ProducerIdAndEpoch(known.producer_id, known.epoch)


def _next(known: Transaction, state: TransactionState, now_ms: int, **changes: object) -> Transaction:
    assert known.state in PREVIOUS[state], f"{known} cannot become {state}"
    return replace(known, state=state, updated_ms=now_ms, **changes)  # type: ignore[arg-type]  # names of its fields
