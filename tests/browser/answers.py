"""Console answers for browser tests. They are computed from the journals of simulated incidents.

``test_canned.py`` compares the answers with ``docs/schemas``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from browser.cluster_answers import answer_of_cluster
from browser.incidents import HOSTS, PLAYED, Incident
from kohort.assignors.builtin import ASSIGNORS
from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.errors import UsageError
from kohort.insight.findings.doctor import examine
from kohort.insight.findings.events import find_events
from kohort.insight.findings.fenced import find_fenced
from kohort.insight.findings.groups import GroupFinding, find_group
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.findings.timeline import find_timeline
from kohort.insight.health import WORST
from kohort.insight.patterns import find_patterns
from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.predict import what_if
from kohort.insight.what_if.scenario import Scenario
from kohort.telemetry.report import ClientReport
from kohort.verbs.client_reports import client_rows, software_of_triggers

Params = Mapping[str, str]
POINTS = 90


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]


class NotThere(Exception):
    pass


def with_schema(schema: str, **fields: Any) -> dict[str, Any]:
    return {"schema": f"kohort/v1/{schema}", **msgspec.to_builtins(fields)}


PLAYING = threading.Lock()


def incidents() -> dict[str, Incident]:
    with PLAYING:
        return _played()


@cache
def _played() -> dict[str, Incident]:
    return {incident.group: incident for incident in (play() for play in PLAYED)}


class Moment:
    def __init__(self, params: Params) -> None:
        self.at_ms = int(params["at"]) if "at" in params else max(i.looks[-1].at_ms for i in incidents().values())
        self.from_ms = int(params.get("from") or params.get("since") or 0)
        self.until_ms = min(int(params.get("until") or self.at_ms), self.at_ms)

    def incident(self, group: str) -> Incident:
        if group not in incidents():
            raise NotThere(f"group {group!r} does not exist")
        found = incidents()[group]
        return found._replace(entries=[e for e in found.entries if e.at_ms <= self.until_ms])

    def rebalances(self, group: str) -> list[RebalanceFinding]:
        return find_rebalances(self.incident(group).entries)

    def within(self, group: str) -> list[RebalanceFinding]:
        return [r for r in self.rebalances(group) if r.opened_at_ms + (r.took_ms or 0) >= self.from_ms]

    def status(self, group: str) -> GroupFinding:
        return find_group(self.incident(group).looks, self.rebalances(group))


def answer(method: str, path: str, params: Params, body: Mapping[str, Any] | None = None) -> Answer:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    try:
        moment = Moment(params)
        if parts[0] == "groups" and len(parts) > 1:
            return Answer(200, _of_group(method, parts, moment, body or {}))
        if parts[0] == "explain" and len(parts) == 2:
            return Answer(200, _explained(parts[1]))
        of_cluster = answer_of_cluster(with_schema, incidents(), parts, params)
        if of_cluster is not None:
            return Answer(200, of_cluster)
        whole = WHOLE.get("/".join(parts))
        return _absent(f"nothing is at {path}") if whole is None else Answer(200, whole(moment))
    except NotThere as error:
        return _absent(str(error))
    except (UsageError, ValueError) as error:
        return Answer(400, with_schema("console.error", error=str(error), advice="ask for something else"))


def _absent(what: str) -> Answer:
    return Answer(404, with_schema("console.error", error=what, advice="see the list of groups"))


def _of_group(method: str, parts: list[str], moment: Moment, body: Mapping[str, Any]) -> dict[str, Any]:
    group, what = parts[1], parts[2] if len(parts) > 2 else ""
    incident = moment.incident(group)
    entries = incident.entries
    recent = [entry for entry in entries if entry.at_ms >= moment.from_ms]
    if method == "POST" and what == "what-if":
        return _predicted(incident.looks[-1], body)
    if what == "timeline":
        from_ms = moment.from_ms or min((e.at_ms for e in entries), default=0)
        timeline = find_timeline(entries, group=group, from_ms=from_ms, until_ms=moment.until_ms)
        return with_schema("group.timeline", timeline=timeline)
    if what == "rebalances":
        found = moment.within(group)
        count = len(moment.rebalances(group))
        return with_schema("group.why", group=group, known=count, patterns=find_patterns(found), rebalances=found)
    if what == "events":
        return with_schema("group.events", group=group, events=find_events(recent))
    if what == "fenced":
        return with_schema("group.fenced", group=group, fenced=find_fenced(recent))
    if what == "clients":
        who = [member.member for member in moment.status(group).members]
        return dict(msgspec.to_builtins(client_rows(group, who, entries, None, "a recording has no metrics")))
    if what == "causes":
        return _causes(moment, group) if len(parts) < 4 else _software(moment, group)
    if what == "lag-history":
        return _lag_history(moment, group)
    if what == "peek":
        return _peeked(group, incident)
    if what:
        raise NotThere(f"cause or error {what!r} does not exist")
    return with_schema("group.status", status=moment.status(group))


def _predicted(look: GroupSnapshot, body: Mapping[str, Any]) -> dict[str, Any]:
    scenario = Scenario(
        newcomers=tuple((f"new-{n}", None) for n in range(1, int(body.get("add") or 0) + 1)),
        remove=tuple(body.get("remove") or ()),
        kill=tuple(_killed(text) for text in body.get("kill") or ()),
        assignor=body.get("assignor") or None,
        partitions=dict(body.get("partitions") or {}),
        rolling_restart=bool(body.get("rolling_restart")),
        to_consumer=bool(body.get("to_consumer")),
    )
    ways = [(name, False) for name in ASSIGNORS if look.protocol == "classic"] + [(n, True) for n in SERVER_ASSIGNORS]
    compared = [what_if(look, replace(scenario, assignor=a, to_consumer=modern)) for a, modern in ways]
    rows = [
        {
            "protocol": one.protocol,
            "assignor": one.assignor,
            "rounds": one.rounds,
            "moved": len(one.moves),
            "moved_in_all": one.moves_in_all,
            "pause_from_s": one.pause_from_s,
            "pause_to_s": one.pause_to_s,
            "idle": len(one.idle),
            "most_partitions": max(load.partitions_after or 0 for load in one.loads),
            "least_partitions": min(load.partitions_after or 0 for load in one.loads),
        }
        for one in (compared if body.get("compare") else ())
    ]
    prediction = what_if(look, scenario)
    return with_schema("group.what-if", group=look.group, executed=False, prediction=prediction, compare=rows)


def _killed(text: str) -> tuple[str, Any]:
    name, colon, how = text.rpartition(":")
    return (name, how) if colon and how in ("poll", "sigkill", "close") else (text, "sigkill")


def _lag_history(moment: Moment, group: str) -> dict[str, Any]:
    incident = moment.incident(group)
    begin = max(moment.from_ms, incident.entries[0].at_ms if incident.entries else 0)
    times = [begin + (moment.until_ms - begin) * n // POINTS for n in range(POINTS + 1)]
    opened = [r.opened_at_ms for r in moment.rebalances(group)]
    waits = [min((at - o for o in opened if o <= at), default=10**9) for at in times]
    lag: list[int | None] = [
        max(0, 900 - abs(wait - 6000) // 10) + (at // 997) % 90 for wait, at in zip(waits, times, strict=True)
    ]
    lag[POINTS // 3] = None
    seconds = [None if one is None else one * 11 for one in lag]
    topics = dict.fromkeys(incident.looks[-1].partition_counts, lag)
    return with_schema("console.lag-history", group=group, times_ms=times, lag=lag, lag_ms=seconds, topics=topics)


def _peeked(group: str, incident: Incident) -> dict[str, Any]:
    at = incident.looks[-1].partitions[0]
    records = [
        {
            "read": "yes" if n < (at.committed or 0) else "next" if n == at.committed else "no",
            "offset": n,
            "timestamp_ms": incident.looks[-1].at_ms - 1000 * ((at.log_end or 0) - n),
            "key": f"key-{n}",
            "value": {"base64": "AP8="} if n % 3 == 0 else f'{{"amount": {n}, "note": "<b>no markup</b>"}}',
            "headers": [{"name": "trace", "value": f"{n:08x}"}],
        }
        for n in range(max(0, (at.committed or 0) - 3), (at.committed or 0) + 3)
    ]
    return with_schema(
        "group.peek", group=group, topic=at.partition.topic, partition=at.partition.partition,
        committed=at.committed or 0, log_start_offset=at.log_start, log_end_offset=at.log_end, records=records,
    )  # fmt: skip


def group_rows(moment: Moment) -> list[dict[str, Any]]:
    found = sorted((moment.status(g) for g in incidents()), key=lambda g: (WORST.index(g.health), -(g.lag or 0)))
    kept = (
        "group", "state", "lag", "protocol_type", "coordinator_id", "health", "reason", "lag_ms", "lag_ms_complete",
        "eta_ms", "draining", "blame", "rebalances_1h", "last_rebalance",
    )  # fmt: skip
    return [
        {
            **{name: msgspec.to_builtins(getattr(g, name)) for name in kept},
            "members": len(g.members),
            "partitions": len(g.partitions),
            "assignor": g.assignor or "",
            "group_type": g.protocol,
            "topics": sorted({one.topic for one in g.partitions}),
            "stable_share_1h": g.stable_share_1h,
            "idle_members": sum(member.state == "idle" for member in g.members),
        }
        for g in found
    ]


def _groups(moment: Moment) -> dict[str, Any]:
    trends = {group: _lag_history(moment, group)["lag"][-30:] for group in incidents()}
    return with_schema("groups", groups=[{**row, "trend": trends[row["group"]]} for row in group_rows(moment)])


def _cluster(moment: Moment) -> dict[str, Any]:
    first = min(incident.entries[0].at_ms for incident in incidents().values())
    journal = {
        "kind": "recording", "since_ms": first, "until_ms": moment.until_ms, "stale": False, "why_not": None,
    }  # fmt: skip
    return with_schema(
        "console.cluster", cluster_id="canned", address=None, version="0.1.0", now_ms=moment.at_ms, kind="recorded",
        title="Canned incidents", allow_changes=False, journal=journal, unseen=[], user=None, token=None,
    )  # fmt: skip


def _doctor(moment: Moment) -> dict[str, Any]:
    findings = [one for g in incidents() for one in examine(moment.status(g), moment.rebalances(g))]
    return with_schema("doctor", examined=len(incidents()), findings=findings)


def _causes(moment: Moment, group: str | None = None) -> dict[str, Any]:
    groups = [g for g in incidents() if group in (None, g)]
    found = [r for g in groups for r in moment.within(g)]
    begin = min((r.opened_at_ms for r in found), default=moment.until_ms) // 60_000 * 60_000
    buckets = [
        {
            "from_ms": at,
            "until_ms": at + 60_000,
            "by_cause": dict(Counter(r.cause for r in found if at <= r.opened_at_ms < at + 60_000)),
        }
        for at in range(begin, moment.until_ms + 1, 60_000)
    ]
    clients = Counter((r.trigger.client_id, r.cause) for r in found if r.trigger is not None)
    offenders = [
        {"kind": "client", "name": name, "rebalances": times, "cause": cause}
        for (name, cause), times in clients.most_common(10)
    ]
    share = {
        g: round(1 - sum(r.took_ms or 0 for r in moment.within(g)) / max(1, moment.until_ms - begin), 4) for g in groups
    }
    return with_schema("console.causes", buckets=buckets, offenders=offenders, stable_share=share)


def _software(moment: Moment, group: str | None = None) -> dict[str, Any]:
    found = [r for g in incidents() if group in (None, g) for r in moment.within(g)]
    reports = [
        ClientReport(
            at_ms=0, client_instance_id=name, client_id=name, host=HOSTS.get(name, "/10.0.0.1"), node_id=0,
            interval_ms=1, software_name=software, software_version=version, labels={"group_id": "checkout"},
        )
        for name, software, version in (
            ("checkout-3", "apache-kafka-java", "2.8.0"), ("checkout-4", "<b>librdkafka</b>", "2.6.0\u202e"),
        )
    ]  # fmt: skip
    return dict(msgspec.to_builtins(software_of_triggers(found, {}, reports, "")))


def _explained(code: str) -> dict[str, Any]:
    from kohort.insight.catalogue import find_cause_entry

    entry = find_cause_entry(code)
    if entry is None:
        raise NotThere(f"cause {code!r} does not exist")
    about = {
        "code": entry.code, "sentence": entry.sentence, "proof": entry.proof, "advice": entry.advice,
        "look_alikes": [{"cause": other, "difference": words} for other, words in entry.look_alikes],
        "kafka_log": entry.kafka_log, "kind": entry.kind,
    }  # fmt: skip
    return with_schema("explain", cause=about, error=None)


WHOLE: dict[str, Callable[[Moment], dict[str, Any]]] = {
    "cluster": _cluster,
    "groups": _groups,
    "doctor": _doctor,
    "causes": _causes,
    "causes/software": _software,
}
