from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import kohort
from kohort import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, ConsumerGroup, GroupHandler, Producer
from kohort.client.consumer import CloseTimeout
from kohort.testing import StagedBroker
from support.waiting import eventually

UNREACHABLE = "127.0.0.1:1"
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
TLS_ALERT = bytes.fromhex("15030300020228")


@pytest.fixture
def stranger() -> Iterator[object]:
    sockets: list[socket.socket] = []

    def listen(says: bytes) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                    sockets.append(peer)
                    peer.recv(1000)
                    peer.sendall(says)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield listen
    for each in sockets:
        each.close()


def warned(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [r.message for r in caplog.records if r.name == logger and r.levelno == logging.WARNING]


def test_consumer_warns_of_an_unreachable_broker_immediately(caplog: pytest.LogCaptureFixture):
    with Consumer(bootstrap_servers=UNREACHABLE, group_id="g") as consumer:
        consumer.subscribe("orders")
        assert consumer.poll(500) == []
        assert consumer.poll(500) == []

    assert warned(caplog, "kohort.consumer") == [
        "no broker at 127.0.0.1:1: Connection refused; retrying",
    ]


def test_waiting_poll_warns_of_an_unreachable_broker(caplog: pytest.LogCaptureFixture):
    with Consumer(bootstrap_servers=UNREACHABLE, group_id="g") as consumer:
        consumer.subscribe("orders")

        def wait() -> None:
            with pytest.raises(kohort.Wakeup):
                consumer.poll(600_000)

        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: warned(caplog, "kohort.consumer"), "nobody was told that there is no broker")
        consumer.wakeup()
        waiting.join()


def test_async_consumer_warns_of_an_unreachable_broker_immediately(caplog: pytest.LogCaptureFixture):
    async def read() -> None:
        async with AsyncConsumer(bootstrap_servers="no-such-host.invalid:9092", group_id="g") as consumer:
            consumer.subscribe("orders")
            while not warned(caplog, "kohort.consumer"):
                await consumer.poll(100)

    asyncio.run(read())
    assert warned(caplog, "kohort.consumer")[0].startswith("no broker at no-such-host.invalid:9092: ")


def test_producer_warns_of_an_unreachable_broker_immediately(caplog: pytest.LogCaptureFixture):
    words = r"127\.0\.0\.1:1 \(Connection refused\)"
    with (
        Producer(bootstrap_servers=UNREACHABLE, max_block_ms=500) as producer,
        pytest.raises(kohort.ApiTimeout, match=words),
    ):
        producer.send("orders", b"v")

    assert warned(caplog, "kohort.producer") == ["no broker at 127.0.0.1:1: Connection refused; retrying"]


def test_returning_broker_is_logged(caplog: pytest.LogCaptureFixture, tmp_path):
    caplog.set_level(logging.INFO, "kohort.consumer")
    first = kohort.Broker(data_dir=tmp_path)
    first.start()
    port = first.port
    with Consumer(bootstrap_servers=first.bootstrap, group_id="g") as consumer:
        consumer.subscribe("orders")
        while not consumer.assignment():
            consumer.poll(100)
        first.stop()
        while not warned(caplog, "kohort.consumer"):
            consumer.poll(100)
        with kohort.Broker(data_dir=tmp_path, listen=f"127.0.0.1:{port}"):
            message = f"127.0.0.1:{port} is connected again, after "
            while not any(r.message.startswith(message) for r in caplog.records if r.levelno == logging.INFO):
                consumer.poll(100)


@pytest.mark.parametrize(("says", "words"), [(HTTP, "it answers in HTTP"), (TLS_ALERT, "it answers in TLS")])
def test_every_client_names_a_server_that_is_not_kafka(stranger, says: bytes, words: str):
    address = stranger(says)
    with Admin(bootstrap_servers=address) as admin, pytest.raises(kohort.NotKafka, match=words):
        admin.list_topics()
    with Producer(bootstrap_servers=address) as producer, pytest.raises(kohort.NotKafka, match=words):
        producer.send("orders", b"v")
    with Consumer(bootstrap_servers=address, group_id="g") as consumer:
        consumer.subscribe("orders")
        with pytest.raises(kohort.NotKafka, match=words):
            consumer.poll(60_000)
        with pytest.raises(kohort.NotKafka, match=words):
            consumer.committed([kohort.TopicPartition("orders", 0)])

    async def each() -> None:
        async with AsyncAdmin(bootstrap_servers=address) as admin:
            with pytest.raises(kohort.NotKafka, match=words):
                await admin.list_topics()
        async with AsyncProducer(bootstrap_servers=address) as producer:
            with pytest.raises(kohort.NotKafka, match=words):
                await producer.send("orders", b"v")
        async with AsyncConsumer(bootstrap_servers=address, group_id="g") as consumer:
            consumer.subscribe("orders")
            with pytest.raises(kohort.NotKafka, match=words):
                await consumer.getone()

    asyncio.run(each())


