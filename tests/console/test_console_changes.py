import pytest

import kohort
from kohort.console.changes import ChangeRequest, command_of

EARLIEST = {"to": "earliest"}


def committed(broker, group="billing"):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        found = admin.list_group_offsets(group)
        return {tp.partition: found[tp].offset for tp in found}


def test_reset_is_planned_confirmed_and_executed_once(orders, broker, client):
    plan = client.post("/groups/billing/offsets:plan", EARLIEST).json
    assert (plan["schema"], plan["executed"]) == ("kohort/v1/group.reset-offsets", False)
    assert [(p["partition"], p["prior_offset"], p["new_offset"]) for p in plan["partitions"]] == [
        (0, 10, 0),
        (1, 10, 0),
    ]
    assert plan["command"] == "kohort group reset-offsets billing --to-earliest --execute"
    assert committed(broker) == {0: 10, 1: 10}
    done = client.post("/groups/billing/offsets:apply", {**EARLIEST, "confirm": plan["confirm"]})
    assert (done.status, done.json["executed"]) == (200, True)
    assert committed(broker) == {0: 0, 1: 0}
    again = client.post("/groups/billing/offsets:apply", {**EARLIEST, "confirm": plan["confirm"]})
    assert again.status == 409


@pytest.mark.parametrize("confirm", [None, "", "made up"])
def test_change_without_token_of_plan_is_rejected(confirm, orders, broker, client):
    assert client.post("/groups/billing/offsets:apply", {**EARLIEST, "confirm": confirm}).status == 409
    assert committed(broker) == {0: 10, 1: 10}


def test_token_executes_only_its_own_plan(orders, broker, client):
    for path, body in (
        ("/groups/billing/offsets:apply", {"to": "latest"}),
        ("/groups/other/offsets:apply", EARLIEST),
        ("/groups/billing/offsets:delete:apply", {"topics": ["orders"]}),
        ("/groups/billing/group:delete:apply", {}),
    ):
        confirm = client.post("/groups/billing/offsets:plan", EARLIEST).json["confirm"]
        assert client.post(path, {**body, "confirm": confirm}).status == 409
    assert committed(broker) == {0: 10, 1: 10}


def test_plan_is_rejected_after_change_of_group(orders, broker, client):
    confirm = client.post("/groups/billing/offsets:plan", EARLIEST).json["confirm"]
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("billing", {kohort.TopicPartition("orders", 0): 7})
    response = client.post("/groups/billing/offsets:apply", {**EARLIEST, "confirm": confirm})
    assert (response.status, "has changed" in response.json["error"]) == (409, True)
    assert committed(broker) == {0: 7, 1: 10}


def test_plan_for_active_group_contains_members_and_is_not_executed(member, broker, client):
    plan = client.post("/groups/billing/offsets:plan", EARLIEST).json
    assert [name.split()[0] for name in plan["members"]] == ["c-1"]
    response = client.post("/groups/billing/offsets:apply", {**EARLIEST, "confirm": plan["confirm"]})
    assert (response.status, [name.split()[0] for name in response.json["members"]]) == (409, ["c-1"])
    assert client.post("/groups/billing/group:delete:plan", {}).status == 409
    assert committed(broker) == {0: 10, 1: 10}


def test_change_removes_member(member, broker, client):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        (about,) = admin.describe_groups(["billing"])["billing"].members
    body = {"members": [about.member_id], "reason": "host is down"}
    plan = client.post("/groups/billing/members:remove:plan", body).json
    assert plan["removed"][0]["client_id"] == "c-1"
    assert plan["command"].startswith("kohort group remove-member billing c-1")
    done = client.post("/groups/billing/members:remove:apply", {**body, "confirm": plan["confirm"]})
    assert (done.status, done.json["removed"][0]["member_id"]) == (200, about.member_id)
    assert client.post("/groups/billing/members:remove:plan", {"members": ["nobody"]}).status == 404


