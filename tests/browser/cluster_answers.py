"""Canned answers about the cluster: nodes, topics and their records, pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from browser.incidents import Incident

WithSchema = Callable[..., dict[str, Any]]
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

LOGS = {"replicas": 86, "log_bytes": 7_340_032, "disk_bytes": 10**12, "disk_free_bytes": 10**11, "logs_unknown": None}


def nodes(with_schema: WithSchema, incidents: Incidents) -> dict[str, Any]:
    rows = [
        {
            "node": node, "address": None if node == 2 else f"one:909{node}", "state": "stopped" if node == 2 else "up",
            "leads": 0 if node == 2 else 43, "group_partitions": 0 if node == 2 else 25, "controller": node == 0,
            **ABOUT_ITSELF[node],
            **({"logs_unknown": WHY_NOT} if node else LOGS),
        }
        for node in NODES
    ]  # fmt: skip
    return with_schema("console.nodes", nodes=rows, groups={"0": sorted(incidents), "1": []})


EVIL = '<img src=x onerror="alert(1)">\u202eevil'
WHY_NOT = "the user lacks DESCRIBE on the cluster"


def _row(incidents: Incidents, name: str, number: int) -> dict[str, Any]:
    """Return a topic: the first has all values, of the last one size, rate and options are unknown."""
    looks = [i.looks[-1] for i in incidents.values() if name in i.looks[-1].partition_counts]
    groups = [
        {
            "group": look.group, "health": "OK" if n else "STOP", "state": "Stable", "members": 2,
            "partitions": look.partition_counts[name], "lag": 1_200 - n, "lag_unknown": n,
        }
        for n, look in enumerate(looks)
    ]  # fmt: skip
    is_measured = number % 3 != 2
    return {
        "name": name, "topic_id": f"{number:022d}", "internal": False, "partitions": looks[0].partition_counts[name],
        "without_leader": 0, "out_of_sync": looks[0].partition_counts[name], "offsets": 4_000,
        "size_bytes": 5_000_000 if is_measured else None, "records_per_s": 12.5 if is_measured else None,
        "cleanup_policy": "delete" if is_measured else None, "retention_ms": "604800000" if is_measured else None,
        "retention_bytes": "-1" if is_measured else None, "groups": groups, "groups_in_all": len(groups),
        "unknown": {} if is_measured else {"size": WHY_NOT, "rate": "a rate needs two samples", "options": WHY_NOT},
    }  # fmt: skip


def _names(incidents: Incidents) -> list[str]:
    return sorted({topic for i in incidents.values() for topic in i.looks[-1].partition_counts})


def topics(with_schema: WithSchema, incidents: Incidents) -> dict[str, Any]:
    rows = [_row(incidents, name, n) for n, name in enumerate(_names(incidents))]
    alone = {"groups": [], "groups_in_all": 0, "out_of_sync": 0}
    others = [
        {**rows[0], **alone, "name": EVIL, "cleanup_policy": "compact"},
        {**rows[0], **alone, "name": "__consumer_offsets", "partitions": 50, "internal": True},
    ]
    return with_schema("console.topics", topics=[*rows, *others], left_out=0)


def topic(with_schema: WithSchema, incidents: Incidents, name: str) -> dict[str, Any] | None:
    names = _names(incidents)
    if name not in (*names, EVIL):
        return None
    row = {**_row(incidents, name if name in names else names[0], 0), "name": name}
    partitions = [
        {
            "partition": n, "leader": 0 if n else -1, "leader_epoch": 3, "replicas": [0, 1], "isr": [0],
            "log_start_offset": 0 if n else None, "log_end_offset": 100 if n else None,
            "size_bytes": 70_000 if n else None,
        }
        for n in range(row["partitions"])
    ]  # fmt: skip
    options = [
        {"name": "retention.ms", "value": "604800000", "source": "topic", "secret": False},
        {"name": "ssl.key", "value": None, "source": "static broker", "secret": True},
        {"name": "cleanup.policy", "value": "delete", "source": "default", "secret": False},
    ]
    return with_schema("console.topic", topic=row, partitions=partitions, options=options)


def topic_records(with_schema: WithSchema, name: str, params: Mapping[str, str]) -> dict[str, Any]:
    """Return 20 records of a log of 100, and one match in five for a search."""
    partition, end = int(params.get("partition") or 0), 100
    first, until = end - 20, end
    if "ranges" in params:
        first, until = (int(part) for part in params["ranges"].rpartition(":")[2].split("-"))
    elif "offset" in params:
        first, until = int(params["offset"]), min(end, int(params["offset"]) + 20)
    values: list[Any] = [
        f"record <i>of</i> {name}", '{"id":12345678901234567890,"of":["<b>x</b>"]}', {"base64": "AP8="}, None, EVIL,
    ]  # fmt: skip
    records = [
        {
            "partition": partition, "offset": n, "timestamp_ms": 1_700_000_000_000 + n,
            "key": EVIL if n % 2 else f"k-{n}", "key_size": 4, "value": values[n % 5],
            "value_size": 100_000 if n % 5 == 4 else 20,
            "headers": [{"name": EVIL, "value": EVIL, "size": 30}], "headers_left_out": n % 2,
        }
        for n in range(first, until, 5 if params.get("text") else 1)
    ]  # fmt: skip
    searched = {
        "partition": partition, "log_start_offset": 0, "log_end_offset": end, "first": first, "until": until,
    }  # fmt: skip
    return with_schema(
        "console.records", topic=name, records=records, searched=[searched], searched_records=until - first,
        searched_bytes=2_048, stopped="records" if params.get("text") else None,
        earlier=f"{partition}:{max(0, first - 20)}-{first}" if first else None,
        later=f"{partition}:{until}-{min(end, until + 20)}" if until < end else None,
    )  # fmt: skip


def pipelines(with_schema: WithSchema) -> dict[str, Any]:
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
    return with_schema("console.pipelines", pipelines=whole)


def answer_of_cluster(
    with_schema: WithSchema, incidents: Incidents, parts: Sequence[str], params: Mapping[str, str]
) -> dict[str, Any] | None:
    match parts:
        case ["nodes"]:
            return nodes(with_schema, incidents)
        case ["topics"]:
            return topics(with_schema, incidents)
        case ["topics", name]:
            return topic(with_schema, incidents, name)
        case ["topics", name, "records"]:
            return topic_records(with_schema, name, params)
        case ["pipelines"]:
            return pipelines(with_schema)
    return None
