from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from urllib.parse import parse_qsl

import jsonschema
import pytest

from browser.answers import answer, incidents
from browser.canned import POLICY, canned_console, import_map

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
OF_GROUP = ("", "timeline", "rebalances", "events", "fenced", "peek", "lag-history", "clients", "causes")
WHOLE = (
    "cluster", "groups", "doctor", "causes", "nodes", "topics", "topics/orders",
    "topics/orders/records?partition=0", "pipelines", "explain/MAX_POLL_EXCEEDED",
)  # fmt: skip


def paths():
    from urllib.parse import quote

    names = [quote(group, safe="") for group in incidents()]
    return [*WHOLE, *(f"groups/{group}/{what}".rstrip("/") for group in names for what in OF_GROUP)]


def check_schema(body):
    file = SCHEMAS / f"{body['schema'].removeprefix('kohort/v1/')}.json"
    if file.exists():
        jsonschema.validate(body, json.loads(file.read_text()))


def test_every_canned_answer_matches_its_schema():
    for path in paths():
        at, _, query = path.partition("?")
        found = answer("GET", at, dict(parse_qsl(query)))
        assert found.status == 200, path
        check_schema(json.loads(json.dumps(found.body)))


def test_canned_what_if_uses_real_prediction():
    predicted = answer("POST", "groups/checkout/what-if", {}, {"add": 2, "compare": True})
    check_schema(json.loads(json.dumps(predicted.body)))

    assert predicted.body["prediction"]["members_after"] == 5
    assert {row["assignor"] for row in predicted.body["compare"]} >= {"range", "cooperative-sticky", "uniform"}


def test_canned_past_state_is_from_requested_time():
    late = answer("GET", "groups/checkout/rebalances", {}).body["rebalances"]
    early = answer("GET", "groups/checkout/rebalances", {"at": str(late[3]["opened_at_ms"])}).body["rebalances"]

    assert [one["id"] for one in early] == [*(one["id"] for one in late[:3]), "checkout/after-3"]
    assert (early[3]["end"], late[3]["end"]) == ("open", "next_round") or early[3]["took_ms"] is None


@pytest.mark.parametrize(("path", "status"), [("groups/nobody", 404), ("nowhere", 404), ("groups/checkout/what", 404)])
def test_canned_answer_about_missing_group_is_error_with_advice(path, status):
    found = answer("GET", path, {})

    assert (found.status, found.body["schema"], bool(found.body["advice"])) == (
        (status, "kohort/v1/console.error", True)
    )


def test_content_policy_of_page_contains_hash_of_import_map():
    with canned_console() as console:
        console.pages["/p"] = f"<!doctype html>{import_map()}"
        with urllib.request.urlopen(f"{console.address}/p") as got:
            policy = got.headers["Content-Security-Policy"]

    assert policy.startswith(POLICY.partition("{")[0] + " 'sha256-")


def test_canned_stream_sends_events_and_continues_event_ids():
    with canned_console() as console:
        request = urllib.request.Request(f"{console.address}/api/v1/stream", headers={"Last-Event-ID": "41"})
        with urllib.request.urlopen(request) as stream:
            lines = iter(stream)
            assert next(lines) == b"retry: 300\n"
            console.push("groups", {"rows": []})
            assert next(lines) == b"\n"
            assert [next(lines) for _ in range(3)] == [b"id: 42\n", b"event: groups\n", b'data: {"rows": []}\n']
