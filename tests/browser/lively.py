from __future__ import annotations

from typing import TYPE_CHECKING, Any

from browser.answers import Answer, answer, with_schema

if TYPE_CHECKING:
    from browser.canned import CannedConsole

TOKEN = "token-of-this-session"


def cluster(*, allow_changes: bool = False) -> dict[str, Any]:
    recorded = answer("GET", "cluster", {}).body
    journal = {**recorded["journal"], "kind": "journal topic"}
    live = {"kind": "live", "title": "production", "address": "one:9092", "token": TOKEN, "user": "alice"}
    unseen = ["ACLs: the right to describe the cluster is missing"]
    return {**recorded, **live, "journal": journal, "allow_changes": allow_changes, "unseen": unseen}


def make_live(canned: CannedConsole, *, allow_changes: bool = False) -> None:
    """Let the canned console answer as if it had a live cluster."""
    canned.answers["/api/v1/cluster"] = lambda _: cluster(allow_changes=allow_changes)
    for group in ("checkout", "payments"):
        canned.answers[f"/api/v1/groups/{group}/describe"] = lambda _, group=group: described(group)
        canned.answers[f"/api/v1/groups/{group}/clients"] = lambda _, group=group: clients(group)


def rows() -> list[dict[str, Any]]:
    return list(answer("GET", "groups", {}).body["groups"])


def serve_groups(canned: CannedConsole, groups: list[dict[str, Any]]) -> None:
    trends = {row["group"]: [1, 2, None, 4] for row in groups}
    canned.answers["/api/v1/groups"] = lambda _: with_schema("console.groups", at_ms=0, groups=groups, trends=trends)


def many_groups(number: int) -> list[dict[str, Any]]:
    first = rows()[0]
    return [
        {**first, "group": f"group-{n:05d}", "health": "STOP" if n % 10 == 0 else "OK", "lag": n} for n in range(number)
    ]


def status_of(group: str) -> dict[str, Any]:
    return dict(answer("GET", f"groups/{group}", {}).body["status"])


def described(group: str) -> dict[str, Any]:
    status = status_of(group)
    members = []
    for place, one in enumerate(status["members"]):
        members.append(
            {
                "member_id": one["member"]["member_id"], "group_instance_id": None,
                "client_id": one["member"]["client_id"],
                "host": one["member"]["host"], "topics": one["topics"], "assignment": one["partitions"],
                "member_type": status["protocol"], "member_epoch": one["epoch"], "topic_regex": None, "rack_id": None,
                "target_assignment": one["partitions"][1:] if place == 0 else one["partitions"],
                "to_revoke": one["partitions"][:1] if place == 0 else [],
                "to_get": status["members"][0]["partitions"][:1] if place == 1 else [],
                "lag": one["lag"],
            }
        )  # fmt: skip
    return with_schema("group.describe", group=group, members=members, partitions=[], unowned=[])


def clients(group: str) -> dict[str, Any]:
    status = status_of(group)
    rows = [
        {
            "member_id": one["member"]["member_id"], "software": "<b>librdkafka</b> 2.6.1" if place == 0 else None,
            "session_timeout_ms": 45_000 if place < 2 else None,
            "rebalance_timeout_ms": 300_000 if place < 2 else None, "longest_poll_gap_ms": 20_000,
            "last_poll_ms_ago": 12_000 if place == 0 else None, "said_at_ms": status["at_ms"] if place == 0 else None,
            "unknown": {"software": "it pushes none", "polls": "it pushes none", "limits": "it joined long ago"},
        }
        for place, one in enumerate(status["members"])
    ]  # fmt: skip
    return with_schema("console.clients", group=group, clients=rows)


def wide_status(members: int, partitions: int) -> dict[str, Any]:
    status = status_of("checkout")
    member, partition = status["members"][0], status["partitions"][0]
    names = [f"wide-{n}" for n in range(members)]
    status["members"] = [
        {
            **member,
            "member": {**member["member"], "member_id": name, "client_id": name},
            "partitions": [f"wide-{place}" for place in range(n, partitions, members)],
        }
        for n, name in enumerate(names)
    ]
    status["partitions"] = [
        {**partition, "topic": "wide", "partition": n, "owner": status["members"][n % members]["member"]}
        for n in range(partitions)
    ]
    return status


def changed_status(status: dict[str, Any], looks: int) -> dict[str, Any]:
    status = {**status, "lag": 100 * len(status["partitions"]) + looks}
    status["partitions"] = [
        {**one, "committed": 1000 + 50 * looks, "log_end": 1100 + 50 * looks, "lag": 100}
        for one in status["partitions"]
    ]
    return status


def refuse(error: str, advice: str, status: int = 409) -> Answer:
    """Return an error answer in the format of the console."""
    return Answer(status, with_schema("console.error", error=error, advice=advice, members=[]))
