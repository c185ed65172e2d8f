"""Memory of a consumer with a large backlog: its peak resident size, and its growth.

A topic of ``--megabytes`` on a broker with its data on disk. Each reader is a separate process that reads the topic,
quickly or slowly, and samples its resident size after every poll; ``flat_mb`` is the growth from the middle third of
the samples to the last third::

    python bench/bench_memory.py [--megabytes 1000] [--bytes 1000] [--slow-s 15] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from serving import resident_mb, served_broker

import kohort
from kohort.wire.record_batch import NewRecord, build_batch

TOPIC = "backlog"
PARTITIONS = 6
PER_BATCH = 100
SLOW_POLL_S = 0.05


def kohort_poll(address: str) -> Iterator[int]:
    with kohort.Consumer(
        bootstrap_servers=address, group_id=f"records-{os.getpid()}", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(TOPIC)
        while True:
            yield len(consumer.poll(1000, max_records=5000))


def kohort_arrow(address: str) -> Iterator[int]:
    with kohort.Consumer(
        bootstrap_servers=address, group_id=f"arrow-{os.getpid()}", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(TOPIC)
        while True:
            yield consumer.poll_arrow(1000).num_rows


def confluent_consume(address: str) -> Iterator[int]:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": f"confluent-{os.getpid()}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    try:
        while True:
            yield len(consumer.consume(num_messages=5000, timeout=0.1))
    finally:
        consumer.close()


READERS: dict[str, Callable[[str], Iterator[int]]] = {
    "kohort.poll": kohort_poll,
    "kohort.poll_arrow": kohort_arrow,
    "confluent-kafka.consume": confluent_consume,
}


def read(name: str, address: str, total: int, slow_s: float) -> dict[str, float]:
    """Read the whole topic, or for ``slow_s`` seconds with a pause after each poll."""
    began, records, sizes = time.perf_counter(), 0, []
    source = READERS[name](address)
    for count in source:
        records += count
        if count:
            sizes.append(resident_mb())
        took = time.perf_counter() - began
        if records >= total or (slow_s and took > slow_s):
            break
        if slow_s:
            time.sleep(SLOW_POLL_S)
    source.close()  # type: ignore[attr-defined]  # a generator
    third = len(sizes) // 3
    return {
        "records": records,
        "seconds": round(took, 1),
        "highest_mb": round(max(sizes)),
        "flat_mb": round(max(sizes[-third:]) - max(sizes[third:-third]), 1) if third else 0.0,
    }


def fill(address: str, records: int, size: int) -> None:
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({TOPIC: PARTITIONS})
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([NewRecord(b"%08d" % n, bytes(size), (), now_ms) for n in range(PER_BATCH)])
    with kohort.Producer(bootstrap_servers=address) as producer:
        for n in range(records // PER_BATCH):
            producer.send_prebuilt(TOPIC, n % PARTITIONS, batch)
        producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=1000, help="size of a record's value in bytes")
    parser.add_argument("--slow-s", type=float, default=15.0, help="duration of the slow readers in seconds")
    parser.add_argument("--read", nargs=2, metavar=("READER", "ADDRESS"), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    total = arguments.megabytes * 1_000_000 // arguments.bytes // PER_BATCH * PER_BATCH
    if arguments.read:
        reader, address = arguments.read
        print(json.dumps(read(reader, address, total, arguments.slow_s)))
        return
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, served_broker(Path(folder)) as broker:
        fill(broker.address, total, arguments.bytes)
        for name in READERS:
            for slow_s in (0.0, arguments.slow_s):
                command = [sys.executable, __file__, "--read", name, broker.address, "--slow-s", str(slow_s)]
                command += ["--megabytes", str(arguments.megabytes), "--bytes", str(arguments.bytes)]
                what = f"{name}{', slowly' if slow_s else ''}"
                results[what] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                if not arguments.json:
                    print(f"{what:34} {results[what]}", flush=True)
        results["broker"] = {"resident_mb": round(resident_mb(broker.pid))}
    print(json.dumps(results) if arguments.json else f"the broker: {results['broker']['resident_mb']} MB")


if __name__ == "__main__":
    main()
