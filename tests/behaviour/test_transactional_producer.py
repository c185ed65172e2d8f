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
    tp, values = TopicPartition(topic, partition), []
    deadline = time.monotonic() + WAIT_S
    with kohort.Consumer(bootstrap_servers=bootstrap, **COMMITTED) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            assert time.monotonic() < deadline, values
            values += [record.value for record in consumer.poll(200)]
    return values


def committed_offset(bootstrap, group, topic):
    tp = TopicPartition(topic, 0)
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        return admin.list_group_offsets(group, [tp]).check()[tp]


def test_only_committed_transactions_are_visible(bootstrap, producer, name):
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
    assert committed_offset(bootstrap, name, name).offset == 5


def test_transaction_block_commits_at_its_end_and_aborts_on_error(bootstrap, producer, name):
    with producer.transaction():
        producer.send_batch(name, 0, [b"a", b"b"])
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send(name, b"%d" % (1 // 0))
    with producer.transaction():
        producer.send(name, b"c")

    assert committed_values(bootstrap, name) == [b"a", b"b", b"c"]


def test_next_producer_with_the_same_id_fences_the_previous_and_aborts_its_transaction(bootstrap, producer, name):
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


def test_close_aborts_an_open_transaction(bootstrap, name):
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions(WAIT_MS)
        with producer.transaction():
            producer.send(name, b"kept")
        producer.begin_transaction()
        producer.send(name, b"forgotten")
        producer.flush()

    assert committed_values(bootstrap, name) == [b"kept"], "and nobody waits for transaction.timeout.ms"


def test_group_copies_each_record_once_while_members_join_and_leave(bootstrap, producer, name):
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


def test_async_transactional_producer(bootstrap, name):
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
    assert committed_offset(bootstrap, name, name).offset == 3


def test_record_that_waits_for_its_topic_is_rejected_after_its_transaction(bootstrap, name):
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


def test_options_that_exclude_transactions_are_rejected():
    for options, what in [
        ({"enable_idempotence": False}, "enable.idempotence"),
        ({"acks": "1"}, "acks"),
        ({"retries": 0}, "retries"),
    ]:
        with pytest.raises(ConfigError, match=what):
            kohort.Producer(bootstrap_servers="localhost:1", transactional_id="t", **options)
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        kohort.Producer(bootstrap_servers="localhost:1", transactional_id="")


def test_silent_coordinator_is_named_in_the_timeout():
    late = r"no response to init_transactions\(\) within 200 ms"
    with (
        kohort.Producer(bootstrap_servers="127.0.0.1:1", transactional_id="t") as producer,
        pytest.raises(kohort.ApiTimeout, match=late),
    ):
        producer.init_transactions(200)


def zombie_and_heir(bootstrap: str, name: str) -> tuple[kohort.Producer, kohort.Producer]:
    zombie, heir = (kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) for _ in range(2))
    zombie.init_transactions()
    with zombie.transaction():
        zombie.send(name, b"first")
    heir.init_transactions()
    return zombie, heir


def by_produce(zombie: kohort.Producer, name: str) -> None:
    with zombie.transaction():
        zombie.send(name, b"late").result(WAIT_MS)


def by_commit(zombie: kohort.Producer, name: str) -> None:
    with zombie.transaction():
        zombie.send(name, b"late")


def by_offsets(zombie: kohort.Producer, name: str) -> None:
    with zombie.transaction():
        zombie.send_offsets_to_transaction({TopicPartition(name, 0): 1}, kohort.GroupMetadata("g", -1, "", None))


@pytest.mark.parametrize("learns", [by_produce, by_commit, by_offsets])
def test_producer_with_a_replaced_id_is_fenced_by_any_response(bootstrap, name, learns):
    zombie, heir = zombie_and_heir(bootstrap, name)
    with heir:
        with pytest.raises(ProducerFenced, match="another producer uses transactional"):
            learns(zombie, name)
        zombie.close()
        with heir.transaction():
            heir.send(name, b"second")


def test_async_producer_with_a_replaced_id_is_fenced(bootstrap, name):
    async def story() -> None:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=name) as zombie:
            await zombie.init_transactions()
            async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=name) as heir:
                await heir.init_transactions()
                with pytest.raises(ProducerFenced):
                    async with zombie.transaction():
                        await zombie.send(name, b"late")

    asyncio.run(story())


def test_error_of_the_block_precedes_the_fencing_error(bootstrap, name):
    zombie, heir = zombie_and_heir(bootstrap, name)

    def late() -> None:
        with zombie.transaction():
            zombie.send(name, b"late")
            zombie.flush()
            raise ZeroDivisionError

    with heir, zombie, pytest.raises(ZeroDivisionError):
        late()
