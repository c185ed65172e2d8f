"""Statistics in the shape of librdkafka's (its STATISTICS.md), for who has dashboards and callbacks for these.

Every field has the meaning and the unit that it has there. Fields of which there is nothing here are left out, never
made up; an offset that is not known is -1001, as there.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.client.consumer import ConsumerMachine
from kohort.client.metrics.samples import SampleReading
from kohort.client.producer import ProducerMachine
from kohort.client.reading.positions import FetchState, PartitionState
from kohort.client.reports.consumer_metrics import lag_of, records_consumed
from kohort.client.requests.connections import Connection, ConnectionState
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.model import TopicPartition
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.produce import ProduceRequest

Statistics = dict[str, Any]
NOT_KNOWN: Final = -1001
US: Final = 1000
"""Microseconds of a millisecond."""
STATES: Final = {
    ConnectionState.CONNECTING: "CONNECT",
    ConnectionState.HANDSHAKE: "APIVERSION_QUERY",
    ConnectionState.LOGIN: "AUTH_REQ",
    ConnectionState.READY: "UP",
}
FETCH_STATES: Final = {
    FetchState.INITIALIZING: "offset-query",
    FetchState.AWAIT_RESET: "offset-query",
    FetchState.AWAIT_VALIDATION: "validate-epoch-wait",
    FetchState.FETCHING: "active",
}


def consumer_statistics(machine: ConsumerMachine, now_ms: int) -> Statistics:
    """Return the statistics of a consumer."""
    counted = machine.metrics
    found = _of_engine(machine.engine, now_ms)
    found["rxmsgs"] = int(records_consumed(machine, now_ms).total)
    found["rxmsg_bytes"] = int(counted.fetched.reading(now_ms).total)
    topics: dict[str, Statistics] = {}
    for tp, state in list(machine.subscription.assigned.items()):
        of_topic = topics.get(tp.topic)
        if of_topic is None:
            of_topic = topics[tp.topic] = _topic(tp.topic, machine.metadata, now_ms)
        of_topic["partitions"][str(tp.partition)] = _consumed(machine, tp, state)
    found["topics"] = topics
    if machine.has_group:
        rebalances = counted.rebalances
        took = rebalances.latency.reading(now_ms)
        found["cgrp"] = {
            "state": "up" if machine.group.lookup.node_id is not None else "query-coord",
            "join_state": "steady" if machine.is_stable else "wait-join",
            "rebalance_age": 0 if rebalances.ended_ms is None else now_ms - rebalances.ended_ms,
            "rebalance_cnt": took.ever,
            "rebalance_reason": rebalances.reason,
            "assignment_size": len(machine.subscription.assigned),
        }
    return found


def producer_statistics(machine: ProducerMachine, now_ms: int) -> Statistics:
    """Return the statistics of a producer."""
    counted = machine.sender.metrics
    found = _of_engine(machine.engine, now_ms)
    found["txmsgs"] = int(sum(t.records.reading(now_ms).total for t in list(counted.topics.values())))
    found["txmsg_bytes"] = int(sum(t.bytes.reading(now_ms).total for t in list(counted.topics.values())))
    found["msg_size"] = machine.accumulator.buffered_bytes
    found["msg_size_max"] = machine.config.buffer_memory
    topics: dict[str, Statistics] = {}
    waiting = {tp: list(queue) for tp, queue in list(machine.accumulator.waiting.items())}
    found["msg_cnt"] = sum(b.count or len(b.values) for queue in waiting.values() for b in queue)
    for name in list(counted.topics):
        of_topic = topics[name] = _topic(name, machine.metadata, now_ms)
        for number in range(machine.metadata.partition_count(name) or 0):
            tp = TopicPartition(name, number)
            batches = waiting.get(tp, [])
            of_topic["partitions"][str(number)] = _partition(tp, machine.metadata) | {
                "msgq_cnt": sum(b.count or len(b.values) for b in batches),
                "msgq_bytes": sum(b.size for b in batches),
            }
    found["topics"] = topics
    return found


def admin_statistics(engine: Engine, now_ms: int) -> Statistics:
    """Return the statistics of an admin client."""
    return _of_engine(engine, now_ms) | {"topics": {}}


def _of_engine(engine: Engine, now_ms: int) -> Statistics:
    traffic = engine.metrics
    connections: dict[int, list[Connection]] = {}
    for connection in engine.connections:
        connections.setdefault(connection.node_id, []).append(connection)
    brokers: dict[str, Statistics] = {}
    for node_id in list(traffic.nodes):
        broker = _broker(engine, node_id, connections.get(node_id, []), now_ms)
        if broker is not None:
            brokers[broker["name"]] = broker
    return {
        "client_id": engine.config.client_id,
        "metadata_cache_cnt": len(engine.metadata.topics()),
        "tx": sum(b["tx"] for b in brokers.values()),
        "tx_bytes": sum(b["txbytes"] for b in brokers.values()),
        "rx": sum(b["rx"] for b in brokers.values()),
        "rx_bytes": sum(b["rxbytes"] for b in brokers.values()),
        "brokers": brokers,
    }


def _broker(engine: Engine, node_id: int, connections: list[Connection], now_ms: int) -> Statistics | None:
    """Return the statistics of a node; None of one whose address is not known any more."""
    address = engine.addresses.of(node_id)
    if address is None:
        return None
    counted = engine.metrics.nodes[node_id]
    sent, received = counted.sent.reading(now_ms), counted.received.reading(now_ms)
    host_port = f"{address[0]}:{address[1]}"
    best = max((c.state.value for c in connections), default=0)
    throttled = [
        engine.metrics.apis[api].throttle for api in (FetchRequest, ProduceRequest) if api in engine.metrics.apis
    ]
    found = {
        "name": f"{host_port}/{node_id}" if node_id >= 0 else f"{host_port}/bootstrap",
        "nodeid": max(node_id, -1),
        "nodename": host_port,
        "source": "learned" if node_id >= 0 else "configured",
        "state": STATES[ConnectionState(best)] if best else "DOWN",
        "outbuf_cnt": sum(len(c.queue) for c in connections),
        "waitresp_cnt": sum(len(c.in_flight) for c in connections),
        "tx": sent.ever,
        "txbytes": int(sent.total),
        "rx": received.ever,
        "rxbytes": int(received.total),
        "connects": counted.opened.reading(now_ms).ever,
        "disconnects": counted.closed.reading(now_ms).ever,
        "rtt": _window(counted.latency.reading(now_ms), US),
    }
    if throttled:
        found["throttle"] = _window(throttled[0].reading(now_ms), 1)
    return found


def _window(of: SampleReading, unit: int) -> Statistics:
    """Return the part of librdkafka's windows that is known: of late, in whole units."""
    if not of.values:
        return {"max": 0, "avg": 0, "sum": 0, "cnt": 0}
    return {
        "max": int(of.most * unit),
        "avg": int(of.average * unit),
        "sum": int(of.sum * unit),
        "cnt": of.values,
    }


