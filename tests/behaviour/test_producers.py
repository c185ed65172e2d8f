from __future__ import annotations

import asyncio
import multiprocessing
import socket
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

import kohort
from kohort import ApiError, ApiTimeout, ConnectionFailed, ErrorCode, NewTopic, TopicPartition, UsageError
from kohort.aio.io_thread import io_thread
from kohort.wire.record_batch import NewRecord, build_batch

WAIT_S = 60.0
WAIT_MS = 60_000


@pytest.fixture
def admin(bootstrap):
    with kohort.Admin(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
def producer(bootstrap):
    with kohort.Producer(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
def nowhere():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def end_of(admin, topic, partition=0):
    tp = TopicPartition(topic, partition)
    return admin.list_offsets({tp: "latest"})[tp].offset


def know(producer, topic):
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            producer.partitions_for(topic)
        except ApiTimeout:
            assert time.monotonic() < deadline, "the topic was never known"
        else:
            return


def test_delivery_has_the_position_of_the_record(admin, producer, name):
    admin.create_topics({name: 3})

    where = producer.send(name, "value", "key", headers={"trace": "1"}, timestamp_ms=1234).result(WAIT_MS)

    assert (where.topic, where.offset, where.timestamp_ms) == (name, 0, 1234)
    assert end_of(admin, name, where.partition) == 1


def test_flush_waits_for_all_records(admin, producer, name):
    admin.create_topics({name: 1})
    deliveries = [producer.send(name, b"%d" % n) for n in range(5000)]

    producer.flush(WAIT_MS)

    assert all(delivery.done() for delivery in deliveries)
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(5000))
    assert end_of(admin, name) == 5000


def test_close_delivers_buffered_records(bootstrap, admin, name):
    admin.create_topics({name: 1})
    with kohort.Producer(bootstrap_servers=bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        delivery = producer.send(name, b"x")
        assert not delivery.done()

    assert delivery.result(0).offset == 0
    with pytest.raises(UsageError, match="closed"):
        producer.send(name, b"y")


def test_threads_share_a_producer(admin, producer, name):
    admin.create_topics({name: 4})

    def work(key):
        for n in range(500):
            producer.send(name, b"%d" % n, key=key)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    producer.flush(WAIT_MS)

    assert sum(end_of(admin, name, n) for n in range(4)) == 2000


def test_send_works_although_the_outer_lock_stays_locked(admin, producer, name):
    admin.create_topics({name: 1})
    assert producer._outer_lock.acquire(blocking=False)

    assert producer.send(name, b"value", partition=0).result(WAIT_MS).offset == 0
    assert producer._outer_lock.locked()


def test_send_batch_to_one_partition(admin, producer, name):
    admin.create_topics({name: 1})
    records = [b"value", ("key", "value"), ("key", None, {"h": b"1"}), (None, b"v", (), 99)]

    deliveries = producer.send_batch(name, 0, records * 1000)

    assert max(delivery.result(WAIT_MS).offset for delivery in deliveries) == 3999
    assert end_of(admin, name) == 4000


@pytest.mark.parametrize("hours", [2, -2])
def test_records_are_sent_after_a_clock_change(monkeypatch, admin, producer, name, hours):
    admin.create_topics({name: 1})
    producer.send(name, b"before").result(WAIT_MS)
    real_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3600 * 10**9)

    assert producer.send(name, b"after").result(WAIT_MS).offset == 1
    (delivery,) = producer.send_batch(name, 0, [(None, b"after")])
    assert delivery.result(WAIT_MS).offset == 2


def test_send_prebuilt_passes_the_batch_unchanged(admin, producer, name):
    admin.create_topics({name: 1})

    delivery = producer.send_prebuilt(name, 0, build_batch([NewRecord(b"k", b"v"), NewRecord(None, b"w")]))

    assert delivery.result(WAIT_MS).offset == 1
    with pytest.raises(kohort.CorruptRecord):
        producer.send_prebuilt(name, 0, b"not a batch")


@pytest.mark.timeout(600)  # the first use of pyarrow's tables imports pandas, and the kernels are compiled once
def test_send_arrow_sends_columns(admin, producer, name):
    admin.create_topics({name: 3})
    table = pa.table({"id": [f"k{n}" for n in range(1000)], "payload": [b"%d" % n for n in range(1000)]})

    deliveries = producer.send_arrow(name, table, key="id", value="payload")
    for delivery in deliveries:
        delivery.result(WAIT_MS)

    assert sum(end_of(admin, name, n) for n in range(3)) == 1000
    assert producer.send(name, b"x", "k7").result(WAIT_MS).partition in {d.partition for d in deliveries}
    with pytest.raises(UsageError, match="the value column 'value' is missing"):
        producer.send_arrow(name, table)


def test_refused_records_are_distinguished_from_others_of_their_batch(bootstrap, admin, name):
    admin.create_topics([NewTopic(name, 1, configs={"cleanup.policy": "compact"})])
    with kohort.Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        sent = [producer.send(name, b"v", key=key) for key in (b"a", None, b"b")]
        producer.flush(WAIT_MS)

    good, bad, _ = [str(one.exception()) for one in sent]
    assert "rejected with other records" in good
    assert "rejected with other records" not in bad
    assert end_of(admin, name) == 0


@pytest.mark.parametrize("what", [1, 1.5, {"a": 1}, object()])
def test_invalid_value_type_error_has_a_hint(producer, what):
    with pytest.raises(UsageError, match=r"value must be bytes, str or None, not \w+; encode it first"):
        producer.send("one", what)


def test_unknown_partition_is_rejected(admin, producer, name):
    admin.create_topics({name: 2})
    with pytest.raises(UsageError, match="partitions 0 to 1, not 2"):
        producer.send(name, b"x", partition=2)


def test_record_above_the_maximum_request_size_is_rejected(admin, producer):
    with pytest.raises(ApiError, match=r"exceeds max\.request\.size=1048576"):
        producer.send("one", bytes(2_000_000))


def test_invalid_topic_name_is_rejected_immediately(producer):
    with pytest.raises(ApiError) as caught:
        producer.send("no/good", b"x")
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_done_callback_gets_the_delivery(admin, producer, name):
    admin.create_topics({name: 1})
    deliveries, done = [], threading.Event()

    def callback(delivery):
        deliveries.append(delivery.result(0).offset)
        done.set()

    producer.send(name, b"x").add_done_callback(callback)

    assert done.wait(WAIT_S)
    assert deliveries == [0]


def test_waiting_inside_a_callback_raises_usage_error(admin, producer, name):
    admin.create_topics({name: 1})
    errors, done = [], threading.Event()

    def callback(_delivery):
        try:
            producer.flush()
        except UsageError as error:
            errors.append(str(error))
        done.set()

    producer.send(name, b"x").add_done_callback(callback)

    assert done.wait(WAIT_S)
    assert "would wait for itself" in errors[0]


def test_unreachable_address_is_named_in_the_error(nowhere):
    with kohort.Producer(bootstrap_servers=nowhere, max_block_ms=300) as producer, pytest.raises(ApiTimeout) as caught:
        producer.send("t", b"x")
    assert "topic 't'" in str(caught.value)
    assert nowhere in str(caught.value)
    with kohort.Admin(bootstrap_servers=nowhere) as admin, pytest.raises(ConnectionFailed, match=nowhere):
        admin.list_topics()


def test_full_buffer_blocks_send_until_its_timeout(bootstrap, admin, name):
    admin.create_topics({name: 1})
    options = {"buffer_memory": 2000, "linger_ms": 60_000, "batch_size": 100_000, "max_block_ms": 100}
    with kohort.Producer(bootstrap_servers=bootstrap, **options) as producer:
        know(producer, name)
        deliveries = [producer.send(name, bytes(1000)) for _ in range(2)]
        with pytest.raises(ApiTimeout, match=r"buffer\.memory=2000"):
            producer.send(name, bytes(1000))
        producer.flush(WAIT_MS)
        deliveries.append(producer.send(name, b"x"))
    assert [d.result(0).offset for d in deliveries] == [0, 1, 2]


def test_small_buffer_memory_carries_many_records(bootstrap, admin, name):
    admin.create_topics({name: 1})
    with kohort.Producer(bootstrap_servers=bootstrap, buffer_memory=50_000) as producer:
        for _ in range(2000):
            producer.send(name, bytes(500))
    assert end_of(admin, name) == 2000


def test_admin_results_have_errors_per_item(admin, producer, name):
    admin.create_topics({name: 2})
    know(producer, name)  # a broker of Kafka's learns of a topic from its controller, a moment later

    results = admin.describe_topics([name, "unknown"])

    assert len(results[name].partitions) == 2
    assert results.errors["unknown"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics({name: 2})
    assert not admin.create_topics({name: 2}, check=False).errors[name].retriable
    with pytest.raises(UsageError, match=rf"for one name pass \['{name}'\]"):
        admin.delete_topics(name)


def test_async_producer_and_admin(bootstrap, name):
    async def story():
        async with kohort.AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({name: 1})
            async with kohort.AsyncProducer(bootstrap_servers=bootstrap) as producer:
                deliveries = [await producer.send(name, f"{n}") for n in range(100)]
                places = await asyncio.gather(*(_await(delivery) for delivery in deliveries))
                with pytest.raises(UsageError):
                    await producer.send(name, b"x", partition=5)
            tp = TopicPartition(name, 0)
            return [place.offset for place in places], (await admin.list_offsets({tp: "latest"}))[tp].offset

    async def _await(delivery):
        return await delivery

    offsets, end = asyncio.run(story())

    assert offsets == list(range(100))
    assert end == 100


def test_async_send_arrow_sends_columns(bootstrap, admin, name):
    admin.create_topics({name: 3})
    table = pa.table({"key": ["a", "b", None] * 100, "value": [b"%d" % n for n in range(300)]})

    async def story() -> int:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(UsageError, match="the value column 'nothing' is missing"):
                await producer.send_arrow(name, table, value="nothing")
            deliveries = await producer.send_arrow(name, table)
            await producer.flush()
            return sum([(await d).offset + 1 for d in deliveries])

    assert asyncio.run(story()) == 300


def test_async_send_batch_and_send_prebuilt(bootstrap, admin, name):
    admin.create_topics({name: 2})
    whole = build_batch([NewRecord(b"k", b"v"), NewRecord(None, b"w")])

    async def story() -> tuple[int, int]:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap, buffer_memory=20_000) as producer:
            records = [b"value", ("key", "value"), ("key", None, {"h": b"1"}), (None, b"v", (), 99)] * 1000
            deliveries = await producer.send_batch(name, 0, records)
            prebuilt = await producer.send_prebuilt(name, 1, whole)
            for call in (producer.send_batch(name, 2, [b"x"]), producer.send_prebuilt(name, 2, whole)):
                with pytest.raises(UsageError, match="partitions 0 to 1, not 2"):
                    await call
            with pytest.raises(kohort.CorruptRecord):
                await producer.send_prebuilt(name, 1, b"not a batch")
            return max([(await d).offset for d in deliveries]), (await prebuilt).offset

    assert asyncio.run(story()) == (3999, 1)


def test_delete_records_before_an_offset_or_all_records(admin, producer, name):
    admin.create_topics({name: 2})
    for n in range(20):
        producer.send(name, b"%d" % n, partition=n % 2)
    producer.flush()
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    assert dict(admin.delete_records({first: 4, second: "latest"}).items()) == {first: 4, second: 10}

    starts = admin.list_offsets({first: "earliest", second: "earliest"})
    assert {tp: starts[tp].offset for tp in starts} == {first: 4, second: 10}
    with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({first: 11})
    nowhere = TopicPartition(name, 2)
    refused = admin.delete_records({nowhere: 1, first: 5}, check=False)
    assert (refused[first], refused.errors[nowhere].code) == (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with pytest.raises(UsageError, match=r"expected 'latest' or an offset .* not 'earliest'"):
        admin.delete_records({first: "earliest"})


@pytest.mark.ours
def test_clients_survive_a_broker_restart(tmp_path):
    with kohort.Broker(data_dir=tmp_path) as first:
        port = first.port
        producer = kohort.Producer(bootstrap_servers=first.bootstrap)
        assert producer.send("kept", b"a").result(WAIT_MS).offset == 0
    delivery = producer.send("kept", b"b")
    with kohort.Broker(data_dir=tmp_path, listen=f"127.0.0.1:{port}"):
        assert delivery.result(WAIT_MS).offset == 1
        producer.close()


def test_failing_callback_does_not_affect_other_deliveries(admin, producer, caplog, name):
    admin.create_topics({name: 1})
    delivery = producer.send(name, b"x")
    delivery.add_done_callback(lambda _delivery: 1 / 0)

    assert delivery.result(WAIT_MS).offset == 0
    assert producer.send(name, b"y").result(WAIT_MS).offset == 1
    assert "a delivery callback failed" in caplog.text


def test_exit_of_the_process_delivers_buffered_records(bootstrap, admin, name):
    admin.create_topics({name: 1})
    script = (
        "import kohort\n"
        f"producer = kohort.Producer(bootstrap_servers={bootstrap!r}, linger_ms=60_000)\n"
        f"producer.send({name!r}, b'x', partition=0)\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=3 * WAIT_S)

    assert end_of(admin, name) == 1


def test_garbage_collected_producer_delivers_its_records_with_a_warning(bootstrap, admin, name):
    admin.create_topics({name: 1})
    producers = [kohort.Producer(bootstrap_servers=bootstrap, linger_ms=60_000)]
    delivery = producers[0].send(name, b"x", partition=0)
    with pytest.warns(ResourceWarning, match="a Producer was dropped without close"):
        producers.clear()
    assert delivery.result(WAIT_MS).offset == 0


def test_producer_collected_at_exit_delivers_its_records(bootstrap, admin, name):
    admin.create_topics({name: 1})
    script = (
        "import kohort\n"
        "def leave():\n"
        f"    producer = kohort.Producer(bootstrap_servers={bootstrap!r}, linger_ms=60_000)\n"
        f"    producer.send({name!r}, b'x', partition=0)\n"
        "leave()\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=3 * WAIT_S)

    assert end_of(admin, name) == 1


def _in_child(bootstrap, topic, inherited, results):
    try:
        inherited.flush(1000)
    except UsageError as error:
        results.put(str(error))
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        results.put(producer.send(topic, b"child").result(WAIT_MS).topic)


def test_child_process_gets_its_own_io_thread(bootstrap, producer, name):
    producer.send(name, b"parent").result(WAIT_MS)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(bootstrap, name, producer, results))
    child.start()

    assert "created before fork()" in results.get(timeout=WAIT_S)
    assert results.get(timeout=WAIT_S) == name
    child.join(WAIT_S)
    assert child.exitcode == 0
    assert io_thread() is io_thread()


def _refusals(inherited, delivery, results):
    uses = {
        "send": lambda: inherited[0].send("t", b"x"),
        "send_batch": lambda: inherited[0].send_batch("t", 0, [b"x"]),
        "flush": lambda: inherited[0].flush(1000),
        "result": lambda: delivery.result(1000),
        "poll": lambda: inherited[1].poll(0),
        "list_topics": inherited[2].list_topics,
    }
    for name, use in uses.items():
        try:
            results.put((name, use()))
        except UsageError as error:
            results.put((name, str(error)))
    for client in inherited:
        client.close()  # the parent owns the client: no effect
    results.put("closed")


def test_inherited_producer_is_unusable_in_the_child_and_works_in_the_parent(bootstrap, admin, name):
    admin.create_topics({name: 1})
    with (
        kohort.Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer,  # the record waits during the fork
        kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(name, 0)])
        entered, done = threading.Event(), threading.Event()

        def hold() -> None:
            with producer._lock, consumer._lock:
                entered.set()
                done.wait(WAIT_S)

        delivery = producer.send(name, b"the parent's")
        holder = threading.Thread(target=hold)
        holder.start()
        entered.wait(WAIT_S)
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=_refusals, args=((producer, consumer, admin), delivery, results))
        child.start()
        done.set()
        holder.join()

        found = dict(results.get(timeout=WAIT_S) for _ in range(6))
        assert results.get(timeout=WAIT_S) == "closed"
        child.join(WAIT_S)
        assert all("created before fork()" in text for text in found.values()), found
        producer.flush(WAIT_MS)
        assert delivery.result(WAIT_MS).offset == 0
        assert [record.value for record in consumer.poll(10_000)] == [b"the parent's"]
