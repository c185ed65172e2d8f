from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from client_metrics_table import METRICS

import kohort
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import BLOCKED

OPTIONAL = {"partition-lost-latency", "partition-revoked-latency"}


def documented(kind: str) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(row.group, name, row.tags) for row in METRICS[kind] for name in row.names}


def emitted(all_found: Iterable[MetricsSnapshot]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(n.group, n.name, tuple(key for key, _ in n.tags[1:])) for found in all_found for n in found}


def test_metric_names_are_unique():
    for rows in METRICS.values():
        names = [(row.group, name, row.tags) for row in rows for name in row.names]
        assert len(names) == len(set(names))


def test_waiting_time_has_a_metric():
    names = {name for row in METRICS["producer"] for name in row.names}
    assert set(BLOCKED.values()) <= names


def test_every_client_emits_the_documented_metrics(bootstrap: str):
    with kohort.Producer(bootstrap_servers=bootstrap, client_id="p") as producer:
        producer.send("metric-names", b"v").result()
        sent = producer.metrics()
        assert sent.value("record-send-total", topic="metric-names") == 1
    read = []
    for protocol in ("classic", "consumer"):
        options = {"group_id": f"metric-names-{protocol}", "group_protocol": protocol, "auto_offset_reset": "earliest"}
        with kohort.Consumer(bootstrap_servers=bootstrap, **options) as consumer:
            consumer.subscribe("metric-names", listener=NullListener())
            while not consumer.poll(1000):
                pass
            consumer.commit()
            read.append(consumer.metrics())
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        results = admin.delete_topics(["nowhere-at-all"], check=False)
        assert results.errors
        metrics = admin.metrics()

    errors = ("kohort-error-metrics", "error-total", ("api", "error"))
    throttle = {("kohort-request-metrics", f"throttle-time-{n}", ("api",)) for n in ("avg", "max")}
    assert emitted([sent]) | {errors} == documented("producer")
    assert {m for m in documented("consumer") - emitted(read) if not m[1].startswith(tuple(OPTIONAL))} <= {errors}
    assert emitted(read) <= documented("consumer")
    assert emitted([metrics]) | {errors} | throttle == documented("admin")


class NullListener(kohort.RebalanceListener):
    def on_partitions_revoked(self, partitions):
        pass

    def on_partitions_assigned(self, partitions):
        pass

    def on_partitions_lost(self, partitions):
        pass


def test_client_metrics_reference_is_complete():
    page = (Path(__file__).parents[2] / "docs/reference/client-metrics.md").read_text()
    assert [row.stem for rows in METRICS.values() for row in rows if f"`{row.names[0]}`" not in page] == []