def test_transactional_producer_timeout_names_the_cause(stranger):
    with (
        Producer(bootstrap_servers=stranger(HTTP), transactional_id="t") as producer,
        pytest.raises(kohort.ApiTimeout, match=r"failed so far: .*it answers in HTTP"),
    ):
        producer.init_transactions(timeout_ms=500)


def test_timeout_names_a_silent_listener(stranger):
    address = stranger(b"")
    words = r"connected, but ApiVersions was not answered within \d+ ms"
    with Admin(bootstrap_servers=address) as admin, pytest.raises(kohort.ApiTimeout, match=words):
        admin.list_topics(timeout_ms=300)
    with Producer(bootstrap_servers=address, max_block_ms=300) as producer:  # noqa: SIM117 - its end is not awaited
        with pytest.raises(kohort.ApiTimeout, match=words):
            producer.send("orders", b"v")


# The end


@pytest.fixture
def an_hour_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CloseTimeout.__init__.__kwdefaults__, "most_ms", 3_600_000)


@pytest.mark.usefixtures("an_hour_to_close")
def test_close_of_a_member_does_not_wait_for_a_stopped_broker():
    with kohort.Broker() as broker:
        consumer = Consumer(bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest")
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"v").result()
        consumer.subscribe("orders")
        while not consumer.poll(1000):
            pass
    consumer.close()
    Consumer(bootstrap_servers=UNREACHABLE, group_id="g").close()


@pytest.mark.usefixtures("an_hour_to_close")
def test_close_of_an_async_member_does_not_wait_for_a_stopped_broker():
    async def use() -> None:
        broker = kohort.Broker()
        broker.start()
        consumer = AsyncConsumer(bootstrap_servers=broker.bootstrap, group_id="g")
        consumer.subscribe("orders")
        while not consumer.assignment():
            await consumer.poll(100)
        broker.stop()
        await consumer.close()

    asyncio.run(use())


@pytest.mark.usefixtures("an_hour_to_close")
def test_consumer_group_closes_without_last_commit_at_a_stopped_broker():
    broker = kohort.Broker()
    broker.start()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"v").result()

    class ReadingHandler(GroupHandler):
        def consume_claim(self, session, claim):
            for record in claim:
                session.mark_message(record)
                broker.stop()
                group.stop()

    with ConsumerGroup(
        bootstrap_servers=broker.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        default_api_timeout_ms=3_600_000,
    ) as group:
        group.run("orders", ReadingHandler())


CLOSE_WAITS_AN_HOUR = """
from kohort.client.consumer import CloseTimeout

CloseTimeout.__init__.__kwdefaults__["most_ms"] = 3_600_000
"""
PROGRAM = """
import sys
from kohort import Consumer

with Consumer(bootstrap_servers=sys.argv[1], group_id="g", client_id="patient", heartbeat_interval_ms=200) as consumer:
    consumer.subscribe("orders")
    while True:
        consumer.poll(100)
"""
COMMAND = """
import sys
from kohort.cli.main import main

main(["consume", "orders", "--group", "g", "--bootstrap", sys.argv[1], "--set", "client.id=patient",
      "--set", "heartbeat.interval.ms=200"])
"""


@pytest.mark.parametrize("program", [PROGRAM, COMMAND])
def test_second_interrupt_ends_the_wait_for_a_silent_broker(program: str):
    with StagedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"v").result()
        broker.hold("LeaveGroup")
        command = [sys.executable, "-c", CLOSE_WAITS_AN_HOUR + program, broker.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            broker.wait_for("Heartbeat", client_id="patient", timeout_ms=60_000)
            process.send_signal(signal.SIGINT)
            broker.wait_for("LeaveGroup", client_id="patient", timeout_ms=60_000)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) != 0
