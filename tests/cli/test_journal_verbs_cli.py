from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import kohort
from kohort import OffsetAndMetadata, TopicPartition

POLLS = 100


@pytest.fixture
def orders(run, broker):
    run("topics", "create", "orders", "--partitions", "2", "--if-not-exists")
    options = {"bootstrap_servers": broker.bootstrap, "group_id": "g", "partition_assignment_strategy": "range"}
    with kohort.Consumer(**options, client_id="first") as first:
        first.subscribe(["orders"])
        settle(first)
        with kohort.Consumer(**options, client_id="second") as second:
            second.subscribe(["orders"])
            settle(first, second)
        settle(first)
    yield "orders"
    run("group", "delete", "g", "--yes")
    run("topics", "delete", "orders", "--yes")


def settle(*consumers):
    for _ in range(POLLS):
        for consumer in consumers:
            consumer.poll(50)
        if sum(len(c.assignment()) for c in consumers) == 2 and all(c.assignment() for c in consumers):
            return
    raise AssertionError([c.assignment() for c in consumers])


def test_timeline_has_one_lane_per_member_or_per_partition(run, ask, orders):
    first, *lanes = run("group", "timeline", "g").stdout.splitlines()
    found = ask("group", "timeline", "g")["timeline"]

    assert first.split()[0] == "gen"
    assert [line.split("-")[0] for line in lanes[:2]] == ["first", "second"]
    assert any("NEW_MEMBER second-" in line for line in lanes)
    assert [c["cause"] for c in found["columns"]][:3] == ["GROUP_FORMING", "NEW_MEMBER", "MEMBER_LEFT"]
    by_partition = run("group", "timeline", "g", "--by", "partition").stdout.splitlines()
    assert [line.split()[0] for line in by_partition[1:3]] == ["orders-0", "orders-1"]
    assert "had no members in this time" in run("group", "timeline", "g", "--since", "1ms").stderr
    assert "is not a duration" in run("group", "timeline", "g", "--since", "soon", code=2).stderr
    assert "has no entry of group 'nobody'" in run("group", "timeline", "nobody", code=3).stderr


def test_events_command_prints_text_and_json(run, ask, orders):
    lines = run("group", "events", "g").stdout.splitlines()
    found = ask("group", "events", "g")["events"]
    ndjson = [json.loads(line) for line in run("group", "events", "g", "--output", "ndjson").stdout.splitlines()]

    assert len(lines) == len(found) == len(ndjson)
    assert [event["kind"] for event in ndjson] == [event["kind"] for event in found]
    assert "round_opened" in lines[0]
    assert "member joined first-" in lines[0]
    assert {line["schema"] for line in ndjson} == {"kohort/v1/group.events.line"}
    assert "--output ndjson" in run("group", "events", "g", "--follow", "--output", "json", code=2).stderr


def test_follow_option_of_events_prints_new_events(broker, run, orders):
    words = ["group", "events", "g", "--follow", "--output", "ndjson", "--since", "1h"]
    env = {**os.environ, "KOHORT_BOOTSTRAP": broker.bootstrap}
    command = [sys.executable, "-m", "kohort", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            line = json.loads(process.stdout.readline())
            with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="g", client_id="third") as third:
                third.subscribe(["orders"])
                settle(third)
                while (line["member"] or {}).get("client_id") != "third":
                    line = json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert line["kind"] == "round_opened"
    assert process.returncode == 130


def test_fenced_command_shows_zombie_member(run, ask, broker, orders):
    options = {"bootstrap_servers": broker.bootstrap, "group_id": "g", "enable_auto_commit": False}
    with kohort.Consumer(**options, client_id="zombie", session_timeout_ms=6_000) as zombie:
        zombie.subscribe(["orders"])
        settle(zombie)
        (member,) = ask("group", "describe", "g")["members"]
        run("group", "remove-member", "g", member["member_id"], "--yes")
        with pytest.raises(kohort.KohortError):
            zombie.commit({TopicPartition("orders", 0): OffsetAndMetadata(0)})

    found = ask("group", "fenced", "g")["fenced"]
    text = run("group", "fenced", "g").stdout

    assert {(f["verdict"], f["member"]["client_id"], f["removed_why"]) for f in found} == {("zombie", "zombie", "left")}
    assert text.startswith("ZOMBIE  zombie-")
    assert "is no longer a member (left, " in text
    assert "no rejected request" in run("group", "fenced", "g", "--since", "1ms").stderr
