from __future__ import annotations

import json

import msgspec
import pytest
from click.shell_completion import ShellComplete

import kohort
from kohort.cli.main import main
from kohort.results.groups import GroupsDescribed

POLLS = 100


@pytest.fixture
def orders(run):
    run("topics", "create", "orders", "--partitions", "2", "--if-not-exists")
    run("produce", "orders", "--partition", "0", stdin="1\n2\n3\n")
    yield "orders"
    for name in ("g", "h", "m"):
        run("group", "delete", name, "--yes", code=None)
    run("topics", "delete", "orders", "--yes")


@pytest.fixture
def run(run):
    def call(*args, code=0, **options):
        if code is not None:
            return run(*args, code=code, **options)
        try:
            return run(*args, **options)
        except AssertionError:
            return None

    return call


def member(broker, group, **options):
    consumer = kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id=group, **options)
    consumer.subscribe(["orders"])
    for _ in range(POLLS):
        consumer.poll(100)
        if consumer.assignment():
            return consumer
    raise AssertionError("the member got no partitions")


def test_remove_member_removes_stopped_static_member_with_reason(run, ask, broker, orders):
    member(broker, "g", group_instance_id="billing-3", client_id="billing").close()
    assert [m["group_instance_id"] for m in ask("group", "describe", "g")["members"]] == ["billing-3"]
    wrong = run("group", "remove-member", "g", "billing-4", "--yes", code=3)
    assert wrong.stderr == "kohort group: group 'g' has no member 'billing-4'; did you mean billing-3?\n"
    assert "expected either MEMBER or --all" in run("group", "remove-member", "g", code=2).stderr
    assert "Add --yes to confirm" in run("group", "remove-member", "g", "billing-3", code=2).stderr

    removed = run("group", "remove-member", "g", "billing-3", "--reason", "host is down", "--yes")

    assert removed.stdout == "removed billing-3 of billing at /127.0.0.1\n"
    assert ask("group", "describe", "g")["members"] == []
    last = ask("group", "why", "g")["rebalances"][-1]
    assert last["cause"] == "ADMIN_REMOVED"
    assert any("host is down" in fact["value"] for fact in last["evidence"])
    assert "has no members" in run("group", "remove-member", "g", "--all", "--yes", code=3).stderr


def test_remove_member_accepts_member_id_of_classic_member(run, ask, broker, orders):
    with member(broker, "g", client_id="reader"):
        (about,) = ask("group", "describe", "g")["members"]
        complete = ShellComplete(main, {}, "kohort", "_KOHORT_COMPLETE")
        words = ["group", "remove-member", "--bootstrap", broker.bootstrap, "g"]
        assert [item.value for item in complete.get_completions(words, "")] == [about["member_id"]]

        removed = ask("group", "remove-member", "g", about["member_id"], "--yes")

        assert [(m["member_id"], m["assignment"]) for m in removed["removed"]] == [
            (about["member_id"], ["orders-0", "orders-1"])
        ]


def test_remove_member_removes_consumer_protocol_member(run, ask, broker, orders):
    with member(broker, "m", group_protocol="consumer", client_id="reader"):
        assert run("group", "remove-member", "m", "--all", "--yes").stdout.endswith(" of reader at /127.0.0.1\n")
        assert ask("group", "describe", "m")["members"] == []


def test_remove_member_removes_static_consumer_protocol_member(run, ask, broker, orders):
    with member(broker, "m", group_protocol="consumer", group_instance_id="one"):
        assert run("group", "remove-member", "m", "one", "--yes").stdout.startswith("removed one of ")
        assert ask("group", "describe", "m")["members"] == []


def test_delete_offsets_is_refused_for_subscribed_topic(run, ask, broker, orders):
    run("consume", "orders", "--group", "g", "--from-beginning", "--max", "3")
    with member(broker, "g"):
        refused = run("group", "delete-offsets", "g", "--topic", "orders", "--yes", code=5)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in refused.stderr
    assert "Add --yes" in run("group", "delete-offsets", "g", "--topic", "orders:0", code=2).stderr
    assert "expected TOPIC" in run("group", "delete-offsets", "g", "--topic", "orders:", "--yes", code=2).stderr

    assert run("group", "delete-offsets", "g", "--topic", "orders:0", "--yes").stdout == "orders-0: deleted offset 3\n"

    assert 0 not in [p["partition"] for p in ask("group", "describe", "g")["partitions"]]
    assert "has no committed offset for" in run("group", "delete-offsets", "g", "--topic", "no", "--yes", code=3).stderr
    assert "does not exist" in run("group", "delete-offsets", "nobody", "--topic", "orders", "--yes", code=3).stderr


