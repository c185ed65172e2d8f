import asyncio
import json
import socket
from pathlib import Path

import jsonschema
import pytest

import kohort
from kohort.console.app import ConsoleOptions
from kohort.console.serving import ConsolePlace, _listening
from kohort.results.console import CONSOLE_RESULTS
from kohort.results.result import schema_name
from kohort.results.result import schema_of as made_schema
from support.console_client import console, in_path, live

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
PATHS = {
    "/cluster": "console.cluster",
    "/groups": "console.groups",
    "/groups/billing": "group.status",
    "/groups/billing/timeline": "group.timeline",
    "/groups/billing/rebalances": "group.why",
    "/groups/billing/events": "group.events",
    "/groups/billing/fenced": "group.fenced",
    "/groups/billing/lag-history": "console.lag-history",
    "/groups/billing/describe": "group.describe",
    "/groups/billing/clients": "console.clients",
    "/groups/billing/causes": "console.causes",
    "/groups/billing/causes/software": "console.causes-software",
    "/groups/billing/peek?topic=orders&partition=0": "group.peek",
    "/doctor": "doctor",
    "/doctor?group=billing": "doctor",
    "/causes": "console.causes",
    "/causes/software": "console.causes-software",
    "/nodes": "console.nodes",
    "/topics": "console.topics",
    "/topics/orders": "console.topic",
    "/topics/orders/records?partition=1": "console.records",
    "/topics/orders/records?text=order&in=value": "console.records",
    "/pipelines": "console.pipelines",
    "/explain/MAX_POLL_EXCEEDED": "explain",
}


def test_every_answer_matches_its_schema(orders, client):
    for path, name in PATHS.items():
        response = client.get(path)
        assert response.status == 200, (path, response.body)
        assert response.json["schema"] == f"kohort/v1/{name}"
        jsonschema.validate(response.json, json.loads((SCHEMAS / f"{name}.json").read_text()))
        assert response.headers["cache-control"] == "no-store"


def test_schema_files_of_console_match_structs():
    for kind in CONSOLE_RESULTS:
        name = schema_name(kind).removeprefix("kohort/v1/")
        assert json.loads((SCHEMAS / f"{name}.json").read_text()) == json.loads(json.dumps(made_schema(kind)))


def test_group_answer_has_lag_and_causes_of_rebalances(orders, broker, client):
    row = next(row for row in client.get("/groups").json["groups"] if row["group"] == orders)
    assert (row["lag"], row["members"], row["state"]) == (0, 0, "Empty")
    rebalances = client.get(f"/groups/{orders}/rebalances").json
    assert rebalances["rebalances"][0]["cause"] == "GROUP_FORMING"
    lanes = client.get(f"/groups/{orders}/timeline").json["timeline"]["lanes"]
    assert ["orders-0", "orders-1"] in [spell["partitions"] for spell in lanes[0]["assignments"]]
    assert client.get("/cluster").json["journal"]["kind"] == "journal topic"
    assert client.get(f"/groups/{orders}/peek?topic=orders&partition=0").json["records"][-1]["value"] == "order"


def test_past_state_of_group_comes_from_journal(orders, client):
    events = client.get(f"/groups/{orders}/events").json["events"]
    had = max(event["at_ms"] for event in events if event["kind"] == "assignment_written")
    status = client.get(f"/groups/{orders}?at={had}").json["status"]
    assert [member["partitions"] for member in status["members"]] == [["orders-0", "orders-1"]]
    assert status["lag"] is None  # the journal has no offsets: the lag is unknown, not 0
    assert client.get("/groups?at=1").json["groups"] == []
    assert client.get(f"/groups/{orders}?at=1").status == 404
    until = client.get(f"/groups/{orders}/events?until={had}").json["events"]
    assert 0 < len(until) < len(events)


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "a/b",
        "a%2Fb",
        "\x1b[31mred",
        "\u202edlrow",
        "x" * 30_000,
        "ü?#&=",
        '"};</script>',
        " ",
    ],
)
def test_hostile_names_are_encoded_as_text(name, orders, broker, folder):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets(name, {kohort.TopicPartition("orders", 0): 3})
    with console(live(broker), folder) as client:
        response = client.get("/groups")
        assert name in [row["group"] for row in response.json["groups"]]
        assert client.get(f"/groups/{in_path(name)}").json["status"]["group"] == name
        missing = client.get(f"/groups/{in_path(name)}-not")
        assert (missing.status, missing.headers["content-type"]) == (404, "application/json")


