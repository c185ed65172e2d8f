"""Latency from a producer through a Spark query into another topic, in ms, at a steady rate.

    python bench/bench_spark_latency.py [--rate 2000] [--seconds 30] [--connector DIR] [--json]

A producer sends ``--rate`` records per second, each with its time; a stream with source and sink of the same format
copies them, in micro-batches without a pause; a consumer compares the times. The first ten seconds of the query do not
count. ``--connector``: as in bench_spark.py.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from typing import Any

from serving import served_broker
from sparking import arguments, bench_session, report

import kohort

WARM_S = 10.0
STARTS_S = 120.0
PER_SEND_S = 0.01


def produce(address: str, topic: str, rate: int, stopped: threading.Event) -> None:
    per_send = max(1, round(rate * PER_SEND_S))
    began, sent = time.monotonic(), 0
    with kohort.Producer(bootstrap_servers=address, linger_ms=5) as producer:
        while not stopped.wait(max(0.0, began + sent / rate - time.monotonic())):
            for _ in range(per_send):
                producer.send(topic, b"%d" % time.time_ns() + b"x" * 180)
            sent += per_send


def copied(spark: Any, form: str, address: str, checkpoint: str) -> Any:
    source = {"kafka.bootstrap.servers": address, "subscribe": f"in-{form}", "startingOffsets": "latest"}
    frame = spark.readStream.format(form).options(**source).load().select("key", "value")
    sink = frame.writeStream.format(form).options(**{"kafka.bootstrap.servers": address, "topic": f"out-{form}"})
    return sink.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()


def watch(address: str, topic: str, seconds: float) -> list[float]:
    """Return the latency of each record in ms."""
    found: list[float] = []
    counts_from = 0.0
    gives_up = time.monotonic() + STARTS_S
    options = {"auto.offset.reset": "earliest", "fetch.max.wait.ms": 5, "isolation.level": "read_committed"}
    with kohort.Consumer({"bootstrap.servers": address, **options}) as consumer:
        consumer.assign([kohort.TopicPartition(topic, 0)])
        while not counts_from or time.monotonic() < counts_from + seconds:
            records = consumer.poll(200)
            now = time.time_ns()
            if records and not counts_from:
                counts_from = time.monotonic() + WARM_S
            if counts_from and time.monotonic() >= counts_from:
                found += [(now - int((r.value or b"0")[:19])) / 1e6 for r in records]
            if not counts_from and time.monotonic() > gives_up:
                raise TimeoutError(f"no record arrived in {topic} within {STARTS_S:.0f} s")
    return sorted(found)


def latency(spark: Any, form: str, address: str, rate: int, seconds: float) -> dict[str, float]:
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({f"in-{form}": 1, f"out-{form}": 1})
    stopped = threading.Event()
    sender = threading.Thread(target=produce, args=(address, f"in-{form}", rate, stopped))
    with tempfile.TemporaryDirectory() as checkpoint:
        query = copied(spark, form, address, checkpoint)
        sender.start()
        try:
            found = watch(address, f"out-{form}", seconds)
        finally:
            stopped.set()
            sender.join()
            query.stop()
        batches = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]
    return {
        "median_ms": round(statistics.median(found), 1),
        "p99_ms": round(found[int(len(found) * 0.99)], 1),
        "records": len(found),
        "median_batch_ms": statistics.median(batches),
    }


def main() -> None:
    options = arguments(__doc__, rate=2_000, seconds=30).parse_args()
    with served_broker() as broker:
        spark, forms = bench_session(options.connector)
        found = {form: latency(spark, form, broker.address, options.rate, options.seconds) for form in forms}
        spark.stop()
    report({f"{form} to {form}, {options.rate} records/s": took for form, took in found.items()}, options)


if __name__ == "__main__":
    main()
