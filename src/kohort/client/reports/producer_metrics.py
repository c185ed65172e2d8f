"""The metrics of a producer, by the names of Kafka's Java producer; and those of an admin client, which has no others
than every client has."""

from __future__ import annotations

from typing import Final

from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics.samples import together
from kohort.client.producer import ProducerMachine
from kohort.client.reports.every_client import (
    of_api,
    put_engine,
    put_errors,
    put_meter,
    put_spread,
    put_throttle,
    seconds_ago,
)
from kohort.client.requests.engine import Engine
from kohort.wire.messages.produce import ProduceRequest

PRODUCER: Final = "producer-metrics"
TOPICS: Final = "producer-topic-metrics"
BLOCKED: Final = {
    "buffer": "bufferpool-wait-time-ns-total",
    "metadata": "metadata-wait-time-ns-total",
    "flush": "flush-time-ns-total",
    "init_transactions()": "txn-init-time-ns-total",
    "send_offsets_to_transaction()": "txn-send-offsets-time-ns-total",
    "commit_transaction()": "txn-commit-time-ns-total",
    "abort_transaction()": "txn-abort-time-ns-total",
}
"""Calls that wait, and the metric of how long."""


def producer_metrics(machine: ProducerMachine, now_ms: int) -> MetricsSnapshot:
    """Return what a producer knows of itself now."""
    found = MetricsSnapshot("producer", machine.config.client_id, now_ms)
    counted = machine.sender.metrics
    put_engine(found, machine.engine, now_ms)
    put_errors(found, (machine.engine.metrics, counted))
    topics = list(counted.topics.items())
    sent = together(of_topic.records.reading(now_ms) for _, of_topic in topics)
    size = together(of_topic.bytes.reading(now_ms) for _, of_topic in topics)
    compression = together(of_topic.compression.reading(now_ms) for _, of_topic in topics)
    put_meter(found, PRODUCER, "record-send", sent)
    put_spread(found, PRODUCER, "batch-size", size)
    found.put(PRODUCER, "record-size-avg", size.sum / sent.sum if sent.sum else float("nan"))
    put_spread(found, PRODUCER, "record-queue-time", counted.queue_ms.reading(now_ms))
    found.put(PRODUCER, "compression-rate-avg", compression.average)
    found.put(PRODUCER, "records-per-request-avg", counted.requests.reading(now_ms).average)
    put_meter(found, PRODUCER, "record-retry", together(t.retried.reading(now_ms) for _, t in topics))
    put_meter(found, PRODUCER, "record-error", together(t.lost.reading(now_ms) for _, t in topics))
    put_meter(found, PRODUCER, "batch-split", counted.splits.reading(now_ms))
    put_meter(found, PRODUCER, "buffer-exhausted", counted.no_room.reading(now_ms))
    put_spread(found, PRODUCER, "request-latency", of_api(machine.engine, ProduceRequest, now_ms))
    if ProduceRequest in machine.engine.metrics.apis:
        put_throttle(found, PRODUCER, "produce-throttle-time", machine.engine.metrics.apis[ProduceRequest], now_ms)
    found.put(PRODUCER, "requests-in-flight", float(sum(len(c.in_flight) for c in machine.engine.connections)))
    found.put(PRODUCER, "buffer-total-bytes", machine.config.buffer_memory)
    found.put(PRODUCER, "metadata-age", seconds_ago(machine.metadata.answered_at_ms, now_ms))
    free = machine.config.buffer_memory - machine.accumulator.buffered_bytes
    found.put(PRODUCER, "buffer-available-bytes", float(max(free, 0)))
    for what, name in BLOCKED.items():
        found.put(PRODUCER, name, counted.blocked_ms[what] * 1e6)
    for topic, of_topic in topics:
        tags = {"topic": topic}
        put_meter(found, TOPICS, "record-send", of_topic.records.reading(now_ms), tags)
        put_meter(found, TOPICS, "byte", of_topic.bytes.reading(now_ms), tags)
        found.put(TOPICS, "compression-rate", of_topic.compression.reading(now_ms).average, **tags)
        put_meter(found, TOPICS, "record-retry", of_topic.retried.reading(now_ms), tags)
        put_meter(found, TOPICS, "record-error", of_topic.lost.reading(now_ms), tags)
    return found


def admin_metrics(engine: Engine, now_ms: int) -> MetricsSnapshot:
    """Return what an admin client knows of itself now."""
    found = MetricsSnapshot("admin", engine.config.client_id, now_ms)
    put_engine(found, engine, now_ms)
    put_errors(found, (engine.metrics,))
    return found
