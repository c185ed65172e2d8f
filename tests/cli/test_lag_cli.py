from __future__ import annotations

import json
import time

import pytest

import kohort
from kohort import TopicPartition

STRANGE = 'g\x1b[31m<b>"\n'


@pytest.fixture
def admin(broker):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(broker, admin, request):
    name = request.function.__name__[:100]
    admin.create_topics({name: 2})
    then = time.time_ns() // 1_000_000 - 60_000
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(20):
            producer.send(name, b"v", partition=number % 2, timestamp_ms=then + number)
        producer.flush()
    yield name
    admin.delete_topics([name])


@pytest.fixture
def group(broker, admin, topic):
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(100)
    admin.alter_group_offsets("g", {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 10})
    yield "g"
    admin.delete_groups(["g"])


@pytest.fixture
def reader(broker, topic):
    options = {"group.id": "r", "client.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with kohort.Consumer({"bootstrap.servers": broker.bootstrap, **options}) as consumer:
        consumer.subscribe([topic])
        read = 0
        while read < 20:
            read += len(consumer.poll(100))
        consumer.commit()
        yield consumer
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_groups(["r"])


def test_group_without_members_is_listed_above_healthy_group(run, ask, group, reader):
    found = {g["group"]: g for g in ask("groups")["groups"]}

    assert list(found) == ["g", "r"]
    assert (found["g"]["health"], found["g"]["lag"], found["g"]["reason"].endswith("no member reads it")) == (
        "STOP",
        6,
        True,
    )
    assert 60_000 <= found["g"]["lag_ms"] < 90_000
    assert (found["r"]["health"], found["r"]["lag"], found["r"]["lag_ms"], found["r"]["eta_ms"]) == ("OK", 0, 0, 0)
    assert (found["r"]["rebalances_1h"], found["r"]["last_rebalance"]["cause"]) == (1, "GROUP_FORMING")
    first = run("groups").stdout.splitlines()[1].split()
    assert first[:5] == ["STOP", "g", "Empty", "0", "6"]


def test_lag_in_ms_is_omitted_with_append_times_0(run, ask, group):
    (found,) = [g for g in ask("groups", "--append-times", "0")["groups"] if g["group"] == "g"]

    assert (found["lag"], found["lag_ms"], found["lag_ms_complete"]) == (6, 0, False)
    line = run("groups", "--append-times", "0", "--no-journal").stdout.splitlines()[1].split()
    assert line == ["STOP", "g", "Empty", "0", "6", "-", "-", "-", "-"]


def test_describe_prints_status_sentence_first(run, ask, group):
    result = run("group", "describe", "g", "--state")

    assert result.stderr.splitlines()[0].startswith("g is Empty, no members, 6 records behind (")
    assert result.stderr.splitlines()[0].endswith("no member reads it.")
    assert "EVIDENCE  no_members: the group is Empty and has no members" in result.stderr
    assert "STOP" in result.stdout.splitlines()[1].split()
    assert ask("group", "describe", "g")["status"]["blame"] == "no_members"


def test_describe_members_shows_state_and_lag(run, ask, reader):
    (member,) = ask("group", "describe", "r")["status"]["members"]

    assert (member["member"]["client_id"], member["state"], member["lag"], member["lag_ms"]) == ("reader", "ok", 0, 0)
    assert len(member["partitions"]) == 2
    result = run("group", "describe", "r", "--members")
    assert result.stderr == "r is Stable, 1 member, 2 of 2 partitions owned, 0 records behind: no lag.\n".replace(
        "0 records", "no records"
    )
    header, row = result.stdout.splitlines()
    assert row.split()[header.split().index("STATE")] == "ok"
    assert "reader" in row.split()


def test_behind_option_of_describe_shows_only_partitions_with_lag(run, ask, group, topic):
    found = ask("group", "describe", "g")["status"]["partitions"]

    assert [(p["partition"], p["committed"], p["log_end"], p["lag"], p["status"], p["lead"]) for p in found] == [
        (0, 4, 10, 6, "STOP", 4),
        (1, 10, 10, 0, "OK", 10),
    ]
    assert [p["partition"] for p in ask("group", "describe", "g", "--behind")["partitions"]] == [0]
    assert len(run("group", "describe", "g", "--behind").stdout.splitlines()) == 2


def test_describe_shows_lag_of_topics_and_fail_above_option_checks_lag_of_group(run, ask, group, topic):
    (row,) = ask("group", "describe", "g")["topics"]

    assert (row["topic"], row["partitions"], row["behind"], row["lag"], row["stable_lag"]) == (topic, 2, 1, 6, 6)
    run("group", "describe", "g", "--fail-above", "6")
    run("group", "describe", "g", "--fail-above", "5m")
    too_many = run("group", "describe", "g", "--fail-above", "5", code=7)
    assert too_many.stderr.endswith("kohort group: the lag of 'g' is 6; the limit is 5 records\n")
    too_long = run("group", "describe", "g", "--fail-above", "30s", code=7)
    assert "the lag time of 'g' is " in too_long.stderr


def test_fail_above_option_fails_for_unknown_lag(run, admin, group):
    unknown = run("group", "describe", "g", "--fail-above", "5m", "--append-times", "0", code=7)

    assert "is unknown; the limit is 5 min" in unknown.stderr


@pytest.mark.parametrize("limit", ["many", "-1", "1.5", "", "5x", "9" * 30])
def test_fail_above_option_rejects_invalid_limit(run, group, limit):
    refused = run("group", "describe", "g", f"--fail-above={limit}", code=2)

    assert "expected a number of records (1000) or a duration (30s)" in refused.stderr


def test_doctor_reports_group_without_members_but_not_healthy_group(run, ask, group, reader):
    result = run("doctor", code=7)

    assert "ERROR  g  no-consumer" in result.stdout
    assert "ADVICE    start the group's members" in result.stdout
    assert result.stderr == "kohort doctor: 1 of 2 groups needs attention\n"
    well = run("doctor", "r")
    assert (well.stdout, well.stderr) == (
        "",
        "no problem in 1 group; progress is checked only with --watch-for 20s\n",
    )
    report = json.loads(run("doctor", "g", "--output", "json", code=7).stdout)
    assert [(f["rule"], f["severity"], f["group"]) for f in report["findings"]] == [("no-consumer", "error", "g")]


def test_watch_for_option_of_describe_shows_rates(ask, broker, group, topic, admin):
    found = ask("group", "describe", "g", "--watch-for", "1s")["status"]["partitions"]

    assert [(p["read_per_s"], p["written_per_s"], p["draining"]) for p in found] == [
        (0.0, 0.0, "growing"),
        (0.0, 0.0, "empty"),
    ]


def test_watch_for_option_below_15_seconds_warns_that_health_may_stay_unknown(run, broker, group):
    assert run("group", "describe", "g", "--watch-for", "1s").stderr.startswith(
        "--watch-for is shorter than 15 s, the time to judge commit progress: health may stay unknown\n"
    )


def test_doctor_reports_deletion_of_unread_records_as_error(run, admin, group, topic):
    admin.delete_records({TopicPartition(topic, 0): 7})

    result = run("doctor", "g", code=7)

    assert f"ERROR  g  records-lost: 3 records of {topic}-0 deleted unread" in result.stdout


def test_wait_command_returns_when_group_is_stable(run, ask, reader):
    output = ask("group", "wait", "r", "--stable", "--for", "200ms", "--every", "50ms", "--max-lag", "0")

    assert (output["group"], output["lag"], output["members"], output["stable_ms"] >= 200) == ("r", 0, 1, True)


def test_exit_code_of_wait_differs_for_unstable_lagging_and_missing_group(run, group, reader, topic, broker):
    quick = ("--for", "100ms", "--timeout", "500ms", "--every", "50ms")

    assert (
        "was not stable for 0.1 s within 0.5 s: Empty, no members, lag 6"
        in run("group", "wait", "g", "--stable", *quick, code=4).stderr
    )
    assert "group 'nobody' does not exist" in run("group", "wait", "nobody", "--stable", *quick, code=3).stderr
    assert "the lag of group 'g' is above 5" in run("group", "wait", "g", "--max-lag", "5", *quick, code=7).stderr
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b"v", partition=0).result(60_000)
    assert (
        "the lag of group 'r' is above 0: Stable"
        in run("group", "wait", "r", "--stable", "--max-lag", "0", *quick, code=7).stderr
    )


