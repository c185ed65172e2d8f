"""Transactions of our producer, on both of its faces, over real sockets: consume, transform, produce, exactly once."""

from __future__ import annotations

import asyncio
import time

import pytest

import kohort
from kohort import ConfigError, ProducerFenced, TopicPartition, TransactionFailed, UsageError

WAIT_S = 60.0
WAIT_MS = 60_000
COMMITTED = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}


@pytest.fixture
def name(bootstrap, request):
    """A topic of one partition that is this test's own; the name serves as transactional id and group too."""
    made = f"txn-{request.node.name.split('[')[0].removeprefix('test_')[:60]}-{time.time_ns()}"
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({made: 1})
    return made


@pytest.fixture
def producer(bootstrap, name):
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as client:
        client.init_transactions(WAIT_MS)
        yield client


def committed_values(bootstrap, topic, partition=0):
    """What a reader of committed records finds up to the end, which nobody writes to any more."""
    tp, values = TopicPartition(topic, partition), []
    deadline = time.monotonic() + WAIT_S
    with kohort.Consumer(bootstrap_servers=bootstrap, **COMMITTED) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            assert time.monotonic() < deadline, values
            values += [record.value for record in consumer.poll(200)]
    return values


def held(bootstrap, group, topic):
    tp = TopicPartition(topic, 0)
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        return admin.list_group_offsets(group, [tp]).check()[tp]


def test_what_is_committed_counts_and_what_is_aborted_does_not(bootstrap, producer, name):
    for number in range(6):
        producer.begin_transaction()
        deliveries = [producer.send(name, b"%d/%d" % (number, n)) for n in range(5)]
        producer.send_offsets_to_transaction({TopicPartition(name, 0): number}, kohort.GroupMetadata(name))
        if number % 3 == 1:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        assert all(delivery.done() for delivery in deliveries)

    assert committed_values(bootstrap, name) == [b"%d/%d" % (n, i) for n in (0, 2, 3, 5) for i in range(5)]
    assert held(bootstrap, name, name).offset == 5


