"""Consumers: records per second of kohort's four faces, confluent-kafka, aiokafka and kafka-python.

All read the same topic from the same kohort broker (its own process), one after the other. A reader is timed from the
end of its warm-up to its last record, without joining and loading kernels; the broker's processor time is reported too.
``loopback`` is the upper bound: it receives as many bytes from a process that only sends, and does not inspect them::

    python bench/bench_consumer.py [--records 2000000] [--bytes 200] [--partitions 6] [--only kohort.poll] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue

from serving import cpu_of, served_broker

import kohort
from kohort.wire.record_batch import NewRecord, build_batch

TOPIC = "bench"
PER_BATCH = 400
PIECE_BYTES = 1 << 20
GIVE_UP_S = 30.0
BEGIN = {"auto_offset_reset": "earliest"}
Reader = Callable[[str], Iterator[int]]
"""Reader of the topic at a broker address: yields the numbers of received records."""


def kohort_poll(address: str) -> Iterator[int]:
    with kohort.Consumer(bootstrap_servers=address, group_id="kohort.poll", **BEGIN) as consumer:
        consumer.subscribe(TOPIC)
        while True:
            yield len(consumer.poll(1000, max_records=5000))


def kohort_iterate(address: str) -> Iterator[int]:
    with kohort.Consumer(bootstrap_servers=address, group_id="kohort.iterate", **BEGIN) as consumer:
        consumer.subscribe(TOPIC)
        for n, _record in enumerate(consumer, 1):
            if n % PER_BATCH == 0:  # the total is a multiple
                yield PER_BATCH


def kohort_arrow(address: str) -> Iterator[int]:
    with kohort.Consumer(bootstrap_servers=address, group_id="kohort.arrow", **BEGIN) as consumer:
        consumer.subscribe(TOPIC)
        while True:
            yield consumer.poll_arrow(1000).num_rows


def kohort_group(address: str) -> Iterator[int]:
    """Read by handlers: a thread per partition, every record is marked."""
    counts: SimpleQueue[int] = SimpleQueue()

    class Handler(kohort.GroupHandler):
        def consume_claim(self, session: kohort.GroupSession, claim: kohort.Claim) -> None:
            for n, record in enumerate(claim, 1):
                session.mark_message(record)
                if n % PER_BATCH == 0:
                    counts.put(PER_BATCH)

    group = kohort.ConsumerGroup(bootstrap_servers=address, group_id="kohort.group", **BEGIN)
    threading.Thread(target=group.run, args=(TOPIC, Handler()), daemon=True).start()
    try:
        while True:
            yield counts.get()
    finally:
        group.close()


def confluent_consume(address: str, **options: int) -> Iterator[int]:
    """With its defaults librdkafka pauses for a second after 100,000 queued messages (fetch.queue.backoff.ms)."""
    from confluent_kafka import Consumer

    group = "confluent-tuned" if options else "confluent"
    names = {name.replace("_", "."): value for name, value in options.items()}
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", **names})
    consumer.subscribe([TOPIC])
    try:
        while True:
            messages = consumer.consume(num_messages=5000, timeout=0.1)
            yield sum(1 for m in messages if m.value() is not None)
    finally:
        consumer.close()


def kafka_python_poll(address: str) -> Iterator[int]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(TOPIC, bootstrap_servers=address, group_id="kafka-python", auto_offset_reset="earliest")
    try:
        while True:
            yield sum(map(len, consumer.poll(timeout_ms=1000, max_records=5000).values()))
    finally:
        consumer.close()


def aiokafka_getmany(address: str) -> Iterator[int]:
    from aiokafka import AIOKafkaConsumer

    loop = asyncio.new_event_loop()

    async def make() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=address, group_id="aiokafka", auto_offset_reset="earliest")
        await consumer.start()
        return consumer

    consumer = loop.run_until_complete(make())
    try:
        while True:
            got = loop.run_until_complete(consumer.getmany(timeout_ms=1000, max_records=5000))
            yield sum(map(len, got.values()))
    finally:
        loop.run_until_complete(consumer.stop())
        loop.close()


READERS: dict[str, Reader] = {
    "kohort.poll_arrow": kohort_arrow,
    "kohort.poll": kohort_poll,
    "kohort.iterate": kohort_iterate,
    "kohort.group": kohort_group,
    "confluent-kafka.consume": confluent_consume,
    "confluent-kafka, tuned": partial(
        confluent_consume,
        fetch_queue_backoff_ms=0,
        queued_min_messages=1_000_000,
        queued_max_messages_kbytes=1 << 20,
    ),
    "aiokafka.getmany": aiokafka_getmany,
    "kafka-python.poll": kafka_python_poll,
}


def loopback(batch_bytes: int, batches: int) -> Reader:
    """Receive as many bytes as ``batches`` batches, in pieces as large as fetches."""

    def receive(_address: str) -> Iterator[int]:
        piece = memoryview(bytearray(PIECE_BYTES))
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            sender = subprocess.Popen([sys.executable, __file__, "--send", f"{port}:{batch_bytes * batches}"])
            peer, _ = server.accept()
        got = 0
        try:
            while size := peer.recv_into(piece):
                before, got = got // batch_bytes, got + size
                yield (got // batch_bytes - before) * PER_BATCH
        finally:
            peer.close()
            sender.wait()

    return receive


def send(port: int, size: int) -> None:
    """Send bytes to ``loopback`` in place of a broker."""
    piece = bytes(PIECE_BYTES)
    try:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            while size > 0:
                peer.sendall(piece[:size] if size < PIECE_BYTES else piece)
                size -= PIECE_BYTES
    except ConnectionError:
        pass  # the reader is finished


def measure(
    reader: Reader, address: str, total: int, most_s: float, *, warm_up: int, broker_pid: int
) -> dict[str, float]:
    """Measure the records per second from the end of the warm-up to the last record."""
    records = 0
    broker = cpu_of(broker_pid)
    started = first = last = time.perf_counter()
    source = reader(address)
    cpu = time.process_time()
    base = 0
    for count in source:
        now = time.perf_counter()
        records += count
        if count and not base and records > warm_up:
            first, base, cpu, broker = now, records, time.process_time(), cpu_of(broker_pid)
        if count:
            last = now
        if records >= total or now - started > GIVE_UP_S or (base and now - first > most_s):
            break
    cpu, broker = time.process_time() - cpu, cpu_of(broker_pid) - broker
    source.close()  # type: ignore[attr-defined]  # a generator
    took = max(last - first, 1e-9)
    counted = records - base if base else 0
    return {
        "records": records,
        "seconds": round(took, 3),
        "records_per_s": round(counted / took),
        "cpu_seconds": round(cpu, 3),
        "records_per_cpu_s": round(counted / max(cpu, 1e-9)),
        "broker_cpu_seconds": round(broker, 3),
    }


def fill(address: str, records: int, size: int, partitions: int) -> int:
    """Fill the topic with batches as of a busy producer; return their size in bytes."""
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({TOPIC: partitions})
    now_ms = time.time_ns() // 1_000_000
    values = [NewRecord(b"%08d" % n, bytes(size), (), now_ms) for n in range(PER_BATCH)]
    batch = build_batch(values)
    with kohort.Producer(bootstrap_servers=address) as producer:
        for n in range(records // PER_BATCH):
            producer.send_prebuilt(TOPIC, n % partitions, batch)
        producer.flush()
    return len(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--warm-up", type=int, default=250_000, help="warm-up records of each reader")
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of each reader in seconds")
    parser.add_argument("--only", action="append", choices=[*READERS, "loopback"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--send", metavar="PORT:BYTES", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send:
        send(*map(int, arguments.send.split(":")))
        return
    total = arguments.records // PER_BATCH * PER_BATCH
    results: dict[str, dict[str, float]] = {}
    with served_broker() as broker:
        batch_bytes = fill(broker.address, total, arguments.bytes, arguments.partitions)
        readers = {**READERS, "loopback": loopback(batch_bytes, total // PER_BATCH)}
        for name in arguments.only or readers:
            found = results[name] = measure(
                readers[name],
                broker.address,
                total,
                arguments.seconds,
                warm_up=arguments.warm_up,
                broker_pid=broker.pid,
            )
            if not arguments.json:
                rate, by_cpu = found["records_per_s"] / 1e6, found["records_per_cpu_s"] / 1e6
                print(f"{name:26} {rate:7.2f} M records/s {by_cpu:7.2f} M per second of its own CPU  {found}")
    if arguments.json:
        facts = {"records": total, "bytes": arguments.bytes, "partitions": arguments.partitions}
        print(json.dumps({**facts, "python": platform.python_version(), "results": results}))


if __name__ == "__main__":
    main()
