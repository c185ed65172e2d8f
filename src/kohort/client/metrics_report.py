"""Report metrics of consumers, producers and admin clients under the names of Kafka's Java clients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from kohort.client.consumer import ConsumerMachine
from kohort.client.metrics.counts import Api, ApiMetrics, ErrorCounts, ReadingMetrics, Samples, SampleSummary, merge
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.producer import ProducerMachine
from kohort.client.reading.subscription import PartitionState
from kohort.client.requests.channels import FIRST_BOOTSTRAP_ID
from kohort.client.requests.connections import ConnectionState
from kohort.client.requests.engine import Engine
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort.wire.messages.produce import ProduceRequest

GROUPS = {"consumer": "consumer", "producer": "producer", "admin": "admin-client"}
"""Prefix of Kafka's metric groups for each kind of client."""
REQUESTS = "kohort-request-metrics"
ERRORS = "kohort-error-metrics"


def put_engine(found: MetricsSnapshot, engine: Engine, now_ms: int) -> None:
    traffic = engine.metrics
    group = f"{GROUPS[found.kind]}-metrics"
    standing = [c for c in engine.connections if c.state is not ConnectionState.CONNECTING]
    found.put(group, "connection-count", len(standing))
    put_meter(found, group, "successful-authentication", traffic.logins.summary(now_ms))
    put_meter(found, group, "failed-authentication", traffic.failed_logins.summary(now_ms))
    nodes = list(traffic.nodes.items())
    put_meter(found, group, "connection-creation", merge(node.opened.summary(now_ms) for _, node in nodes))
    put_meter(found, group, "connection-close", merge(node.closed.summary(now_ms) for _, node in nodes))
    sent = {node_id: node.sent.summary(now_ms) for node_id, node in nodes}
    received = {node_id: node.received.summary(now_ms) for node_id, node in nodes}
    _put_requests(found, group, merge(sent.values()), merge(received.values()))
    of_nodes = f"{GROUPS[found.kind]}-node-metrics"
    for node_id, node in nodes:
        name = f"node-{node_id if node_id > FIRST_BOOTSTRAP_ID else node_id - FIRST_BOOTSTRAP_ID - 1}"
        _put_requests(found, of_nodes, sent[node_id], received[node_id], node_id=name)
        put_spread(found, of_nodes, "request-latency", node.latency.summary(now_ms), node_id=name)
    for api, counted in list(traffic.apis.items()):
        name = api_name(api)
        found.put(REQUESTS, "request-total", counted.sent, api=name)
        found.put(REQUESTS, "request-refused-total", counted.refused, api=name)
        put_spread(found, REQUESTS, "request-latency", counted.latency.summary(now_ms), api=name)
        put_throttle(found, REQUESTS, "throttle-time", counted, now_ms, api=name)


def put_errors(found: MetricsSnapshot, counts: Iterable[ErrorCounts]) -> None:
    for counted in counts:
        for (api, error), times in list(counted.errors.items()):
            found.put(ERRORS, "error-total", times, api=api_name(api), error=error)


def _put_requests(
    found: MetricsSnapshot, group: str, sent: SampleSummary, received: SampleSummary, **tags: str
) -> None:
    put_meter(found, group, "outgoing-byte", sent, **tags)
    put_meter(found, group, "incoming-byte", received, **tags)
    put_spread(found, group, "request-size", sent, **tags)
    put_events(found, group, "request", sent, **tags)
    put_events(found, group, "response", received, **tags)


def put_meter(found: MetricsSnapshot, group: str, stem: str, of: SampleSummary, **tags: str) -> None:
    """Add the metrics STEM-rate and STEM-total to the snapshot, computed from the sum of the measured values."""
    found.put(group, f"{stem}-rate", of.rate, **tags)
    found.put(group, f"{stem}-total", of.total, **tags)


def put_events(found: MetricsSnapshot, group: str, stem: str, of: SampleSummary, **tags: str) -> None:
    """Add the metrics STEM-rate and STEM-total to the snapshot, computed from the number of measured values."""
    found.put(group, f"{stem}-rate", of.value_rate, **tags)
    found.put(group, f"{stem}-total", of.total_count, **tags)


def put_spread(found: MetricsSnapshot, group: str, stem: str, of: SampleSummary, **tags: str) -> None:
    """Add the metrics STEM-avg and STEM-max to the snapshot, computed from the recent sample windows."""
    found.put(group, f"{stem}-avg", of.average, **tags)
    found.put(group, f"{stem}-max", of.maximum, **tags)


def put_throttle(found: MetricsSnapshot, group: str, stem: str, of: ApiMetrics, now_ms: int, **tags: str) -> None:
    held, answers = of.throttle.summary(now_ms), of.latency.summary(now_ms).values
    found.put(group, f"{stem}-avg", held.sum / answers if answers else math.nan, **tags)
    found.put(group, f"{stem}-max", held.maximum if held.values else 0.0 if answers else math.nan, **tags)