def test_clone_copies_committed_offsets(run, ask, broker, orders):
    run("consume", "orders", "--group", "g", "--from-beginning", "--max", "2")
    shown = run("group", "clone", "g", "h")
    assert "group 'h' does not exist; --execute creates it" in shown.stderr
    assert "same group" in run("group", "clone", "g", "g", code=2).stderr
    assert "does not exist" in run("group", "clone", "nobody", "h", code=3).stderr

    run("group", "clone", "g", "h", "--execute")

    assert ask("group", "describe", "h")["lag"] == ask("group", "describe", "g")["lag"] == 1
    with member(broker, "h"):
        assert "while it has members" in run("group", "clone", "g", "h", "--execute", code=5).stderr


@pytest.fixture
def half_denied(run):
    options = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with kohort.Broker({**options, "allow.everyone.if.no.acl.found": "true", "num.partitions": 1}) as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"mine": 1, "theirs": 1})
            admin.alter_group_offsets("g", {kohort.TopicPartition(name, 0): 0 for name in ("mine", "theirs")})
            with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
                for name in ("mine", "theirs"):
                    producer.send(name, b"x").result(30_000)
        at = ("--bootstrap", broker.bootstrap)
        run("acls", "add", "--allow-principal", "User:ANONYMOUS", "--operation", "Describe", "--topic", "theirs", *at)
        yield at


@pytest.mark.parametrize("words", [("reset-offsets", "g", "--to-latest"), ("clone", "g", "h")])
def test_reset_offsets_reports_unauthorised_partitions(run, half_denied, words):
    done = run("group", *words, "--execute", *half_denied, code=6)

    assert [line.split()[1] for line in done.stdout.splitlines()] == ["TOPIC", "mine"]
    assert "in theirs-0: TOPIC_AUTHORIZATION_FAILED" in done.stderr
    output = json.loads(run("group", *words, "--execute", *half_denied, "--output", "json", code=6).stdout)
    assert [(p["topic"], p["error"] is None) for p in output["partitions"]] == [("mine", True), ("theirs", False)]


@pytest.fixture
def three(run, broker, orders):
    run("consume", "orders", "--group", "g", "--from-beginning", "--max", "2")
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("m", {kohort.TopicPartition("orders", 1): 0})
    with member(broker, "h"):
        yield


@pytest.mark.usefixtures("three")
def test_describe_prints_groups_and_reports_missing_groups(run, ask):
    shown = run("group", "describe", "--all-groups")
    rows = [line.split()[0] for line in shown.stdout.splitlines() if line]
    assert rows == [*("GROUP", "g"), *("GROUP", "h", "h"), *("GROUP", "m")]
    assert "g is Empty, no members" in shown.stderr
    states = run("group", "describe", "h", "--group", "g", "--state").stdout
    assert states.count("ASSIGNMENT-STRATEGY") == 2
    about = ask("group", "describe", "--all-groups")
    assert (about["schema"], [g["group"] for g in about["groups"]]) == (
        "kohort/v1/group.describe.several", ["g", "h", "m"],
    )  # fmt: skip
    assert msgspec.convert(about, GroupsDescribed, strict=True).groups[2].members == []
    lines = run("group", "describe", "g", "m", "--output", "ndjson").stdout.splitlines()
    assert {json.loads(line)["group"] for line in lines} == {"g", "m"}
    missing = run("group", "describe", "gg", "m", "--output", "ndjson", code=3)
    assert "group 'gg' does not exist" in missing.stderr
    assert {json.loads(line)["group"] for line in missing.stdout.splitlines()} == {"m"}
    assert "expected either GROUP or --all-groups" in run("group", "describe", code=2).stderr


@pytest.mark.usefixtures("three")
def test_delete_all_groups_skips_groups_with_members(run, ask):
    assert "while it has members" in run("group", "delete", "g", "h", "--yes", code=5).stderr

    done = run("group", "delete", "--all-groups", "--yes", code=5)

    assert done.stdout == "deleted g\ndeleted m\n"
    assert [g["group"] for g in ask("groups")["groups"]] == ["h"]
    assert "while it has members" in run("group", "delete", "--all-groups", "--yes", code=5).stderr


def test_group_id_with_line_end_is_escaped(run, orders, broker):
    name = "g\r\nkohort: all is well\x1b[2J"
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id=name) as consumer:
        consumer.commit({kohort.TopicPartition(orders, 0): 1})

    assert run("group", "delete", name, "--yes").stdout == "deleted g??kohort: all is well?[2J\n"
