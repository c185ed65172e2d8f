"""State machine of a transactional id: accepted producers, next producer id, next epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kohort.coordinator.transactions.decide import (
    EPOCH_MAX,
    check_part_of,
    check_producer,
    complete,
    decide_add,
    decide_end,
    decide_init,
    fence,
    next_producer,
    time_out,
)
from kohort.coordinator.transactions.states import TransactionState
from kohort.coordinator.transactions.transaction import Transaction
from kohort.errors import ApiError, ErrorCode
from kohort.model import ProducerIdAndEpoch, TopicPartition

E, S = ErrorCode, TransactionState
NOW, NEW_ID = 5_000, 99
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LAST = EPOCH_MAX - 1

EMPTY = Transaction("pump", 7, 3, 60_000, updated_ms=1_000)
OPEN = replace(EMPTY, state=S.ONGOING, partitions=frozenset({T0}), started_ms=2_000, client_version=2)
OPEN_BEFORE_890 = replace(OPEN, client_version=0)
ENDING = replace(OPEN, state=S.PREPARE_COMMIT, epoch=4, last_epoch=3)
DONE = replace(ENDING, state=S.COMPLETE_COMMIT, partitions=frozenset(), previous_producer_id=7)


def new_id() -> int:
    return NEW_ID


def is_at(producer_id: int, epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id, epoch)


def refused(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    assert str(caught.value)
    return caught.value.code


def init(transaction: Transaction | None, expected: ProducerIdAndEpoch | None = None) -> Transaction:
    return decide_init(transaction, "pump", 30_000, expected, new_id, NOW)


def end(transaction: Transaction | None, producer: ProducerIdAndEpoch, *, version: int = 2, commit: bool = True):
    return decide_end(transaction, producer, version, new_id, NOW, commit=commit)


class TestInit:
    def test_first_init_producer_id_request_returns_epoch_0(self):
        made = init(None)
        assert (made.producer_id, made.epoch, made.timeout_ms, made.state, made.updated_ms) == (
            NEW_ID, 0, 30_000, S.EMPTY, NOW,
        )  # fmt: skip

    @pytest.mark.parametrize("transaction", [EMPTY, DONE], ids=["empty", "done"])
    def test_second_init_producer_id_request_returns_the_next_epoch(self, transaction):
        made = init(transaction)
        assert (made.producer_id, made.epoch, made.last_epoch) == (7, transaction.epoch + 1, -1)
        assert (made.state, made.started_ms, made.client_version, made.timeout_ms) == (S.EMPTY, -1, 0, 30_000)

    def test_init_producer_id_request_aborts_an_open_transaction_before_it_returns_an_epoch(self):
        made = init(OPEN)
        assert (made.state, made.epoch, made.last_epoch, made.partitions) == (S.PREPARE_ABORT, 4, -1, {T0})

    def test_init_producer_id_request_while_a_transaction_ends_returns_concurrent_transactions(self):
        assert refused(lambda: init(ENDING)) is E.CONCURRENT_TRANSACTIONS

    def test_init_producer_id_request_with_the_current_epoch_after_an_error_returns_the_next_epoch(self):
        made = init(EMPTY, is_at(7, 3))
        assert (made.epoch, made.last_epoch) == (4, 3)
        again = init(made, is_at(7, 3))
        assert (again.epoch, again.last_epoch) == (4, 3), "the producer repeats InitProducerId after a lost response"

    @pytest.mark.parametrize("expected", [is_at(7, 1), is_at(8, 3), is_at(-1, 3)])
    def test_init_producer_id_request_with_an_old_epoch_is_fenced(self, expected):
        assert refused(lambda: init(EMPTY, expected)) is E.PRODUCER_FENCED

    @pytest.mark.parametrize(("expected", "last"), [(None, -1), (is_at(7, LAST), LAST)])
    def test_init_producer_id_request_with_exhausted_epochs_returns_another_producer_id(self, expected, last):
        made = init(replace(EMPTY, epoch=LAST), expected)
        assert (made.producer_id, made.epoch, made.last_epoch, made.previous_producer_id) == (NEW_ID, 0, last, 7)

    @pytest.mark.parametrize(("epoch", "code"), [(LAST, None), (LAST - 1, E.PRODUCER_FENCED)])
    def test_init_producer_id_request_with_the_last_epoch_of_the_previous_producer_id_is_accepted(self, epoch, code):
        transaction = replace(EMPTY, producer_id=NEW_ID, epoch=0, last_epoch=LAST, previous_producer_id=7)
        if code is None:
            assert init(transaction, is_at(7, epoch)).producer_id == NEW_ID
        else:
            assert refused(lambda: init(transaction, is_at(7, epoch))) is code


class TestAddPartitions:
    def test_first_partition_added_by_a_producer_opens_the_transaction(self):
        begun = decide_add(DONE, is_at(7, 4), [T0], 2, NOW)
        assert (begun.state, begun.partitions, begun.started_ms, begun.client_version) == (S.ONGOING, {T0}, NOW, 2)
        more = decide_add(begun, is_at(7, 4), [T1], 2, NOW + 1)
        assert (more.partitions, more.started_ms, more.updated_ms) == ({T0, T1}, NOW, NOW + 1)
        assert decide_add(more, is_at(7, 4), [T0], 2, NOW + 2) is more

    def test_add_partitions_to_txn_request_of_a_stale_producer_is_refused(self):
        assert refused(lambda: decide_add(OPEN, is_at(8, 3), [T1], 2, NOW)) is E.INVALID_PRODUCER_ID_MAPPING
        assert refused(lambda: decide_add(OPEN, is_at(7, 2), [T1], 2, NOW)) is E.PRODUCER_FENCED
        assert refused(lambda: decide_add(ENDING, is_at(7, 4), [T1], 2, NOW)) is E.CONCURRENT_TRANSACTIONS
        assert refused(lambda: check_producer(None, is_at(7, 3))) is E.INVALID_PRODUCER_ID_MAPPING

    def test_write_to_a_partition_outside_of_the_transaction_returns_transaction_abortable(self):
        check_part_of(OPEN, is_at(7, 3), T0)
        assert refused(lambda: check_part_of(OPEN, is_at(7, 3), T1)) is E.TRANSACTION_ABORTABLE
        assert refused(lambda: check_part_of(ENDING, is_at(7, 4), T0)) is E.CONCURRENT_TRANSACTIONS


class TestEnd:
    @pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
    def test_end_txn_request_returns_the_next_epoch_since_kip_890(self, commit, state):
        ended = end(OPEN, is_at(7, 3), commit=commit)
        assert (ended.state, ended.epoch, ended.last_epoch, ended.next_producer_id) == (state, 4, 3, -1)
        assert (ended.started_ms, ended.updated_ms, ended.client_version) == (2_000, NOW, 2)

    def test_end_txn_request_keeps_the_epoch_before_kip_890(self):
        ended = end(OPEN_BEFORE_890, is_at(7, 3), version=1)
        assert (ended.state, ended.epoch, ended.last_epoch) == (S.PREPARE_COMMIT, 3, -1)

    def test_end_txn_request_with_exhausted_epochs_returns_another_producer_id(self):
        ended = end(replace(OPEN, epoch=LAST), is_at(7, LAST))
        assert (ended.epoch, ended.next_producer_id) == (EPOCH_MAX, NEW_ID)
        assert next_producer(ended) == is_at(NEW_ID, 0)
        done = complete(ended, NOW + 1)
        assert (done.producer_id, done.epoch, done.previous_producer_id, done.next_producer_id) == (NEW_ID, 0, 7, -1)
        assert end(done, is_at(7, LAST)) is done, "the producer repeats EndTxn after a lost response"
        assert refused(lambda: end(done, is_at(7, LAST - 1))) is E.INVALID_PRODUCER_ID_MAPPING

    def test_repeated_end_txn_request_returns_the_same_response(self):
        assert end(DONE, is_at(7, 3)) is DONE
        assert refused(lambda: end(ENDING, is_at(7, 3))) is E.CONCURRENT_TRANSACTIONS
        assert refused(lambda: end(DONE, is_at(7, 3), commit=False)) is E.INVALID_TXN_STATE
        before = replace(DONE, epoch=3, last_epoch=-1, client_version=0)
        assert end(before, is_at(7, 3), version=1) is before
        assert next_producer(DONE) == is_at(7, 4)

    @pytest.mark.parametrize(
        ("transaction", "producer", "code"),
        [
            (None, is_at(7, 3), E.INVALID_PRODUCER_ID_MAPPING),
            (OPEN, is_at(8, 3), E.INVALID_PRODUCER_ID_MAPPING),
            (OPEN, is_at(7, 4), E.PRODUCER_FENCED),
            (OPEN, is_at(7, 2), E.PRODUCER_FENCED),
            (DONE, is_at(7, 2), E.PRODUCER_FENCED),
            (EMPTY, is_at(7, 3), E.INVALID_TXN_STATE),
        ],
    )
    def test_end_txn_request_of_a_stale_producer_is_refused(self, transaction, producer, code):
        assert refused(lambda: end(transaction, producer)) is code

    def test_end_txn_request_may_abort_a_transaction_without_writes_since_kip_890(self):
        ended = end(DONE, is_at(7, 4), commit=False)
        assert (ended.state, ended.epoch, ended.started_ms) == (S.PREPARE_ABORT, 5, NOW)
        assert refused(lambda: end(EMPTY, is_at(7, 3), version=1, commit=False)) is E.INVALID_TXN_STATE

    @pytest.mark.parametrize(
        ("transaction", "state"),
        [(ENDING, S.COMPLETE_COMMIT), (replace(ENDING, state=S.PREPARE_ABORT), S.COMPLETE_ABORT)],
    )
    def test_transaction_is_complete_after_its_markers(self, transaction, state):
        done = complete(transaction, NOW)
        assert (done.state, done.partitions, done.epoch, done.previous_producer_id) == (state, frozenset(), 4, 7)

    def test_fencing_of_a_producer_does_not_raise_its_epoch_above_the_largest_epoch(self):
        assert fence(OPEN, NOW).epoch == 4
        assert fence(replace(OPEN, epoch=EPOCH_MAX), NOW).epoch == EPOCH_MAX


class TestTimeout:
    def test_transaction_timeout_aborts_the_transaction_with_the_next_producer_epoch(self):
        made = time_out(OPEN, NOW)
        assert (made.state, made.epoch, made.last_epoch, made.client_version) == (S.PREPARE_ABORT, 4, 3, 2)

    def test_init_producer_id_request_with_the_previous_epoch_returns_the_current_epoch(self):
        done = complete(time_out(OPEN, NOW), NOW)
        made = init(done, is_at(7, 3))
        assert (made.state, made.epoch, made.last_epoch) == (S.EMPTY, 4, 3)
        assert init(made, is_at(7, 3)).epoch == 4

    def test_init_producer_id_request_is_refused_until_all_markers_of_the_transaction_are_written(self):
        assert refused(lambda: init(time_out(OPEN, NOW), is_at(7, 3))) is E.CONCURRENT_TRANSACTIONS

    def test_init_producer_id_request_after_another_producer_took_the_transactional_id_is_fenced(self):
        assert refused(lambda: init(complete(fence(OPEN, NOW), NOW), is_at(7, 3))) is E.PRODUCER_FENCED
        taken = init(complete(time_out(OPEN, NOW), NOW))
        assert refused(lambda: init(taken, is_at(7, 3))) is E.PRODUCER_FENCED

    def test_init_producer_id_request_after_a_timeout_with_the_last_epoch_returns_another_producer_id(self):
        done = complete(time_out(replace(OPEN, epoch=LAST), NOW), NOW)
        assert done.epoch == EPOCH_MAX, "no client gets the largest epoch"
        made = init(done, is_at(7, LAST))
        assert (made.producer_id, made.epoch) == (NEW_ID, 0)
        again = init(made, is_at(7, LAST))
        assert (again.producer_id, again.epoch) == (NEW_ID, 0), (
            "the producer repeats InitProducerId after a lost response"
        )

    @pytest.mark.parametrize(
        ("version", "commit", "code"),
        [(2, True, E.INVALID_TXN_STATE), (1, True, E.PRODUCER_FENCED), (1, False, E.PRODUCER_FENCED)],
    )
    def test_end_txn_request_with_the_previous_epoch_is_refused(self, version, commit, code):
        done = complete(time_out(replace(OPEN, client_version=version), NOW), NOW)
        assert refused(lambda: end(done, is_at(7, 3), version=version, commit=commit)) is code

    def test_end_txn_request_that_aborts_with_the_previous_epoch_returns_the_current_epoch_since_kip_890(self):
        done = complete(time_out(OPEN, NOW), NOW)
        assert end(done, is_at(7, 3), commit=False) is done
        assert next_producer(done) == is_at(7, 4)
