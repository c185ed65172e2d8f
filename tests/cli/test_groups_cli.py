from __future__ import annotations

import click
import pytest

import kohort
from kohort.cli.terminal.options import DURATION, Duration
from kohort.watch.journal_source import JournalAccess


@pytest.fixture
def orders(run, broker):
    run("topics", "create", "orders", "--partitions", "2", "--if-not-exists")
    run("produce", "orders", "--partition", "0", stdin="".join(f"{i}\n" for i in range(20)))
    run("consume", "orders", "--group", "g", "--from-beginning", "--max", "5")
    yield "orders"
    run("group", "delete", "g", "--yes")
    run("topics", "delete", "orders", "--yes")


@pytest.fixture
def member(broker, orders):
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="g", client_id="reader") as consumer:
        consumer.subscribe([orders])
        for _ in range(100):
            consumer.poll(100, max_records=1)
            if len(consumer.assignment()) == 2:
                break
        yield consumer


def test_groups_command_shows_state_and_lag(run, ask, orders):
    (about,) = [g for g in ask("groups")["groups"] if g["group"] == "g"]

    assert (about["state"], about["members"], about["lag"]) == ("Empty", 0, 15)
    columns = "HEALTH GROUP STATE MEMBERS LAG LAG-TIME ETA REBALANCES-1H LAST-REBALANCE"
    assert run("groups").stdout.splitlines()[0].split() == columns.split()
    assert [g["group"] for g in ask("groups", "--state", "stable")["groups"]] == []


def test_describe_has_columns_of_kafka_consumer_groups_tool(run, ask, orders):
    result = run("group", "describe", "g")

    assert result.stderr.startswith("g is Empty, no members, 15 records behind")
    header, first = result.stdout.splitlines()[:2]
    kafka = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert header.split() == [*kafka.split(), "STATUS", "LAG-TIME"]
    assert first.split()[:9] == ["g", "orders", "0", "5", "20", "15", "-", "-", "-"]
    about = ask("group", "describe", "g")
    assert (about["lag"], about["members"]) == (15, [])


def test_describe_members_shows_assignments(run, ask, member):
    about = ask("group", "describe", "g")
    assert [(m["client_id"], m["assignment"]) for m in about["members"]] == [("reader", ["orders-0", "orders-1"])]
    (member_about,) = about["members"]
    assert member_about["lag"] == sum(p["lag"] or 0 for p in about["partitions"])
    assert {(p["client_id"], p["host"]) for p in about["partitions"]} == {("reader", "/127.0.0.1")}
    assert "orders:0-1" in run("group", "describe", "g", "--members").stdout
    state = run("group", "describe", "g", "--state").stdout.splitlines()[1].split()
    assert state[:6] == ["g", about["coordinator"], *_rest(about)]


def _rest(about):
    return [f"({about['coordinator_id']})", about["assignor"], about["state"], "1"]


def test_missing_group_is_reported_with_nearest_name(run, broker, orders):
    missing = run("group", "describe", "gg", code=3)

    assert missing.stderr == f"kohort group: group 'gg' does not exist on {broker.bootstrap}; did you mean g?\n"


def test_reset_offsets_only_prints_plan_without_execute_option(run, ask, orders):
    shown = run("group", "reset-offsets", "g", "--to-earliest")
    assert shown.stderr == "0 offsets skipped, 5 to be read again\nno offset is changed yet: add --execute\n"
    assert [line.split()[1:] for line in shown.stdout.splitlines()] == [
        ["TOPIC", "PARTITION", "NEW-OFFSET", "PRIOR-OFFSET", "SKIPPED", "READ-AGAIN"],
        ["orders", "0", "0", "5", "0", "5"],
    ]
    assert ask("group", "describe", "g")["lag"] == 15

    run("group", "reset-offsets", "g", "--to-earliest", "--execute")

    assert ask("group", "describe", "g")["lag"] == 20


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["--to-latest"], 20),
        (["--to-offset", "7"], 7),
        (["--to-offset", "700"], 20),
        (["--shift-by", "-2"], 3),
        (["--shift-by", "-100"], 0),
        (["--to-datetime", "2001-01-01T00:00:00"], 0),
        (["--to-datetime", "2999-01-01T00:00:00+02:00"], 20),
    ],
)
def test_reset_offsets_computes_offset_for_each_target_option(run, ask, orders, where, expected):
    found = ask("group", "reset-offsets", "g", "--topic", "orders:0", *where)

    assert [(p["partition"], p["new_offset"]) for p in found["partitions"]] == [(0, expected)]


def test_reset_and_delete_are_refused_for_group_with_members(run, member):
    for args in (("reset-offsets", "g", "--to-latest", "--execute"), ("delete", "g", "--yes")):
        refused = run("group", *args, code=5)
        assert "while it has members: reader at" in refused.stderr


