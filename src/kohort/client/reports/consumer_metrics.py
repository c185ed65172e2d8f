"""The metrics of a consumer, by the names of Kafka's Java consumer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.client.consumer import ConsumerMachine
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics.reading import PollMetrics, ReadingMetrics
from kohort.client.metrics.samples import SampleReading, together
from kohort.client.metrics.traffic import Api
from kohort.client.reading.positions import PartitionState
from kohort.client.reports.every_client import (
    of_api,
    put_engine,
    put_errors,
    put_events,
    put_meter,
    put_spread,
    put_throttle,
    seconds_ago,
)
from kohort.model import TopicPartition
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import OffsetCommitRequest

POLLS: Final = "consumer-metrics"
GROUP: Final = "consumer-coordinator-metrics"
FETCHES: Final = "consumer-fetch-manager-metrics"
OURS: Final = "kohort-consumer-metrics"
HOUR_S: Final = 3600


def consumer_metrics(machine: ConsumerMachine, now_ms: int) -> MetricsSnapshot:
    """Return what a consumer knows of itself now."""
    found = MetricsSnapshot("consumer", machine.config.client_id, now_ms)
    put_engine(found, machine.engine, now_ms)
    put_errors(found, (machine.engine.metrics, machine.metrics))
    _put_polls(found, machine.metrics, now_ms)
    _put_fetches(found, machine, now_ms)
    _put_partitions(found, machine)
    if machine.has_group:
        _put_group(found, machine, now_ms)
        _put_rebalances(found, machine.metrics, now_ms)
    return found


def _put_polls(found: MetricsSnapshot, counted: ReadingMetrics, now_ms: int) -> None:
    polls = counted.polls
    put_spread(found, POLLS, "time-between-poll", polls.interval.reading(now_ms))
    found.put(POLLS, "last-poll-seconds-ago", seconds_ago(polls.last_ms, now_ms))
    found.put(POLLS, "poll-idle-ratio-avg", _idle_ratio(polls, now_ms))
    found.put(POLLS, "commit-sync-time-ns-total", counted.blocked_ms["commit"] * 1e6)
    found.put(POLLS, "committed-time-ns-total", counted.blocked_ms["committed"] * 1e6)


def _put_fetches(found: MetricsSnapshot, machine: ConsumerMachine, now_ms: int) -> None:
    counted = machine.metrics
    latency = of_api(machine.engine, FetchRequest, now_ms)
    put_spread(found, FETCHES, "fetch-latency", latency)
    put_events(found, FETCHES, "fetch", latency)
    put_spread(found, FETCHES, "fetch-size", counted.fetched.reading(now_ms))
    put_meter(found, FETCHES, "bytes-consumed", counted.fetched.reading(now_ms))
    put_meter(found, FETCHES, "records-consumed", records_consumed(machine, now_ms))
    fetch_api = machine.engine.metrics.apis.get(FetchRequest)
    if fetch_api is not None:
        put_throttle(found, FETCHES, "fetch-throttle-time", fetch_api, now_ms)
    for topic, of_topic in list(counted.topics.items()):
        put_meter(found, FETCHES, "bytes-consumed", of_topic.bytes.reading(now_ms), {"topic": topic})
        consumed = _with_open(of_topic.records.reading(now_ms), machine, topic)
        put_meter(found, FETCHES, "records-consumed", consumed, {"topic": topic})
        put_spread(found, FETCHES, "fetch-size", of_topic.bytes.reading(now_ms), {"topic": topic})


def _idle_ratio(polls: PollMetrics, now_ms: int) -> float:
    """Return the share of the time, between the begin of one poll and the last, that was spent in polls."""
    lasted_ms = polls.interval.reading(now_ms).sum
    return min(polls.idle.reading(now_ms).sum / lasted_ms, 1.0) if lasted_ms else float("nan")


def records_consumed(machine: ConsumerMachine, now_ms: int) -> SampleReading:
    """Return how many records the user was given."""
    counted = [of_topic.records.reading(now_ms) for of_topic in list(machine.metrics.topics.values())]
    return _with_open(together(counted), machine, machine.uncounted[0])


def _with_open(of: SampleReading, machine: ConsumerMachine, topic: str) -> SampleReading:
    """Return a reading with what the user has of the piece that is being handed out."""
    of_topic, records = machine.uncounted
    return of._replace(total=of.total + records) if records and of_topic == topic else of


def lag_of(state: PartitionState, *, read_committed: bool) -> int | None:
    """Return how many offsets lie between the position and the end that can be read; None where one is not known."""
    end = state.visible_end(read_committed)
    return None if state.position is None or end is None else max(0, end - state.position.offset)


def lead_of(state: PartitionState) -> int | None:
    """Return how many offsets lie between the begin of the log and the position; None where one is not known."""
    if state.position is None or state.log_start_offset is None:
        return None
    return max(0, state.position.offset - state.log_start_offset)


def _put_partitions(found: MetricsSnapshot, machine: ConsumerMachine) -> None:
    read_committed = machine.config.isolation_level == "read_committed"
    lags: list[int] = []
    leads: list[int] = []
    assigned: Iterable[tuple[TopicPartition, PartitionState]] = list(machine.subscription.assigned.items())
    for (topic, partition), state in assigned:
        tags = {"topic": topic, "partition": str(partition)}
        lag, lead = lag_of(state, read_committed=read_committed), lead_of(state)
        if lag is not None:
            lags.append(lag)
            found.put(FETCHES, "records-lag", lag, **tags)
        if lead is not None:
            leads.append(lead)
            found.put(FETCHES, "records-lead", lead, **tags)
        found.put(FETCHES, "preferred-read-replica", state.preferred_replica, **tags)
    found.put(FETCHES, "records-lag-max", float(max(lags, default=float("nan"))))
    found.put(FETCHES, "records-lead-min", float(min(leads, default=float("nan"))))


def _put_group(found: MetricsSnapshot, machine: ConsumerMachine, now_ms: int) -> None:
    engine = machine.engine
    commits = of_api(engine, OffsetCommitRequest, now_ms)
    put_spread(found, GROUP, "commit-latency", commits)
    put_events(found, GROUP, "commit", commits)
    is_group = machine.subscription.mode.is_group
    found.put(GROUP, "assigned-partitions", len(machine.subscription.assigned) if is_group else 0.0)
    api, beats = _heartbeats(machine, now_ms)
    found.put(GROUP, "heartbeat-response-time-max", beats.most)
    put_events(found, GROUP, "heartbeat", beats)
    last = engine.metrics.apis[api].sent_at_ms if api in engine.metrics.apis else None
    found.put(GROUP, "last-heartbeat-seconds-ago", seconds_ago(last, now_ms))
    for stem, one in (("join", JoinGroupRequest), ("sync", SyncGroupRequest)):
        if one in engine.metrics.apis:
            accepted = engine.metrics.apis[one].accepted.reading(now_ms)
            put_spread(found, GROUP, f"{stem}-time", accepted)
            put_events(found, GROUP, stem, accepted)


def _heartbeats(machine: ConsumerMachine, now_ms: int) -> tuple[Api, SampleReading]:
    """Return which requests keep the member alive, and how long they took."""
    modern: Api = ConsumerGroupHeartbeatRequest
    api = modern if modern in machine.engine.metrics.apis else HeartbeatRequest
    return api, of_api(machine.engine, api, now_ms)


def _put_rebalances(found: MetricsSnapshot, counted: ReadingMetrics, now_ms: int) -> None:
    rebalances = counted.rebalances
    took, failed = rebalances.latency.reading(now_ms), rebalances.failed.reading(now_ms)
    put_spread(found, GROUP, "rebalance-latency", took)
    found.put(GROUP, "rebalance-latency-total", took.total)
    found.put(GROUP, "rebalance-total", took.ever)
    found.put(GROUP, "rebalance-rate-per-hour", took.value_rate * HOUR_S)
    found.put(GROUP, "failed-rebalance-total", failed.total)
    found.put(GROUP, "failed-rebalance-rate-per-hour", failed.rate * HOUR_S)
    found.put(GROUP, "last-rebalance-seconds-ago", seconds_ago(rebalances.ended_ms, now_ms))
    for kind in ("revoked", "assigned", "lost"):
        if kind in counted.listeners:
            put_spread(found, GROUP, f"partition-{kind}-latency", counted.listeners[kind].reading(now_ms))
    found.put(OURS, "last-rebalance-reason", rebalances.reason)
    found.put(OURS, "rebalance-under-way", 0.0 if rebalances.began_ms is None else 1.0)