def test_change_deletes_offsets_and_group(orders, broker, client):
    body = {"topics": ["orders:1"]}
    plan = client.post("/groups/billing/offsets:delete:plan", body).json
    assert [(d["partition"], d["offset"]) for d in plan["deleted"]] == [(1, 10)]
    assert client.post("/groups/billing/offsets:delete:apply", {**body, "confirm": plan["confirm"]}).status == 200
    assert committed(broker) == {0: 10}
    plan = client.post("/groups/billing/group:delete:plan", {}).json
    done = client.post("/groups/billing/group:delete:apply", {"confirm": plan["confirm"]})
    assert done.json["deleted"] == ["billing"]


@pytest.mark.parametrize(
    "body",
    [{}, {"to": "there"}, {"to": "offset", "value": -1}, {"to": "offset", "value": "x"}, {"to": "datetime", "value": 1},
     {"to": "duration", "value": "soon"}, {"to": "earliest", "topics": ["orders:x"]}, {"to": 1}, {"too": "earliest"},
     {"to": "earliest", "topics": ["t"] * 2000}, {"to": "file", "value": "orders,0"},
     {"to": "file", "value": "orders,0,1", "topics": ["orders"]}, {"to": "group", "value": "billing"}],
)  # fmt: skip
def test_invalid_plan_is_rejected(body, orders, client):
    assert client.post("/groups/billing/offsets:plan", body).status == 400


def test_reset_from_file_reports_invalid_line(orders, broker, client):
    body = {"to": "file", "value": "orders,0,3\norders,1,99\n"}
    plan = client.post("/groups/billing/offsets:plan", body).json
    assert [(p["partition"], p["new_offset"], p["read_again"]) for p in plan["partitions"]] == [(0, 3, 7), (1, 10, 0)]
    assert plan["command"] == "kohort group reset-offsets billing --from-file offsets.csv --execute"
    done = client.post("/groups/billing/offsets:apply", {**body, "confirm": plan["confirm"]})
    assert (done.status, committed(broker)) == (200, {0: 3, 1: 10})
    wrong = client.post("/groups/billing/offsets:plan", {"to": "file", "value": "orders,0,3\norders,one,2"})
    assert (wrong.status, "line 2" in wrong.json["error"]) == (400, True)
    assert client.post("/groups/billing/offsets:plan", {"to": "file", "value": ""}).status == 404


def test_reset_copies_offsets_and_metadata_of_another_group(orders, broker, client):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        at = kohort.OffsetAndMetadata(4, metadata="by hand")
        admin.alter_group_offsets("rehearsal", {kohort.TopicPartition("orders", 1): at})
    body = {"to": "group", "value": "rehearsal"}
    plan = client.post("/groups/billing/offsets:plan", body).json
    assert [(p["partition"], p["prior_offset"], p["new_offset"]) for p in plan["partitions"]] == [(1, 10, 4)]
    assert plan["command"] == "kohort group clone rehearsal billing --execute"
    done = client.post("/groups/billing/offsets:apply", {**body, "confirm": plan["confirm"]})
    assert (done.status, done.json["executed"], committed(broker)) == (200, True, {0: 10, 1: 4})
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.list_group_offsets("billing")[kohort.TopicPartition("orders", 1)].metadata == "by hand"
    assert client.post("/groups/billing/offsets:plan", {"to": "group", "value": "nobody"}).status == 404
    new = client.post("/groups/new/offsets:plan", {"to": "group", "value": "billing"}).json
    assert (
        client.post("/groups/new/offsets:apply", {**body, "value": "billing", "confirm": new["confirm"]}).status == 200
    )
    assert committed(broker, "new") == {0: 10, 1: 4}


def test_command_of_plan_is_quoted_for_shell():
    request = ChangeRequest(to="shift", value=-5, topics=["o'r; rm -rf"])
    command = command_of("offsets", "$(reboot)", request)
    assert command == """kohort group reset-offsets '$(reboot)' --topic 'o'"'"'r; rm -rf' --shift-by -5 --execute"""