def test_reset_plan_for_active_group_shows_members_to_stop(run, member):
    shown = run("group", "reset-offsets", "g", "--to-earliest")

    assert shown.stdout.splitlines()[0].split()[:4] == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert "no offset is changed yet: first stop the members (reader at /127.0.0.1), " in shown.stderr


def test_reset_offsets_needs_exactly_one_target_option(run, orders):
    assert "expected exactly one of --to-earliest" in run("group", "reset-offsets", "g", code=2).stderr
    assert (
        "expected exactly one of --to-earliest"
        in run("group", "reset-offsets", "g", "--to-latest", "--shift-by", "1", code=2).stderr
    )
    assert "expected a time" in run("group", "reset-offsets", "g", "--to-datetime", "noon", code=2).stderr
    assert "expected TOPIC" in run("group", "reset-offsets", "g", "--to-latest", "--topic", "orders:x", code=2).stderr


def test_why_explains_last_rebalance_of_classic_group(run, ask, orders):
    output = run("group", "why", "g")

    assert "of g in the journal" in output.stderr
    assert "generation " in output.stdout.splitlines()[0]
    assert "CAUSE     MEMBER_LEFT" in output.stdout
    last_two = ask("group", "why", "g", "--last", "2")["rebalances"]
    assert [(r["protocol"], r["cause"]) for r in last_two] == [("classic", "GROUP_FORMING"), ("classic", "MEMBER_LEFT")]
    assert all(r["evidence"] for r in last_two)
    everything = ask("group", "why", "g", "--last", "0")
    counted = [r for r in everything["rebalances"] if r["end"] != "no_rebalance"]
    assert len(counted) == everything["known"] >= 2
    formed = last_two[0]
    shown = ask("group", "why", "g", "--rebalance", formed["id"].removeprefix("g/"))["rebalances"]
    assert {one["id"] for one in shown} == {formed["id"]}
    assert formed in shown
    assert "has no rebalance '99'; the journal has" in run("group", "why", "g", "--rebalance", "99", code=3).stderr
    assert sorted((m["topic"], m["partition"]) for m in formed["moves"]) == [("orders", 0), ("orders", 1)]


def test_why_explains_rebalance_of_consumer_group(run, ask, broker, orders):
    options = {"bootstrap_servers": broker.bootstrap, "group_id": "modern", "group_protocol": "consumer"}
    with (
        kohort.Consumer(**options, client_id="first") as first,
        kohort.Consumer(**options, client_id="second") as second,
    ):
        first.subscribe([orders])
        while len(first.assignment()) < 2:
            first.poll(50, max_records=1)
        second.subscribe([orders])
        while not (len(first.assignment()) == len(second.assignment()) == 1):
            first.poll(50, max_records=1)
            second.poll(50, max_records=1)
        first.poll(50, max_records=1)

        rebalances = ask("group", "why", "modern", "--last", "0")["rebalances"]
        text = run("group", "why", "modern", "--last", "0").stdout

    assert [(r["protocol"], r["cause"]) for r in rebalances] == [
        ("consumer", "GROUP_FORMING"),
        ("consumer", "NEW_MEMBER"),
    ]
    assert rebalances[0]["end"] == "stable"
    (moved,) = rebalances[1]["moves"]
    ids = {m["client_id"]: m["member_id"] for m in rebalances[1]["members"]}
    assert (moved["from"], moved["to"]) == (ids["first"], ids["second"])
    assert moved["unowned_ms"] >= 0
    assert sorted(len(m["assignment"]) for m in rebalances[1]["standing"]) == [1, 1]
    assert text.startswith(f"epoch {rebalances[0]['from_generation']} -> {rebalances[0]['generation']}  ")
    assert "TO-REVOKE" in text
    assert "NO-OWNER-FOR" in text
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_groups(["modern"])


def test_why_reports_group_without_rebalance(run, broker, orders):
    nothing = run("group", "why", "quiet", code=3)

    assert nothing.stderr == (f"kohort group: the journal of {broker.bootstrap} has no rebalance of group 'quiet'\n")


