"""Client metrics in a Prometheus registry: names, labels, equal names, closed clients."""

from __future__ import annotations

import gc
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kohort import MetricsCollector, MetricsSnapshot, MissingExtra, UsageError
from kohort.instruments.prometheus import CLIENTS_MOST

FETCHES = "consumer-fetch-manager-metrics"


class Measured:
    """A client with scripted metrics."""

    def __init__(self, client_id: str = "app", kind: str = "consumer", partitions: int = 2) -> None:
        self.found = MetricsSnapshot(kind, client_id, 0)
        self.found.put("consumer-metrics", "connection-count", 2)
        self.found.put(FETCHES, "records-consumed-total", 7)
        self.found.put(FETCHES, "records-consumed-total", 7, topic="t")
        self.found.put(FETCHES, "fetch-latency-avg", float("nan"))
        self.found.put("kohort-consumer-metrics", "last-rebalance-reason", "why")
        self.found.put("kohort-error-metrics", "error-total", 3, api="Fetch", error="NOT_LEADER_OR_FOLLOWER")
        for n in range(partitions):
            self.found.put(FETCHES, "records-lag", n, topic="t", partition=str(n))
            self.found.put(FETCHES, "records-lead", n, topic="t", partition=str(n))

    def metrics(self) -> MetricsSnapshot:
        return self.found


def page(registry: CollectorRegistry) -> dict[str, float]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        f"{s.name}{{{','.join(f'{k}={v}' for k, v in sorted(s.labels.items()))}}}": s.value
        for family in families
        for s in family.samples
    }


def test_client_metrics_have_names_and_labels_of_the_jmx_exporter():
    registry, client = CollectorRegistry(), Measured()
    MetricsCollector(registry).add(client)

    begin = "kafka_consumer_consumer_fetch_manager_metrics"
    assert page(registry) == {
        "kafka_consumer_consumer_metrics_connection_count{client_id=app}": 2,
        f"{begin}_records_consumed_total{{client_id=app}}": 7,
        f"{begin}_records_consumed_total{{client_id=app,topic=t}}": 7,
        "kohort_consumer_error_metrics_error_total{api=Fetch,client_id=app,error=NOT_LEADER_OR_FOLLOWER}": 3,
        f"{begin}_records_lag{{client_id=app,partition=0,topic=t}}": 0,
        f"{begin}_records_lag{{client_id=app,partition=1,topic=t}}": 1,
        f"{begin}_records_lead{{client_id=app,partition=0,topic=t}}": 0,
        f"{begin}_records_lead{{client_id=app,partition=1,topic=t}}": 1,
    }


def test_two_clients_with_one_client_id_have_separate_series():
    registry, clients = CollectorRegistry(), [Measured(), Measured(), Measured(kind="producer")]
    collector = MetricsCollector(registry).add(*clients)
    collector.add(clients[0])

    labels = {n.partition("{")[2] for n in page(registry) if "connection_count" in n}
    assert labels == {"client_id=app}", "client_id=app-2}"}
    assert len([n for n in page(registry) if "connection_count" in n]) == 3


def test_closed_client_leaves_the_metrics_page():
    registry, client = CollectorRegistry(), Measured()
    MetricsCollector(registry).add(client)

    del client
    gc.collect()

    assert page(registry) == {}


def test_number_of_partitions_with_series_is_limited():
    registry, client = CollectorRegistry(), Measured(partitions=5)
    MetricsCollector(registry, most_partitions=2).add(client)

    partitions = {n for n in page(registry) if "partition=" in n}
    assert len(partitions) == 4, "lag and lead of two"


def test_collector_rejects_other_objects_and_too_many_clients():
    registry = CollectorRegistry()
    collector = MetricsCollector(registry)
    with pytest.raises(UsageError, match="is not a client"):
        collector.add("localhost:9092")  # type: ignore[arg-type]
    clients = [Measured(client_id=str(n), partitions=0) for n in range(CLIENTS_MOST)]
    collector.add(*clients)
    with pytest.raises(UsageError, match="use another collector"):
        collector.add(Measured())


def test_missing_prometheus_client_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra, match=r"kohort\[metrics\]"):
        MetricsCollector(object())