def test_a_block_commits_at_its_end_and_aborts_when_it_raises(bootstrap, producer, name):
    with producer.transaction():
        producer.send_batch(name, 0, [b"a", b"b"])
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send(name, b"%d" % (1 // 0))
    with producer.transaction():
        producer.send(name, b"c")

    assert committed_values(bootstrap, name) == [b"a", b"b", b"c"]


def test_the_next_producer_of_a_name_fences_the_one_before_and_aborts_what_it_left(bootstrap, producer, name):
    producer.begin_transaction()
    producer.send(name, b"left open")
    producer.flush()
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as following:
        following.init_transactions(WAIT_MS)
        with pytest.raises((ProducerFenced, TransactionFailed)):
            producer.commit_transaction()
        with following.transaction():
            following.send(name, b"done")

    with pytest.raises((ProducerFenced, UsageError)):
        producer.begin_transaction()
    assert committed_values(bootstrap, name) == [b"done"]


def test_closing_aborts_what_is_open(bootstrap, name):
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions(WAIT_MS)
        with producer.transaction():
            producer.send(name, b"kept")
        producer.begin_transaction()
        producer.send(name, b"forgotten")
        producer.flush()

    assert committed_values(bootstrap, name) == [b"kept"], "and nobody waits for transaction.timeout.ms"


def test_a_group_copies_each_record_once_although_its_members_come_and_go(bootstrap, producer, name):
    """The loop of KIP-447: the offsets go with what was made of the records, and a member that was away is refused."""
    source = f"{name}-in"
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({source: 2})
    with kohort.Producer(bootstrap_servers=bootstrap) as plain:
        for n in range(40):
            plain.send(source, b"%d" % n, partition=n % 2)
    options = {"bootstrap_servers": bootstrap, "group_id": name, "enable_auto_commit": False, "max_poll_records": 7}

    def copy(consumer, until):
        copied, deadline = 0, time.monotonic() + WAIT_S
        while copied < until:
            assert time.monotonic() < deadline, copied
            records = consumer.poll(500)
            if not records:
                continue
            with producer.transaction():
                for record in records:
                    producer.send(name, record.value)
                ahead = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
                producer.send_offsets_to_transaction(ahead, consumer.group_metadata())
            copied += len(records)
        return copied

    with kohort.Consumer(**options, **COMMITTED) as first:
        first.subscribe([source])
        copied = copy(first, 15)
        stale = first.group_metadata()
    with kohort.Consumer(**options, **COMMITTED) as second:
        second.subscribe([source])
        copy(second, 40 - copied)
        producer.begin_transaction()
        producer.send(name, b"by one who has left")
        with pytest.raises(TransactionFailed, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({TopicPartition(source, 0): 1}, stale)
        producer.abort_transaction()

    assert sorted(committed_values(bootstrap, name), key=int) == [b"%d" % n for n in range(40)]


def test_the_asynchronous_producer_does_the_same(bootstrap, name):
    async def cancelled(producer):
        async with producer.transaction():
            await producer.send(name, b"cancelled")
            raise asyncio.CancelledError

    async def run():
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            with pytest.raises(UsageError, match="init_transactions"):
                await producer.send(name, b"too early")
            await producer.init_transactions(WAIT_MS)
            async with producer.transaction():
                delivery = await producer.send(name, b"a")
                await producer.send_batch(name, 0, [b"b", b"c"])
                await producer.send_offsets_to_transaction({TopicPartition(name, 0): 3}, kohort.GroupMetadata(name))
            assert (await delivery).offset == 0
            with pytest.raises(asyncio.CancelledError):
                await cancelled(producer)
            async with producer.transaction():
                await producer.send(name, b"d")
            producer.begin_transaction()
            await producer.send(name, b"open when it closes")

    asyncio.run(run())

    assert committed_values(bootstrap, name) == [b"a", b"b", b"c", b"d"]
    assert held(bootstrap, name, name).offset == 3


def test_a_record_that_waited_for_its_topic_is_refused_when_its_transaction_has_ended_meanwhile(bootstrap, name):
    async def run():
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            await producer.init_transactions(WAIT_MS)
            producer.begin_transaction()
            late = asyncio.ensure_future(producer.send(name, b"late"))
            await asyncio.sleep(0)
            await producer.abort_transaction()
            with pytest.raises(UsageError, match="no transaction open"):
                await late
            async with producer.transaction():
                await producer.send(name, b"in time")

    asyncio.run(run())

    assert committed_values(bootstrap, name) == [b"in time"]


def test_options_that_transactions_exclude_are_refused():
    for options, what in [
        ({"enable_idempotence": False}, "enable.idempotence"),
        ({"acks": "1"}, "acks"),
        ({"retries": 0}, "retries"),
    ]:
        with pytest.raises(ConfigError, match=what):
            kohort.Producer(bootstrap_servers="localhost:1", transactional_id="t", **options)
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        kohort.Producer(bootstrap_servers="localhost:1", transactional_id="")


def test_a_coordinator_that_does_not_answer_is_named_in_time():
    late = r"no response to init_transactions\(\) within 200 ms"
    with (
        kohort.Producer(bootstrap_servers="127.0.0.1:1", transactional_id="t") as producer,
        pytest.raises(kohort.ApiTimeout, match=late),
    ):
        producer.init_transactions(200)


def zombie_and_heir(bootstrap: str, name: str) -> tuple[kohort.Producer, kohort.Producer]:
    """Two producers of one transactional id, of which the second has taken it over."""
    zombie, heir = (kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) for _ in range(2))
    zombie.init_transactions()
    with zombie.transaction():
        zombie.send(name, b"first")
    heir.init_transactions()
    return zombie, heir


def by_produce(zombie: kohort.Producer, name: str) -> None:
    """The broker of the partition refuses its epoch."""
    with zombie.transaction():
        zombie.send(name, b"late").result(WAIT_MS)


def by_commit(zombie: kohort.Producer, name: str) -> None:
    """As before, but it hears of it when it commits."""
    with zombie.transaction():
        zombie.send(name, b"late")


def by_offsets(zombie: kohort.Producer, name: str) -> None:
    """The coordinator refuses its epoch."""
    with zombie.transaction():
        zombie.send_offsets_to_transaction({TopicPartition(name, 0): 1}, kohort.GroupMetadata("g", -1, "", None))


@pytest.mark.parametrize("learns", [by_produce, by_commit, by_offsets])
def test_a_producer_whose_id_was_taken_over_is_fenced_however_it_learns_of_it(bootstrap, name, learns):
    zombie, heir = zombie_and_heir(bootstrap, name)
    with heir:
        with pytest.raises(ProducerFenced, match="another producer uses transactional"):
            learns(zombie, name)
        zombie.close()
        with heir.transaction():
            heir.send(name, b"second")


def test_an_asyncio_producer_whose_id_was_taken_over_is_fenced(bootstrap, name):
    async def story() -> None:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=name) as zombie:
            await zombie.init_transactions()
            async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=name) as heir:
                await heir.init_transactions()
                with pytest.raises(ProducerFenced):
                    async with zombie.transaction():
                        await zombie.send(name, b"late")

    asyncio.run(story())


def test_what_was_raised_within_says_more_than_that_the_id_was_taken_over(bootstrap, name):
    zombie, heir = zombie_and_heir(bootstrap, name)

    def late() -> None:
        with zombie.transaction():
            zombie.send(name, b"late")
            zombie.flush()
            raise ZeroDivisionError

    with heir, zombie, pytest.raises(ZeroDivisionError):
        late()
