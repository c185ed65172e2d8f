"""KIP-98, KIP-447, KIP-890: transactions by raw requests, of producers before and after KIP-890."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from support.raw.transactional import (
    Transactional,
    committed_offset,
    committed_values,
    fetched,
    latest,
)
from support.waiting import eventually

AT_ONCE_OR_LATER = {
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
}


class RetryingProducer(Transactional):
    def again(self, ask):
        codes = []

        def done():
            codes.append(ask())
            return codes[-1] not in AT_ONCE_OR_LATER - {ErrorCode.NONE}

        eventually(done)
        return codes[-1]

    def init(self, *, recover=False):
        return self.again(lambda: super(RetryingProducer, self).init(recover=recover))

    def add(self, topic, *partitions):
        return self.again(lambda: super(RetryingProducer, self).add(topic, *partitions))

    def write(self, topic, *values, **options):
        answers = []

        def ask():
            answers.append(super(RetryingProducer, self).write(topic, *values, **options))
            return ErrorCode(answers[-1].error_code)

        self.again(ask)
        return answers[-1]

    def commit_offsets(self, group, topic, offset, **options):
        return self.again(lambda: super(RetryingProducer, self).commit_offsets(group, topic, offset, **options))


@pytest.fixture(params=["before KIP-890", "after KIP-890"])
def producer(broker, request):
    name = broker.group()
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
    eventually(lambda: broker.ask(find, 4).coordinators[0].error_code == 0)
    made = RetryingProducer(broker, name, new=request.param == "after KIP-890")
    assert made.init() == 0
    return made


def test_only_committed_transactions_are_read(broker, producer):
    topic = broker.topic()
    producer.send(topic, b"1", b"2")
    assert committed_values(broker, topic) == []
    assert (latest(broker, topic), latest(broker, topic, isolation=0)) == (0, 2)

    assert producer.end(commit=True) == 0
    eventually(lambda: latest(broker, topic) == 3)
    producer.send(topic, b"gone")
    assert producer.end(commit=False) == 0
    eventually(lambda: latest(broker, topic) == 5)
    producer.send(topic, b"3")
    assert producer.end(commit=True) == 0
    eventually(lambda: latest(broker, topic) == 7)

    assert committed_values(broker, topic) == [b"1", b"2", b"3"]
    aborted = fetched(broker, topic, 3).aborted_transactions
    assert [(a.producer_id, a.first_offset) for a in aborted] == [(producer.producer_id, 3)]


def test_offsets_are_visible_after_their_transaction_commits(broker, producer):
    topic, group = broker.topic(), broker.group()
    broker.commit(group, topic, {0: 3})
    assert producer.commit_offsets(group, topic, 10) == 0
    assert committed_offset(broker, group, topic) == (0, 3)
    assert committed_offset(broker, group, topic, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)

    assert producer.end(commit=True) == 0

    eventually(lambda: committed_offset(broker, group, topic, stable=True) == (0, 10))


def test_offsets_of_an_aborted_transaction_are_dropped(broker, producer):
    topic, group = broker.topic(), broker.group()
    broker.commit(group, topic, {0: 3})
    assert producer.commit_offsets(group, topic, 10) == 0

    assert producer.end(commit=False) == 0

    eventually(lambda: committed_offset(broker, group, topic, stable=True) == (0, 3))


def test_later_commit_outside_of_the_transaction_wins(broker, producer):
    topic, group = broker.topic(), broker.group()
    assert producer.commit_offsets(group, topic, 10) == 0
    broker.commit(group, topic, {0: 4})
    assert committed_offset(broker, group, topic, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)

    assert producer.end(commit=True) == 0

    eventually(lambda: committed_offset(broker, group, topic, stable=True) == (0, 4))


def test_transactional_commit_with_an_unknown_member_is_rejected(broker, producer):
    topic, group = broker.topic(), broker.group()

    assert producer.commit_offsets(group, topic, 1, generation=3, member="m") == ErrorCode.ILLEGAL_GENERATION

    broker.commit(group, topic, {0: 3})
    assert producer.commit_offsets(group, topic, 1, generation=3, member="m") == ErrorCode.UNKNOWN_MEMBER_ID


def test_transactional_commit_for_unknown_partitions_is_rejected(broker, producer):
    group = broker.group()

    code = producer.commit_offsets(group, f"none-{group}", 1, adds=False)

    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE


def test_second_producer_with_the_same_id_fences_the_first(broker, producer):
    topic = broker.topic()
    producer.send(topic, b"of the first")
    second = RetryingProducer(broker, producer.transactional_id, new=producer.new)

    assert second.init() == 0

    assert second.producer_id == producer.producer_id
    assert second.epoch > producer.epoch
    assert producer.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert producer.write(topic, b"zombie").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    second.send(topic, b"of the second")
    assert second.end(commit=True) == 0
    eventually(lambda: committed_values(broker, topic) == [b"of the second"])


def test_repeated_end_of_a_transaction_is_idempotent(broker, producer):
    topic = broker.topic()
    producer.send(topic, b"1")
    had = producer.producer_id, producer.epoch
    assert producer.end(commit=True) == 0
    eventually(lambda: latest(broker, topic) == 2)
    producer.producer_id, producer.epoch = had

    assert producer.again(lambda: producer.end(commit=True)) == 0

    producer.producer_id, producer.epoch = had
    assert producer.end(commit=False) == ErrorCode.INVALID_TXN_STATE
    assert latest(broker, topic) == 2


def test_produce_to_a_partition_outside_of_the_transaction_is_rejected(broker, producer):
    topic, group = broker.topic(), broker.group()
    broker.commit(group, topic, {0: 3})
    if producer.new:
        assert producer.write(topic, b"joins by writing").error_code == 0
    else:
        assert producer.write(topic, b"no").error_code == ErrorCode.INVALID_TXN_STATE
        assert producer.commit_offsets(group, topic, 1, adds=False) == ErrorCode.INVALID_TXN_STATE


def test_unknown_producer_id_is_rejected(broker, producer):
    topic = broker.topic()
    producer.send(topic, b"1")
    stranger = RetryingProducer(broker, producer.transactional_id)
    stranger.producer_id, stranger.epoch = producer.producer_id + 100_000, 0

    assert stranger.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stranger.add(topic, 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