def test_wait_rejects_missing_or_impossible_conditions(run):
    assert "expected --stable, --max-lag, or both" in run("group", "wait", "g", code=2).stderr
    refused = run("group", "wait", "g", "--stable", "--for", "2m", "--timeout", "1m", code=2)
    assert "--for 2 min must be shorter than --timeout 60 s" in refused.stderr


@pytest.mark.parametrize("view", ["--state", "--members", "--offsets", "--topics"])
def test_missing_group_is_reported_with_nearest_name(run, group, view):
    missing = run("group", "describe", "gg", view, code=3)

    assert "group 'gg' does not exist on " in missing.stderr
    assert missing.stderr.endswith("; did you mean g?\n")


def test_control_characters_in_names_are_escaped(run, admin, topic):
    admin.alter_group_offsets(STRANGE, {TopicPartition(topic, 0): 4})
    try:
        for words in (("groups",), ("group", "describe", STRANGE), ("group", "describe", STRANGE, "--state")):
            result = run(*words)
            assert "\x1b" not in result.stdout + result.stderr
        found = run("doctor").stdout
        assert "\x1b" not in found
        assert "has commits but no members, as with Spark and Flink" in found
    finally:
        admin.delete_groups([STRANGE])


def test_doctor_of_cluster_without_visible_groups_reports_that_none_was_examined(run):
    assert run("doctor").stderr == "the cluster shows no group, so none was examined\n"
    assert len(run("groups").stdout.splitlines()) == 1


def test_doctor_counts_group_of_unknown_health_separately(run, broker, admin, topic):
    admin.alter_group_offsets("w", {TopicPartition(topic, n): 0 for n in range(2)})
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="w", enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(100)
        output = run("doctor", "w")
        report = json.loads(run("doctor", "w", "--output", "json").stdout)
    admin.delete_groups(["w"])
    assert output.stderr == "no problem in 1 group; the health of 1 is unknown: --watch-for 20s\n"
    assert (report["examined"], report["unknown"]) == (1, 1)
