"""Metrics of an application's clients on its own Prometheus registry.

Names are those of the JMX exporter for Kafka's Java clients, such as
``kafka_consumer_consumer_fetch_manager_metrics_records_lag_max``, so that existing dashboards work.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.client.metrics.names import MetricName, MetricsSnapshot
from kohort.errors import UsageError
from kohort.extras import needs

if TYPE_CHECKING:
    from prometheus_client import Metric

PARTITIONS_MOST: Final = 1_000
CLIENTS_MOST: Final = 1_000
KINDS: Final = {"consumer": "consumer", "producer": "producer", "admin": "admin_client"}


class MeasuredClient(Protocol):
    """Any client: ``Consumer``, ``ConsumerGroup``, ``Producer``, ``Admin``, and those of asyncio."""

    def metrics(self) -> MetricsSnapshot:
        """Return the client's metrics."""


class MetricsCollector:
    """Exports clients to a ``prometheus_client`` registry: ``MetricsCollector(REGISTRY).add(consumer)``.

    Each scrape reads the clients, in the thread of the scrape; a garbage-collected client disappears. At most
    ``most_partitions`` partitions of a client have series of their own; totals of the client are always exported. Needs
    ``kohort[metrics]``, else raises MissingExtra.
    """

    def __init__(self, registry: Any, *, most_partitions: int = PARTITIONS_MOST) -> None:
        with needs("metrics", "a MetricsCollector"):
            import prometheus_client  # noqa: F401
        self._most_partitions = most_partitions
        self._guard = threading.Lock()
        self._clients: weakref.WeakKeyDictionary[MeasuredClient, tuple[str, str]] = weakref.WeakKeyDictionary()
        registry.register(self)

    def add(self, *clients: MeasuredClient) -> MetricsCollector:
        """Add clients; return the collector.

        The label ``client_id`` is the client's id; a second client of its kind with the same id is ``NAME-2``. Raises
        UsageError for other objects, and beyond 1,000 clients.
        """
        for client in clients:
            if not callable(getattr(client, "metrics", None)):
                raise UsageError(f"add: {client!r} is not a client: it has no metrics()")
            found = client.metrics()
            with self._guard:
                if client in self._clients:
                    continue
                if len(self._clients) >= CLIENTS_MOST:
                    raise UsageError(f"add: the collector has {CLIENTS_MOST} clients already; use another collector")
                taken = {label for kind, label in self._clients.values() if kind == found.kind}
                self._clients[client] = (found.kind, _free_label(found.client_id, taken))
        return self

    def describe(self) -> Iterable[Any]:
        """Return nothing, because the metrics depend on the clients at scrape time."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield metric families with the series of all clients."""
        with self._guard:
            clients = list(self._clients.items())
        families: dict[str, Metric] = {}
        for client, (_, label) in clients:
            found = client.metrics()
            for name, value in self._numbers(found):
                text = _page_name(found.kind, name)
                family = families.get(text)
                if family is None:
                    family = families[text] = _family(text, name)
                labels = {"client_id": label} | {key.replace("-", "_"): tag for key, tag in name.tags[1:]}
                family.add_sample(text, labels, value)
        yield from families.values()

    def _numbers(self, found: MetricsSnapshot) -> Iterator[tuple[MetricName, float]]:
        """Yield the numbers of a client: no strings, no NaN, no partitions beyond ``most_partitions``."""
        partitions: set[tuple[str | None, str]] = set()
        for name, value in found.items():
            if isinstance(value, str) or math.isnan(value):
                continue
            partition = name.tag("partition")
            if partition is not None:
                place = (name.tag("topic"), partition)
                if place not in partitions and len(partitions) >= self._most_partitions:
                    continue
                partitions.add(place)
            yield name, value


def _free_label(client_id: str, taken: set[str]) -> str:
    label, number = client_id, 1
    while label in taken:
        number += 1
        label = f"{client_id}-{number}"
    return label


def _page_name(kind: str, name: MetricName) -> str:
    # as in the JMX exporter, client and topic series share a family; topic series have the label topic
    group = name.group.replace("-", "_")
    prefix, own_group = "kafka", group.removeprefix("kohort_")
    if own_group != group:
        prefix, group = "kohort", own_group
    return f"{prefix}_{KINDS[kind]}_{group}_{name.name.replace('-', '_')}"


def _family(text: str, name: MetricName) -> Metric:
    from prometheus_client import Metric

    kind = "counter" if text.endswith("_total") else "gauge"
    return Metric(text.removesuffix("_total"), f"{name.name} of Kafka's clients, {name.group}.", kind)
