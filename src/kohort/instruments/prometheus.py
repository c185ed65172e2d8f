"""The metrics of an application's clients for Prometheus, on the registry that the application has already.

Names are those that the JMX exporter makes of Kafka's Java clients, such as
``kafka_consumer_consumer_fetch_manager_metrics_records_lag_max``, so that dashboards for these work.
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
"""How many partitions of a client have series, unless told otherwise."""
CLIENTS_MOST: Final = 1_000
KINDS: Final = {"consumer": "consumer", "producer": "producer", "admin": "admin_client"}
"""Kafka's domains of beans, by the kind of client."""


class MeasuredClient(Protocol):
    """Any client: ``Consumer``, ``ConsumerGroup``, ``Producer``, ``Admin``, and those of asyncio."""

    def metrics(self) -> MetricsSnapshot:
        """Return what the client knows of itself."""


class MetricsCollector:
    """Shows clients on a registry of ``prometheus_client``: ``MetricsCollector(REGISTRY).add(consumer)``.

    Clients are looked at when somebody scrapes, in the thread that does. One that is gone is gone from the next page.
    Of a client at most ``most_partitions`` partitions have series of their own; what is known of a client as a whole is
    always there. Needs ``kohort[metrics]``, or raises MissingExtra.
    """

    def __init__(self, registry: Any, *, most_partitions: int = PARTITIONS_MOST) -> None:
        with needs("metrics", "a MetricsCollector"):
            import prometheus_client  # noqa: F401
        self._most_partitions = most_partitions
        self._guard = threading.Lock()
        self._clients: weakref.WeakKeyDictionary[MeasuredClient, tuple[str, str]] = weakref.WeakKeyDictionary()
        registry.register(self)

    def add(self, *clients: MeasuredClient) -> MetricsCollector:
        """Show these clients too; returns the collector.

        The label ``client_id`` is the client's; a second client of its kind with the same is ``NAME-2``, as no two
        series may have the same labels. Raises UsageError for what is no client, and for more than 1,000 clients.
        """
        for client in clients:
            if not callable(getattr(client, "metrics", None)):
                raise UsageError(f"add: {client!r} is no client: it has no metrics()")
            found = client.metrics()
            with self._guard:
                if client in self._clients:
                    continue
                if len(self._clients) >= CLIENTS_MOST:
                    raise UsageError(f"add: there are {CLIENTS_MOST} clients here already; take another collector")
                taken = {label for kind, label in self._clients.values() if kind == found.kind}
                self._clients[client] = (found.kind, _free_label(found.client_id, taken))
        return self

    def describe(self) -> Iterable[Any]:
        """Return nothing: what there is depends on the clients at the time."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield families with the series of all clients."""
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
        """Yield what is known: texts and what is NaN have no series, nor have partitions beyond so many."""
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
    # as with the JMX exporter, series of a client and of its topics share a family: the latter have the label topic
    group = name.group.replace("-", "_")
    whose, ours = "kafka", group.removeprefix("kohort_")
    if ours != group:
        whose, group = "kohort", ours
    return f"{whose}_{KINDS[kind]}_{group}_{name.name.replace('-', '_')}"


def _family(text: str, name: MetricName) -> Metric:
    from prometheus_client import Metric

    kind = "counter" if text.endswith("_total") else "gauge"
    return Metric(text.removesuffix("_total"), f"{name.name} of Kafka's clients, {name.group}.", kind)