def _topic(name: str, metadata: Metadata, now_ms: int) -> Statistics:
    age_ms = 0 if metadata.answered_at_ms is None else now_ms - metadata.answered_at_ms
    return {"topic": name, "metadata_age": age_ms, "partitions": {}}


def _partition(tp: TopicPartition, metadata: Metadata) -> Statistics:
    leader = metadata.leader(tp)
    return {
        "partition": tp.partition,
        "broker": -1 if leader is None else leader.node_id,
        "leader": -1 if leader is None else leader.node_id,
        "leader_epoch": -1 if leader is None else leader.epoch,
    }


def _consumed(machine: ConsumerMachine, tp: TopicPartition, state: PartitionState) -> Statistics:
    lag = lag_of(state, read_committed=machine.config.isolation_level == "read_committed")
    return _partition(tp, machine.metadata) | {
        "desired": True,
        "fetch_state": FETCH_STATES[state.state],
        "next_offset": state.fetch_offset if state.has_position else NOT_KNOWN,
        "app_offset": NOT_KNOWN if state.position is None else state.position.offset,
        "committed_offset": machine.metrics.committed.get(tp, NOT_KNOWN),
        "lo_offset": NOT_KNOWN if state.log_start_offset is None else state.log_start_offset,
        "hi_offset": NOT_KNOWN if state.high_watermark is None else state.high_watermark,
        "ls_offset": NOT_KNOWN if state.last_stable_offset is None else state.last_stable_offset,
        "consumer_lag": -1 if lag is None else lag,
    }