def test_missing_or_invalid_request_is_error_with_advice(orders, client):
    for path, status in {
        "/groups/nope": 404,
        "/groups/nope/timeline": 404,
        "/nowhere": 404,
        "/groups/billing/peek": 400,
        "/groups/billing/timeline?from=yesterday": 400,
        "/groups/billing/events?at=-1": 400,
        "/groups/%ff": 400,
        "/topics/nope": 404,
        "/topics/nope/records": 404,
        "/topics/orders/records?partition=7": 404,
        "/topics/orders/records?ranges=0:a-b": 400,
        "/topics/orders/records?text=a&in=colour": 400,
        "/topics/orders/records?offset=1&time=1": 400,
        "/topics/orders/records?text=" + "a" * 1_001: 400,
        "/explain/NOPE": 404,
    }.items():
        response = client.get(path)
        assert response.status == status, (path, response.body)
        assert response.json["schema"] == "kohort/v1/console.error"
        assert response.json["advice"]
        assert b"Traceback" not in response.body
    assert "billing" in client.get("/groups/biling").json["error"]  # the error suggests the nearest group name


def test_what_if_answer_equals_command_output(member, folder, broker):
    with console(live(broker), folder) as client:
        response = client.post("/groups/billing/what-if", {"add": 2, "compare": True})
        assert (response.status, response.json["executed"]) == (200, False)
        assert response.json["prediction"]["members_after"] == 3
        assert response.json["compare"]
        check_invalid_requests(client)


def check_invalid_requests(client):
    for wrong in ({"static": True}, {"add": 0}, {"add": "two"}, {"more": 1}, {"remove": ["nobody"]}, {"add": 10**9}):
        assert client.post("/groups/billing/what-if", wrong).status == 400


def test_console_sends_small_answers_without_delay():
    async def delay_is_off():
        accepted = asyncio.get_running_loop().create_future()
        listening = _listening(ConsolePlace("127.0.0.1", 0))
        async with await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listening):
            _, client = await asyncio.open_connection(*listening.getsockname())
            server = await accepted
            option = server.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            client.close()
            server.close()
        return option

    assert asyncio.run(delay_is_off())


def test_clients_answer_has_software_or_reason_why_it_is_unknown(broker, orders, folder):
    options = {"group_id": "billing", "client_id": "c-1", "group_protocol": "classic", "max_poll_interval_ms": 70_000}
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, session_timeout_ms=20_000, **options) as consumer:
        consumer.subscribe(["orders"])
        while len(consumer.assignment()) < 2:
            consumer.poll(100)
        with console(live(broker), folder) as client:
            (row,) = client.get("/groups/billing/clients").json["clients"]
            assert client.get("/groups/nope/clients").status == 404
    assert (row["session_timeout_ms"], row["rebalance_timeout_ms"]) == (20_000, 70_000)
    assert (row["software"], row["last_poll_ms_ago"]) == (f"kohort {kohort.__version__}", None)
    assert sorted(row["unknown"]) == ["polls"]
    assert "KIP-714" in row["unknown"]["polls"]


def test_unreadable_pipeline_does_not_hide_other_pipelines(orders, broker, folder, tmp_path):
    (tmp_path / "broken.yaml").write_text("sources: [")
    options = ConsoleOptions(pipelines=[tmp_path / "broken.yaml", tmp_path / "gone.yaml"])
    with console(live(broker), folder, options) as client:
        pipelines = client.get("/pipelines").json["pipelines"]
    assert [one["name"] for one in pipelines] == ["broken.yaml", "gone.yaml"]
    assert all(one["problem"] for one in pipelines)
