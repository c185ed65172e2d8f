"""Canned answers about the cluster: nodes, topics and their records, pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from browser.incidents import Incident

Told = Callable[..., dict[str, Any]]
Incidents = Mapping[str, Incident]
NODES = (0, 1, 2)
ABOUT_ITSELF: Mapping[int, dict[str, Any]] = {
    0: {"loads": 50, "load_avg_ms": 3, "load_max_ms": 41, "late_ms": 12, "late_max_ms": 1_310, "unknown": None},
    1: {"loads": 0, "load_avg_ms": None, "load_max_ms": None, "late_ms": 2, "late_max_ms": 9, "unknown": None},
    2: {
        "loads": None, "load_avg_ms": None, "load_max_ms": None, "late_ms": None, "late_max_ms": None,
        "unknown": "stopped",
    },
}  # fmt: skip


def nodes(told: Told, incidents: Incidents) -> dict[str, Any]:
    rows = [
        {
            "node": node, "address": None if node == 2 else f"one:909{node}", "state": "stopped" if node == 2 else "up",
            "leads": 0 if node == 2 else 43, "group_partitions": 0 if node == 2 else 25, "controller": node == 0,
            **ABOUT_ITSELF[node],
        }
        for node in NODES
    ]  # fmt: skip
    return told("console.nodes", nodes=rows, groups={"0": sorted(incidents), "1": []})


def topics(told: Told, incidents: Incidents) -> dict[str, Any]:
    counts = {topic: n for i in incidents.values() for topic, n in i.looks[-1].partition_counts.items()}
    rows = [
        {"name": name, "topic_id": f"{n:022d}", "partitions": counts[name], "internal": False}
        for n, name in enumerate(sorted(counts))
    ]
    return told(
        "topics.list", topics=[*rows, {**rows[0], "name": "__consumer_offsets", "partitions": 50, "internal": True}]
    )


def topic(told: Told, incidents: Incidents, name: str) -> dict[str, Any] | None:
    look = next((i.looks[-1] for i in incidents.values() if name in i.looks[-1].partition_counts), None)
    if look is None:
        return None
    partitions = [
        {
            "partition": p.partition.partition, "leader": 0, "leader_epoch": 3, "replicas": [0, 1], "isr": [0],
            "log_start_offset": p.log_start or 0, "log_end_offset": p.log_end or 0,
        }
        for p in look.partitions
        if p.partition.topic == name
    ]  # fmt: skip
    about = {"name": name, "topic_id": f"{1:022d}", "internal": False, "partitions": partitions}
    return told("topics.describe", topics=[{**about, "configs": {"retention.ms": "3600000", "ssl.key": None}}])


def topic_records(told: Told, name: str, params: Mapping[str, str]) -> dict[str, Any]:
    many, end = int(params.get("count", 20)), 100
    first = min(int(params["offset"]) if "offset" in params else end - many, end)
    records = [
        {
            "read": "next" if n == first else "no", "offset": n, "timestamp_ms": 1_700_000_000_000 + n,
            "key": None, "value": f"record {n} <i>of</i> {name}", "headers": [],
        }
        for n in range(first, min(end, first + many))
    ]  # fmt: skip
    return told(
        "group.peek", group="", topic=name, partition=int(params["partition"]), committed=first, log_start_offset=0,
        log_end_offset=end, records=records,
    )  # fmt: skip


def pipelines(told: Told) -> dict[str, Any]:
    ledger = {
        "rows_in": 3000, "undecoded": 3, "filtered": 0, "dropped": {"no-amount": 7}, "quarantined": {},
        "dead_letters": 3, "sinks": {"lake": 2990}, "batches": 2, "redelivered": 0, "problems": [], "late": 0,
        "stands_for": {}, "waited": {}, "held": {}, "sources": {"orders": 3000}, "balanced": True,
    }  # fmt: skip
    batches = [
        {
            "batch": n, "done": f"2026-11-20T08:0{n}:00+00:00", "rows": 1500, "redelivered": 0, "dead_letters": n,
            "late": 0, "sinks": {"lake": 1495},
        }
        for n in range(2)
    ]  # fmt: skip
    place = {"earliest": 0, "latest": 3100, "committed": 3000, "lag": 100}
    source = {"name": "orders", "group": "billing", "lag": 100, "partitions": {"orders-0": place}}
    running = {"host": "spark-1", "pid": 42, "since_ms": 1_700_000_000_000}
    runs = {"sources": [source], "last_run": {"ledger": ledger}, "running": running, "batches": batches}
    nothing: dict[str, Any] = {"sources": [], "last_run": None, "running": None, "batches": []}
    why = "broken.yaml: line 3: <b>sinks</b> is missing"
    schema = "kohort/v1/pipeline.status"
    whole = [
        {"schema": schema, "name": "enrich", **runs, "problem": None},
        {"schema": schema, "name": "broken.yaml", **nothing, "problem": why},
    ]
    return told("console.pipelines", pipelines=whole)


def answer_of_cluster(
    told: Told, incidents: Incidents, parts: Sequence[str], params: Mapping[str, str]
) -> dict[str, Any] | None:
    match parts:
        case ["nodes"]:
            return nodes(told, incidents)
        case ["topics"]:
            return topics(told, incidents)
        case ["topics", name]:
            return topic(told, incidents, name)
        case ["topics", name, "peek"]:
            return topic_records(told, name, params)
        case ["pipelines"]:
            return pipelines(told)
    return None
