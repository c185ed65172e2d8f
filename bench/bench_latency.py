"""Latency from ``send`` to ``poll`` at a steady rate: kohort and confluent-kafka.

Both use the same kohort broker, in turn, in several rounds. A separate process produces a record every millisecond with
the same library, without lingering; each record contains its send time by the machine's clock. The result is the user's
latency: from ``send`` to the ``poll`` that returns the record::

    python bench/bench_latency.py [--rate 1000] [--seconds 5] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

from serving import cpu_of, served_broker

import kohort

TOPIC = "latency"
WARM_UP_S = 1.0
VALUE_BYTES = 100
Send = Callable[[bytes], None]


def kohort_values(address: str, group: str) -> Iterator[list[bytes]]:
    with kohort.Consumer(bootstrap_servers=address, group_id=group, auto_offset_reset="latest") as consumer:
        consumer.subscribe(TOPIC)
        while True:
            yield [record.value or b"" for record in consumer.poll(1000)]


def confluent_values(address: str, group: str) -> Iterator[list[bytes]]:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "latest"})
    consumer.subscribe([TOPIC])
    try:
        while True:
            message = consumer.poll(1.0)
            yield [message.value()] if message is not None and not message.error() else []
    finally:
        consumer.close()


def produce_kohort(address: str) -> Iterator[Send]:
    with kohort.Producer(bootstrap_servers=address, linger_ms=0) as producer:
        yield lambda value: producer.send(TOPIC, value) and None


def produce_confluent(address: str) -> Iterator[Send]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "enable.idempotence": True})

    def send(value: bytes) -> None:
        producer.produce(TOPIC, value)
        producer.poll(0)

    yield send
    producer.flush()


READERS = {"kohort": kohort_values, "confluent-kafka": confluent_values}
SENDERS = {"kohort": produce_kohort, "confluent-kafka": produce_confluent}


def produce(library: str, address: str, rate: float, seconds: float) -> None:
    """Send at ``rate`` as evenly as possible; a late record is sent at once."""
    senders = SENDERS[library](address)
    send = next(senders)
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        wait_s = began + number / rate - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        send(b"%020d" % time.perf_counter_ns() + bytes(VALUE_BYTES - 20))
    next(senders, None)


def measure(library: str, address: str, pid: int, group: str, rate: float, seconds: float) -> dict[str, float]:
    """Return the latencies in ms; the first second is warm-up."""
    values = READERS[library](address, group)
    while next(values):
        pass  # the consumer has joined at the end of the topic
    command = [sys.executable, __file__, "--produce", library, address, "--rate", str(rate)]
    sender = subprocess.Popen([*command, "--seconds", str(seconds + WARM_UP_S)])
    took: list[float] = []
    record_count = int(rate * (seconds + WARM_UP_S))
    broker, own = cpu_of(pid), time.process_time()
    while len(took) < record_count:
        got = next(values)
        now = time.perf_counter_ns()
        took += [(now - int(value[:20])) / 1e6 for value in got]
        if not got and sender.poll() is not None:
            break
    own, broker = time.process_time() - own, cpu_of(pid) - broker
    sender.wait()
    values.close()  # type: ignore[attr-defined]  # a generator
    counted = sorted(took[int(rate * WARM_UP_S) :])
    return {
        "records": len(counted),
        "median_ms": round(statistics.median(counted), 3),
        "p99_ms": round(counted[int(len(counted) * 0.99)], 3),
        "own_cpu_s": round(own, 2),
        "broker_cpu_s": round(broker, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1000.0, help="records per second")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--produce", nargs=2, metavar=("LIBRARY", "ADDRESS"), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.produce:
        library, address = arguments.produce
        produce(library, address, arguments.rate, arguments.seconds)
        return
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
    groups = count()
    with served_broker() as broker:
        with kohort.Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topics({TOPIC: 1})
        for _ in range(arguments.rounds):
            for name, found in rounds.items():
                group = f"latency-{next(groups)}"
                found.append(measure(name, broker.address, broker.pid, group, arguments.rate, arguments.seconds))
                if not arguments.json:
                    print(f"{name:16} {found[-1]}", flush=True)
    best = {name: min(found, key=lambda one: one["median_ms"]) for name, found in rounds.items()}
    if arguments.json:
        print(json.dumps({"rate": arguments.rate, "rounds": rounds, "best": best}))
        return
    for what in ("median_ms", "p99_ms"):
        ours, theirs = best["kohort"][what], best["confluent-kafka"][what]
        print(f"{what}: kohort {ours} ms, confluent-kafka {theirs} ms, {ours / theirs:.2f} of it")


if __name__ == "__main__":
    main()
