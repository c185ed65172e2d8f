from __future__ import annotations

import asyncio

import pytest

from kohort import ApiError, ApiTimeout, AsyncProducer, Consumer, Producer, TopicPartition, UsageError
from kohort.testing import StagedBroker

pytest_plugins = ["pytester"]
PARTITION = TopicPartition("t", 0)


@pytest.fixture
def broker():
    with StagedBroker(frozen=True) as broker:
        yield broker


@pytest.fixture
def producer(broker):
    with Producer(bootstrap_servers=broker.bootstrap, client_id="writer", retry_backoff_ms=10) as producer:
        yield producer


@pytest.fixture
def consumer(broker):
    with Consumer(
        bootstrap_servers=broker.bootstrap,
        client_id="reader",
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=10,
    ) as consumer:
        yield consumer


def read(consumer, count):
    found = []
    for _ in range(600):
        found += consumer.poll(timeout_ms=100)
        if len(found) >= count:
            break
    return [record.value for record in found]


def test_commit_is_retried_after_two_scripted_errors(broker, producer, consumer):
    producer.send("t", b"one").result(30_000)
    consumer.subscribe(["t"])
    assert read(consumer, 1) == [b"one"]
    rule = broker.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2)

    consumer.commit()

    assert (rule.struck, rule.left) == (2, 0)
    assert consumer.committed([PARTITION])[PARTITION].offset == 1
    assert len(broker.requests("OffsetCommit", client_id="reader")) == 3


def test_scripted_error_for_one_client_spares_others(broker, producer, consumer):
    broker.fail("Produce", "INVALID_REQUIRED_ACKS", times=None, client_id="writer")

    with pytest.raises(ApiError, match="INVALID_REQUIRED_ACKS"):
        producer.send("t", b"one").result(30_000)
    with Producer(bootstrap_servers=broker.bootstrap, client_id="another") as another:
        assert another.send("t", b"two").result(30_000).offset == 0
    broker.heal()
    assert producer.send("t", b"three").result(30_000).offset == 1


def test_lost_produce_response_does_not_duplicate_the_record(broker, producer, consumer):
    broker.lose_answer("Produce")

    producer.send("t", b"once").result(30_000)
    producer.send("t", b"then").result(30_000)

    assert len(broker.requests("Produce")) == 3
    consumer.assign([PARTITION])
    assert read(consumer, 2) == [b"once", b"then"]
    assert consumer.end_offsets([PARTITION]) == {PARTITION: 2}


def test_closed_connections_are_opened_again(broker, producer):
    rule = broker.hang_up("Produce", times=2)

    assert producer.send("t", b"one").result(30_000).offset == 0
    assert rule.struck == 2


def test_held_requests_are_served_on_release(broker, producer):
    with broker.hold("Produce") as hold:
        delivery = producer.send("t", b"one")
        broker.wait_for("Produce")
        assert hold.waiting == 1
        assert not delivery.done()

    assert delivery.result(30_000).offset == 0
    assert hold.waiting == 0


def test_silent_member_expires_when_time_advances(broker, producer, consumer):
    producer.send("t", b"one").result(30_000)
    consumer.subscribe(["t"])
    read(consumer, 1)
    first = broker.requests("JoinGroup")[-1].message.member_id
    before = broker.now_ms()

    broker.advance(46_000)
    joined = len(broker.requests("JoinGroup"))
    for _ in range(600):
        consumer.poll(timeout_ms=100)
        if len(broker.requests("SyncGroup")) > 1:
            break

    assert broker.now_ms() == before + 46_000
    assert joined < len(broker.requests("JoinGroup"))
    assert broker.requests("JoinGroup")[-1].message.member_id != first


def test_waiting_fetch_with_frozen_clock_does_not_block_others(broker, producer, consumer):
    producer.send("t", b"one").result(30_000)
    consumer.assign([PARTITION])
    assert read(consumer, 1) == [b"one"]
    broker.wait_for("Fetch", count=2)
    before = broker.now_ms()

    assert consumer.end_offsets([PARTITION], timeout_ms=20_000) == {PARTITION: 1}
    assert broker.now_ms() == before


def test_records_beyond_retention_are_deleted_when_time_advances():
    with StagedBroker(log_retention_ms=3_600_000) as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", b"old").result(30_000)
        broker.advance(2 * 3_600_000)
        with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            for _ in range(600):
                if consumer.beginning_offsets([PARTITION]) == {PARTITION: 1}:
                    break
            assert consumer.beginning_offsets([PARTITION]) == {PARTITION: 1}


def test_clients_reconnect_after_disconnect(broker, producer):
    producer.send("t", b"one").result(30_000)

    assert broker.disconnect("nobody") == 0
    assert broker.disconnect("writer") >= 1
    assert producer.send("t", b"two").result(30_000).offset == 1


def test_faults_apply_to_every_node():
    with StagedBroker(nodes=2, num_partitions=4) as broker:
        rule = broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        with Producer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=10) as producer:
            for delivery in [producer.send("t", b"x", partition=i) for i in range(4)]:
                delivery.result(30_000)
        assert rule.struck == 2
        assert {request.node_id for request in broker.requests("Produce")} == set(broker.nodes)


def test_arrived_waits_for_requests_on_the_callers_loop():
    async def story():
        async with StagedBroker() as broker, AsyncProducer(bootstrap_servers=broker.bootstrap) as producer:
            with pytest.raises(UsageError, match="await arrived"):
                broker.wait_for("Produce")
            with pytest.raises(ApiTimeout, match=r"0 of 1 Fetch requests arrived within 10 ms"):
                await broker.arrived("Fetch", timeout_ms=10)
            await producer.send("t", b"x")
            (request,) = await broker.arrived("Produce")
            assert request.message.topic_data[0].name in {"t", ""}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda broker: broker.fail("Comit", 1), "unknown API 'Comit'"),
        (lambda broker: broker.fail("OffsetComit", 1), "did you mean OffsetCommit?"),
        (lambda broker: broker.fail("Fetch", "NOT_CORDINATOR"), "did you mean NOT_COORDINATOR?"),
        (lambda broker: broker.fail("Fetch", 9999), "unknown error code 9999"),
        (lambda broker: broker.advance(-1), "advance: ms must be a number of milliseconds from 0 to"),
    ],
)
def test_unknown_api_or_code_error_names_the_nearest(broker, call, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        call(broker)


def test_plugin_gives_each_test_its_own_broker(pytester):
    pytester.makepyfile(
        """
        import pytest
        from kohort import Admin, Producer

        def test_one(kafka_broker, kafka_bootstrap):
            with Producer(bootstrap_servers=kafka_bootstrap) as producer:
                assert producer.send("t", b"x").result(30_000).offset == 0
            kafka_broker.advance(1000)

        @pytest.mark.kafka_broker(nodes=3)
        class TestSeveral:
            @pytest.mark.kafka_broker(num_partitions=5)
            def test_two(self, kafka_broker):
                assert len(kafka_broker.nodes) == 3
                with Producer(bootstrap_servers=kafka_broker.bootstrap) as producer:
                    assert producer.send("t", b"x", partition=4).result(30_000).offset == 0
        """
    )

    result = pytester.runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=2)


def test_flush_waits_complete_with_frozen_clock(tmp_path):
    with (
        StagedBroker({"log.flush.interval.messages": 1}, frozen=True, data_dir=tmp_path) as broker,
        Producer(bootstrap_servers=broker.bootstrap) as producer,
    ):
        assert [producer.send("t", b"x").result(30_000).offset for _ in range(3)] == [0, 1, 2]