def test_why_without_journal_suggests_kohort_watch(run, monkeypatch, orders, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    looked_for = JournalAccess.__init__
    monkeypatch.setattr(looked_for, "__defaults__", (*looked_for.__defaults__[:-1], "__no_journal"))

    error = run("group", "why", "nobody's", code=3).stderr

    assert "__consumer_offsets has no records of the group; a running `kohort watch` records more" in error
    assert 'has no rebalance of group "nobody' in error


def test_shell_completion_offers_topics_groups_and_members(run, broker, orders):
    from click.shell_completion import ShellComplete

    from kohort.cli.main import main

    complete = ShellComplete(main, {}, "kohort", "_KOHORT_COMPLETE")

    def words(args, incomplete):
        return [item.value for item in complete.get_completions([*args], incomplete)]

    assert words(["topics", "describe", "--bootstrap", broker.bootstrap], "ord") == ["orders"]
    assert "g" in words(["group", "describe", "--bootstrap", broker.bootstrap], "")
    assert words(["topics", "describe", "--bootstrap", "127.0.0.1:1"], "o") == []
    assert words([], "to") == ["topics"]


def test_describe_shows_unowned_partitions_of_stable_group(run, ask, broker, orders):
    @kohort.assignor("first-only")
    def first_only(_topics, members):
        return {members[0].member_id: [kohort.TopicPartition("orders", 0)]}

    options = {"partition_assignment_strategy": [first_only], "auto_offset_reset": "earliest"}
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="lazy", **options) as consumer:
        consumer.subscribe("orders")
        while not consumer.assignment():
            consumer.poll(200)

        assert ask("group", "describe", "lazy")["unowned"] == ["orders-1"]
        note = run("group", "describe", "lazy").stderr
    assert "\n1 partition of 'lazy' without an owner: orders-1." in note
    assert ask("group", "describe", "g")["unowned"] == [], "it has no members"


def test_exported_plan_of_several_groups_is_read_from_file(run, ask, orders, tmp_path, broker):
    run("consume", "orders", "--group", "h", "--from-beginning", "--max", "3")
    plan = run("group", "reset-offsets", "g", "h", "--to-current", "--export").stdout
    assert {"g,orders,0,5", "h,orders,0,3"} <= set(plan.splitlines())
    file = tmp_path / "plan.csv"
    file.write_text(plan.replace("g,orders,0,5", "g,orders,0,9"))

    moved = ask("group", "reset-offsets", "--group", "g", "--group", "h", "--from-file", str(file), "--execute")

    assert moved["executed"]
    by_place = {(p["group"], p["partition"]): p for p in moved["partitions"]}
    assert by_place["g", 0]["skipped"] == 4
    assert by_place["h", 0]["skipped"] == by_place["h", 0]["read_again"] == 0
    assert ask("group", "describe", "g")["lag"] == 11
    run("group", "delete", "h", "--yes")


@pytest.mark.parametrize(
    "text",
    [
        "orders,0",
        "orders,zero,1",
        "orders,0,-1",
        "a,b,c,d,e",
        "orders,0,9999999999999999999",
        '"' + "x" * 200_000 + '",0,1',
    ],
)
def test_invalid_plan_file_is_reported_with_line_number(run, orders, tmp_path, text):
    file = tmp_path / "plan.csv"
    file.write_text(text)

    error = run("group", "reset-offsets", "g", "--from-file", str(file), code=2).stderr

    assert "line 1" in error or "invalid CSV" in error
    assert len(error) < 500


def test_reset_all_groups_skips_groups_with_members(run, ask, member, broker):
    run("consume", "orders", "--group", "idle", "--from-beginning", "--max", "3")

    refused = run(
        "group", "reset-offsets", "--all-groups", "--topic", "orders:0", "--to-offset", "1", "--execute", code=5
    )

    assert "'g' is Stable and cannot be reset while it has members: reader at /127.0.0.1" in refused.stderr
    assert next(p["current_offset"] for p in ask("group", "describe", "idle")["partitions"]) == 1
    run("group", "delete", "idle", "--yes")


def test_reset_keeps_committed_offset_of_deleted_topic(run, ask, orders):
    run("topics", "create", "gone", "--partitions", "1")
    run("produce", "gone", stdin="x\n")
    run("consume", "gone", "--group", "g", "--from-beginning", "--max", "1")
    run("topics", "delete", "gone", "--yes")

    moved = run("group", "reset-offsets", "g", "--to-latest")

    assert "gone" not in moved.stdout
    assert "does not exist" in run("group", "reset-offsets", "g", "--from-file", "-", stdin="gone,0,1\n", code=3).stderr


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT2H", 7_200_000),
        ("P1DT1M", 86_460_000),
        ("90m", 5_400_000),
        ("1.5h", 5_400_000),
        ("PT0.5S", 500),
        ("2d", 172_800_000),
        ("1h30m", 5_400_000),
        ("p1dt2h3m4.5s", 93_784_500),
    ],
)
def test_duration_option_parses_units_and_iso_8601(text, ms):
    assert DURATION.convert(text, None, None) == ms


@pytest.mark.parametrize("text", ["P", "PT", "2", "h", "P1Y", "-1h", "PT-1H", "", "1e9s", "1hh", "PT0S", "P200000D"])
def test_invalid_duration_is_rejected(text):
    with pytest.raises(click.BadParameter, match="is not a duration"):
        DURATION.convert(text, None, None)


def test_zero_duration_is_accepted_by_option_with_minimum_0():
    assert Duration(least_ms=0).convert("PT0S", None, None) == 0
