"""Producers: records per second into one broker with kohort, confluent-kafka and kafka-python.

    python bench/bench_producer.py --records 200000 --size 200 --json

Every producer sends the same records to the same kohort broker (a separate process, in memory) in the same run, keyed
over six partitions, idempotent, with its other defaults. ``wall`` is the user's time; ``cpu`` is the processor time of
producer and broker together, which is comparable on busy machines.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PARTITIONS = 6
THREADS = 4
SERVE = """
import sys, kohort
with kohort.Broker(num_partitions={partitions}) as broker:
    print(broker.bootstrap, flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Result:
    client: str
    records: int
    wall_s: float
    client_cpu_s: float
    broker_cpu_s: float

    @property
    def per_wall_s(self) -> float:
        return self.records / self.wall_s

    @property
    def per_cpu_s(self) -> float:
        return self.records / (self.client_cpu_s + self.broker_cpu_s)


@contextlib.contextmanager
def served() -> Iterator[tuple[str, int]]:
    """A kohort broker in a process of its own: its address and its process id."""
    command = [sys.executable, "-c", SERVE.format(partitions=PARTITIONS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.stdin.close()
            process.wait(20)


def with_kohort(bootstrap: str, topic: str, keys: list[bytes], value: bytes, records: int) -> None:
    import kohort

    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        send, count = producer.send, len(keys)
        for n in range(records):
            last = send(topic, value, keys[n % count])
        producer.flush()
        last.result(0)


def with_kohort_batches(bootstrap: str, topic: str, keys: list[bytes], value: bytes, records: int) -> None:
    import kohort

    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        pairs = [(key, value) for key in keys]
        for n in range(records // len(pairs)):
            producer.send_batch(topic, n % PARTITIONS, pairs)
        producer.flush()


def with_confluent(bootstrap: str, topic: str, keys: list[bytes], value: bytes, records: int) -> None:
    from confluent_kafka import Producer

    options = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "partitioner": "murmur2_random"}
    producer = Producer(options)
    count = len(keys)
    for n in range(records):
        while True:
            try:
                producer.produce(topic, value, keys[n % count])
                break
            except BufferError:
                producer.poll(0.05)
        if not n % 1000:
            producer.poll(0)
    assert producer.flush(60) == 0


def in_threads(send: Callable[[bytes, bytes], object], keys: list[bytes], value: bytes, records: int) -> None:
    """Several threads share one producer."""

    def work() -> None:
        for n in range(records // THREADS):
            send(value, keys[n % len(keys)])

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def with_kohort_threads(bootstrap: str, topic: str, keys: list[bytes], value: bytes, records: int) -> None:
    import kohort

    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        in_threads(functools.partial(producer.send, topic), keys, value, records)
        producer.flush()


def with_confluent_threads(bootstrap: str, topic: str, keys: list[bytes], value: bytes, records: int) -> None:
    from confluent_kafka import Producer

    options = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "partitioner": "murmur2_random"}
    producer = Producer(options)

    def send(value: bytes, key: bytes) -> None:
        while True:
            try:
                producer.produce(topic, value, key)
            except BufferError:
                producer.poll(0.05)
            else:
                return

    in_threads(send, keys, value, records)
    assert producer.flush(60) == 0


def with_kafka_python(bootstrap: str, topic: str, keys: list[bytes], value: bytes, records: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    count = len(keys)
    for n in range(records):
        producer.send(topic, value, keys[n % count])
    producer.flush(60)
    producer.close()


CLIENTS: dict[str, Callable[[str, str, list[bytes], bytes, int], None]] = {
    "kohort": with_kohort,
    "kohort threads": with_kohort_threads,
    "kohort send_batch": with_kohort_batches,
    "confluent-kafka": with_confluent,
    "confluent-kafka threads": with_confluent_threads,
    "kafka-python": with_kafka_python,
}


def cpu_of(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(name: str, bootstrap: str, broker_pid: int, records: int, size: int) -> Result:
    keys = [b"key-%05d" % n for n in range(1000)]
    run = CLIENTS[name]
    topic = name.replace(" ", "-")
    run(bootstrap, topic, keys, bytes(size), len(keys))  # imports, the topic, the first connection
    wall, cpu, broker = time.perf_counter(), own_cpu(), cpu_of(broker_pid)
    run(bootstrap, topic, keys, bytes(size), records)
    return Result(name, records, time.perf_counter() - wall, own_cpu() - cpu, cpu_of(broker_pid) - broker)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=200, help="size of a value in bytes")
    parser.add_argument("--clients", nargs="*", default=list(CLIENTS), choices=list(CLIENTS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with served() as (bootstrap, pid):
        results = [measure(name, bootstrap, pid, options.records, options.size) for name in options.clients]
    if options.json:
        rows = [asdict(r) | {"per_wall_s": round(r.per_wall_s), "per_cpu_s": round(r.per_cpu_s)} for r in results]
        print(json.dumps({"size": options.size, "results": rows}, indent=2))
        return
    print(f"{'client':<24}{'records/s':>12}{'per cpu-s':>12}{'client cpu':>12}{'broker cpu':>12}")
    for r in results:
        print(
            f"{r.client:<24}{r.per_wall_s:>12,.0f}{r.per_cpu_s:>12,.0f}{r.client_cpu_s:>12.2f}{r.broker_cpu_s:>12.2f}"
        )


if __name__ == "__main__":
    main()
