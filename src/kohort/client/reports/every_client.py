"""The metrics that every client has: connections, requests, bytes, by node and by API, and errors."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics.samples import SampleReading, Samples, together
from kohort.client.metrics.traffic import Api, ApiMetrics, ErrorCounts
from kohort.client.requests.addresses import FIRST_STAND_IN
from kohort.client.requests.connections import ConnectionState
from kohort.client.requests.engine import Engine

GROUPS = {"consumer": "consumer", "producer": "producer", "admin": "admin-client"}
"""How Kafka's groups of metrics begin, by the kind of client."""
REQUESTS = "kohort-request-metrics"
ERRORS = "kohort-error-metrics"


def put_engine(found: MetricsSnapshot, engine: Engine, now_ms: int) -> None:
    """Add what the engine of a client has counted."""
    traffic = engine.metrics
    group = f"{GROUPS[found.kind]}-metrics"
    standing = [c for c in engine.connections if c.state is not ConnectionState.CONNECTING]
    found.put(group, "connection-count", len(standing))
    put_meter(found, group, "successful-authentication", traffic.logins.reading(now_ms))
    put_meter(found, group, "failed-authentication", traffic.failed_logins.reading(now_ms))
    nodes = [(node_id, node) for node_id, node in list(traffic.nodes.items())]
    opened = together(node.opened.reading(now_ms) for _, node in nodes)
    put_meter(found, group, "connection-creation", opened)
    put_meter(found, group, "connection-close", together(node.closed.reading(now_ms) for _, node in nodes))
    sent = {node_id: node.sent.reading(now_ms) for node_id, node in nodes}
    received = {node_id: node.received.reading(now_ms) for node_id, node in nodes}
    _put_requests(found, group, together(sent.values()), together(received.values()), {})
    of_nodes = f"{GROUPS[found.kind]}-node-metrics"
    for node_id, node in nodes:
        tags = {"node_id": f"node-{node_id if node_id > FIRST_STAND_IN else node_id - FIRST_STAND_IN - 1}"}
        _put_requests(found, of_nodes, sent[node_id], received[node_id], tags)
        put_spread(found, of_nodes, "request-latency", node.latency.reading(now_ms), tags)
    for api, counted in list(traffic.apis.items()):
        tags = {"api": api_name(api)}
        found.put(REQUESTS, "request-total", counted.sent, **tags)
        found.put(REQUESTS, "request-refused-total", counted.refused, **tags)
        put_spread(found, REQUESTS, "request-latency", counted.latency.reading(now_ms), tags)
        put_throttle(found, REQUESTS, "throttle-time", counted, now_ms, tags)


def put_errors(found: MetricsSnapshot, counts: Iterable[ErrorCounts]) -> None:
    """Add how often what went wrong."""
    for counted in counts:
        for (api, error), times in list(counted.errors.items()):
            found.put(ERRORS, "error-total", times, api=api_name(api), error=error)


def _put_requests(
    found: MetricsSnapshot, group: str, sent: SampleReading, received: SampleReading, tags: dict[str, str]
) -> None:
    put_meter(found, group, "outgoing-byte", sent, tags)
    put_meter(found, group, "incoming-byte", received, tags)
    put_spread(found, group, "request-size", sent, tags)
    put_events(found, group, "request", sent, tags)
    put_events(found, group, "response", received, tags)


def put_meter(
    found: MetricsSnapshot, group: str, stem: str, of: SampleReading, tags: dict[str, str] | None = None
) -> None:
    """Add the rate and the total of what the values add up to."""
    found.put(group, f"{stem}-rate", of.rate, **tags or {})
    found.put(group, f"{stem}-total", of.total, **tags or {})


def put_events(
    found: MetricsSnapshot, group: str, stem: str, of: SampleReading, tags: dict[str, str] | None = None
) -> None:
    """Add the rate and the total of how many values came."""
    found.put(group, f"{stem}-rate", of.value_rate, **tags or {})
    found.put(group, f"{stem}-total", of.ever, **tags or {})


def put_spread(
    found: MetricsSnapshot, group: str, stem: str, of: SampleReading, tags: dict[str, str] | None = None
) -> None:
    """Add the average and the largest of late."""
    found.put(group, f"{stem}-avg", of.average, **tags or {})
    found.put(group, f"{stem}-max", of.most, **tags or {})


def put_throttle(
    found: MetricsSnapshot, group: str, stem: str, of: ApiMetrics, now_ms: int, tags: dict[str, str] | None = None
) -> None:
    """Add for how long brokers held up this client because of requests of an API, on average and at most of late."""
    held, answers = of.throttle.reading(now_ms), of.latency.reading(now_ms).values
    found.put(group, f"{stem}-avg", held.sum / answers if answers else math.nan, **tags or {})
    found.put(group, f"{stem}-max", held.most if held.values else 0.0 if answers else math.nan, **tags or {})


def api_name(api: Api) -> str:
    """Return Kafka's name of an API."""
    return api.__name__.removesuffix("Request")


def seconds_ago(at_ms: int | None, now_ms: int) -> float:
    """Return how long ago something was; -1 where it never was, as in Kafka."""
    return -1.0 if at_ms is None else float(max(now_ms - at_ms, 0) // 1000)


def of_api(engine: Engine, api: Api, now_ms: int) -> SampleReading:
    """Return how long the requests of an API took."""
    counted = engine.metrics.apis.get(api)
    return Samples(engine.metrics.windows).reading(now_ms) if counted is None else counted.latency.reading(now_ms)