def api_name(api: Api) -> str:
    return api.__name__.removesuffix("Request")


def seconds_ago(at_ms: int | None, now_ms: int) -> float:
    """Return the seconds from ``at_ms`` to ``now_ms``; -1 if ``at_ms`` is None, as in Kafka."""
    return -1.0 if at_ms is None else float(max(now_ms - at_ms, 0) // 1000)


def of_api(engine: Engine, api: Api, now_ms: int) -> SampleSummary:
    counted = engine.metrics.apis.get(api)
    return Samples(engine.metrics.windows).summary(now_ms) if counted is None else counted.latency.summary(now_ms)


POLLS: Final = "consumer-metrics"
GROUP: Final = "consumer-coordinator-metrics"
FETCHES: Final = "consumer-fetch-manager-metrics"
OURS: Final = "kohort-consumer-metrics"
HOUR_S: Final = 3600


def consumer_metrics(machine: ConsumerMachine, now_ms: int) -> MetricsSnapshot:
    found = MetricsSnapshot("consumer", machine.config.client_id, now_ms)
    put_engine(found, machine.engine, now_ms)
    put_errors(found, (machine.engine.metrics, machine.metrics))
    _put_polls(found, machine.metrics, now_ms)
    _put_fetches(found, machine, now_ms)
    _put_partitions(found, machine)
    if machine.config.group_id is not None:
        _put_group(found, machine, now_ms)
        _put_rebalances(found, machine.metrics, now_ms)
    return found


def _put_polls(found: MetricsSnapshot, counted: ReadingMetrics, now_ms: int) -> None:
    polls = counted.polls
    put_spread(found, POLLS, "time-between-poll", polls.interval.summary(now_ms))
    found.put(POLLS, "last-poll-seconds-ago", seconds_ago(polls.last_ms, now_ms))
    lasted_ms = polls.interval.summary(now_ms).sum
    idle_ratio = min(polls.idle.summary(now_ms).sum / lasted_ms, 1.0) if lasted_ms else math.nan
    found.put(POLLS, "poll-idle-ratio-avg", idle_ratio)
    found.put(POLLS, "commit-sync-time-ns-total", counted.blocked_ms["commit"] * 1e6)
    found.put(POLLS, "committed-time-ns-total", counted.blocked_ms["committed"] * 1e6)


def _put_fetches(found: MetricsSnapshot, machine: ConsumerMachine, now_ms: int) -> None:
    counted = machine.metrics
    latency = of_api(machine.engine, FetchRequest, now_ms)
    put_spread(found, FETCHES, "fetch-latency", latency)
    put_events(found, FETCHES, "fetch", latency)
    put_spread(found, FETCHES, "fetch-size", counted.fetched.summary(now_ms))
    put_meter(found, FETCHES, "bytes-consumed", counted.fetched.summary(now_ms))
    put_meter(found, FETCHES, "records-consumed", records_consumed(machine, now_ms))
    fetch_api = machine.engine.metrics.apis.get(FetchRequest)
    if fetch_api is not None:
        put_throttle(found, FETCHES, "fetch-throttle-time", fetch_api, now_ms)
    for topic, of_topic in list(counted.topics.items()):
        put_meter(found, FETCHES, "bytes-consumed", of_topic.bytes.summary(now_ms), topic=topic)
        consumed = _with_open(of_topic.records.summary(now_ms), machine, topic)
        put_meter(found, FETCHES, "records-consumed", consumed, topic=topic)
        put_spread(found, FETCHES, "fetch-size", of_topic.bytes.summary(now_ms), topic=topic)


def records_consumed(machine: ConsumerMachine, now_ms: int) -> SampleSummary:
    counted = [of_topic.records.summary(now_ms) for of_topic in list(machine.metrics.topics.values())]
    return _with_open(merge(counted), machine, machine.uncounted_records[0])


def _with_open(of: SampleSummary, machine: ConsumerMachine, topic: str) -> SampleSummary:
    of_topic, records = machine.uncounted_records
    return of._replace(total=of.total + records) if records and of_topic == topic else of


def lead_of(state: PartitionState) -> int | None:
    if state.position is None or state.log_start_offset is None:
        return None
    return max(0, state.position.offset - state.log_start_offset)


def _put_partitions(found: MetricsSnapshot, machine: ConsumerMachine) -> None:
    read_committed = machine.config.isolation_level == "read_committed"
    lags: list[int] = []
    leads: list[int] = []
    for (topic, partition), state in list(machine.subscription.assigned.items()):
        tags = {"topic": topic, "partition": str(partition)}
        lag, lead = state.lag(read_committed=read_committed), lead_of(state)
        if lag is not None:
            lags.append(lag)
            found.put(FETCHES, "records-lag", lag, **tags)
        if lead is not None:
            leads.append(lead)
            found.put(FETCHES, "records-lead", lead, **tags)
        found.put(FETCHES, "preferred-read-replica", state.preferred_replica, **tags)
    found.put(FETCHES, "records-lag-max", float(max(lags, default=math.nan)))
    found.put(FETCHES, "records-lead-min", float(min(leads, default=math.nan)))


def _put_group(found: MetricsSnapshot, machine: ConsumerMachine, now_ms: int) -> None:
    apis = machine.engine.metrics.apis
    commits = of_api(machine.engine, OffsetCommitRequest, now_ms)
    put_spread(found, GROUP, "commit-latency", commits)
    put_events(found, GROUP, "commit", commits)
    is_group = machine.subscription.mode.is_group
    found.put(GROUP, "assigned-partitions", len(machine.subscription.assigned) if is_group else 0.0)
    api: Api = ConsumerGroupHeartbeatRequest if ConsumerGroupHeartbeatRequest in apis else HeartbeatRequest
    heartbeats = of_api(machine.engine, api, now_ms)
    found.put(GROUP, "heartbeat-response-time-max", heartbeats.maximum)
    put_events(found, GROUP, "heartbeat", heartbeats)
    found.put(GROUP, "last-heartbeat-seconds-ago", seconds_ago(apis[api].sent_at_ms if api in apis else None, now_ms))
    for stem, one in (("join", JoinGroupRequest), ("sync", SyncGroupRequest)):
        if one in apis:
            accepted = apis[one].accepted.summary(now_ms)
            put_spread(found, GROUP, f"{stem}-time", accepted)
            put_events(found, GROUP, stem, accepted)


def _put_rebalances(found: MetricsSnapshot, counted: ReadingMetrics, now_ms: int) -> None:
    rebalances = counted.rebalances
    took, failed = rebalances.latency.summary(now_ms), rebalances.failed.summary(now_ms)
    put_spread(found, GROUP, "rebalance-latency", took)
    found.put(GROUP, "rebalance-latency-total", took.total)
    found.put(GROUP, "rebalance-total", took.total_count)
    found.put(GROUP, "rebalance-rate-per-hour", took.value_rate * HOUR_S)
    found.put(GROUP, "failed-rebalance-total", failed.total)
    found.put(GROUP, "failed-rebalance-rate-per-hour", failed.rate * HOUR_S)
    found.put(GROUP, "last-rebalance-seconds-ago", seconds_ago(rebalances.ended_ms, now_ms))
    for kind in ("revoked", "assigned", "lost"):
        if kind in counted.listeners:
            put_spread(found, GROUP, f"partition-{kind}-latency", counted.listeners[kind].summary(now_ms))
    found.put(OURS, "last-rebalance-reason", rebalances.reason)
    found.put(OURS, "rebalance-in-progress", 0.0 if rebalances.began_ms is None else 1.0)


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


def producer_metrics(machine: ProducerMachine, now_ms: int) -> MetricsSnapshot:
    found = MetricsSnapshot("producer", machine.config.client_id, now_ms)
    counted = machine.sender.metrics
    put_engine(found, machine.engine, now_ms)
    put_errors(found, (machine.engine.metrics, counted))
    topics = list(counted.topics.items())
    sent = merge(of_topic.records.summary(now_ms) for _, of_topic in topics)
    size = merge(of_topic.bytes.summary(now_ms) for _, of_topic in topics)
    compression = merge(of_topic.compression.summary(now_ms) for _, of_topic in topics)
    put_meter(found, PRODUCER, "record-send", sent)
    put_spread(found, PRODUCER, "batch-size", size)
    found.put(PRODUCER, "record-size-avg", size.sum / sent.sum if sent.sum else math.nan)
    put_spread(found, PRODUCER, "record-queue-time", counted.queue_ms.summary(now_ms))
    found.put(PRODUCER, "compression-rate-avg", compression.average)
    found.put(PRODUCER, "records-per-request-avg", counted.requests.summary(now_ms).average)
    put_meter(found, PRODUCER, "record-retry", merge(t.retried.summary(now_ms) for _, t in topics))
    put_meter(found, PRODUCER, "record-error", merge(t.lost.summary(now_ms) for _, t in topics))
    put_meter(found, PRODUCER, "batch-split", counted.splits.summary(now_ms))
    put_meter(found, PRODUCER, "buffer-exhausted", counted.buffer_full.summary(now_ms))
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
        put_meter(found, TOPICS, "record-send", of_topic.records.summary(now_ms), topic=topic)
        put_meter(found, TOPICS, "byte", of_topic.bytes.summary(now_ms), topic=topic)
        found.put(TOPICS, "compression-rate", of_topic.compression.summary(now_ms).average, topic=topic)
        put_meter(found, TOPICS, "record-retry", of_topic.retried.summary(now_ms), topic=topic)
        put_meter(found, TOPICS, "record-error", of_topic.lost.summary(now_ms), topic=topic)
    return found


def admin_metrics(engine: Engine, now_ms: int) -> MetricsSnapshot:
    found = MetricsSnapshot("admin", engine.config.client_id, now_ms)
    put_engine(found, engine, now_ms)
    put_errors(found, (engine.metrics,))
    return found
