"""``kohort watch`` on Apache Kafka, which keeps no journal: members join, leave, are killed; ``group why`` tells."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

import kohort
from kohort import ConfigResource
from kohort.cli.main import main
from support.peers.apache_kafka import apache_kafka
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
SESSION_MS = 6_000
MEMBER = """
import sys, kohort
bootstrap, group, protocol = sys.argv[1:]
options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
with kohort.Consumer(bootstrap_servers=bootstrap, group_id=group, group_protocol=protocol, client_id="killed",
                     auto_commit_interval_ms=500, **options) as consumer:
    consumer.subscribe([group])
    while True:
        consumer.poll(100)
        if consumer.assignment():
            print("has", flush=True)
"""
"""A killable member; it prints a line after each poll with partitions."""


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(params=["classic", "consumer"])
def protocol(request):
    return request.param


@pytest.fixture
def group(apache):
    """A topic with four partitions, and the group of the same name, whose members are missed soon."""
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with kohort.Admin(bootstrap_servers=apache) as admin:
        admin.create_topics({name: 4})
        short = {"consumer.session.timeout.ms": str(SESSION_MS), "consumer.heartbeat.interval.ms": "500"}
        admin.alter_configs({ConfigResource("group", name): short}).check()
    return name


def member(apache, group, protocol, client_id):
    options = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
    consumer = kohort.Consumer(
        bootstrap_servers=apache,
        group_id=group,
        group_protocol=protocol,
        client_id=client_id,
        auto_commit_interval_ms=500,
        **options,
    )
    consumer.subscribe([group])
    return consumer


def has(consumer, count):
    """Poll until the consumer owns ``count`` partitions."""
    eventually(lambda: consumer.poll(100) is not None and len(consumer.assignment()) == count, pause_s=0)


@contextmanager
def watching(apache):
    """`kohort watch` as a process."""
    command = [
        sys.executable,
        "-m",
        "kohort",
        "watch",
        "--bootstrap",
        apache,
        "--interval",
        "0.3",
        "--output",
        "ndjson",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "watching" in line or "waiting" in line, line
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def play(apache, group, protocol):
    """One comes, another comes and leaves, a third comes and is killed."""
    with member(apache, group, protocol, "one") as one:
        has(one, 4)
        with member(apache, group, protocol, "two") as two:
            eventually(lambda: one.poll(50) is not None and two.poll(50) is not None and len(two.assignment()) == 2)
            for _ in range(12):
                one.poll(50)
                two.poll(50)
        has(one, 4)
        command = [sys.executable, "-c", MEMBER, apache, group, protocol]
        killed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        has(one, 2)
        assert killed.stdout is not None
        for _ in range(20):  # it commits each half second
            one.poll(100)
            killed.stdout.readline()
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        has(one, 4)


def why(apache, group):
    result = CliRunner().invoke(main, ["group", "why", group, "--last", "0", "--bootstrap", apache, "--output", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["rebalances"], result.stderr


def test_join_leave_and_kill_are_distinguished(apache, group, protocol):
    with watching(apache) as watcher:
        play(apache, group, protocol)
        eventually(lambda: len(why(apache, group)[0]) >= 6, pause_s=1)
        watcher.terminate()
        lines = [json.loads(line) for line in watcher.communicate()[0].splitlines()]
    reports = [line for line in lines if line["group"] == group]
    causes = [(line["cause"], (line["trigger"] or {}).get("client_id")) for line in reports if not line["parent"]]

    found, _ = why(apache, group)

    assert (reports[0]["cause"], reports[0]["confidence"]) == ("GROUP_FORMING", "high")
    assert ("NEW_MEMBER", "two") in causes
    assert ("MEMBER_LEFT", "two") in causes
    assert ("SESSION_TIMEOUT", "killed") in causes
    assert ("MEMBER_LEFT", "killed") not in causes
    assert [line["cause"] for line in found[: len(reports)]] == [line["cause"] for line in reports]
    leave_report = next(line for line in reports if line["cause"] == "MEMBER_LEFT")
    assert leave_report["confidence"] == "high"
    assert {line["origin"] for line in reports} == {"inferred"}
    assert "proof" not in {line["confidence"] for line in reports}


def test_unwatched_group_is_read_on_demand(apache, group, protocol):
    with member(apache, group, protocol, "one") as one:
        has(one, 4)

    found, warnings = why(apache, group)

    assert [line["cause"] for line in found] == ["GROUP_FORMING", "MEMBER_LEFT"]
    assert "__consumer_offsets has records since" in warnings
    assert "a running `kohort watch` records more" in warnings


def test_journal_is_stored_in_the_cluster_if_requested(tmp_path_factory, monkeypatch):
    with apache_kafka() as alone:  # by itself: from here on everybody reads its journal there
        name = "shipped"
        with kohort.Admin(bootstrap_servers=alone) as admin:
            admin.create_topics({name: 4})
        for client_id in ("one", "two"):
            with member(alone, name, "classic", client_id) as one:
                has(one, 4)
            result = CliRunner().invoke(main, ["watch", "--once", "--to-topic", "--bootstrap", alone])
            assert result.exit_code == 0, result.output
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another-machine")))

        found, warnings = why(alone, name)
        again = CliRunner().invoke(main, ["watch", "--once", "--to-topic", "--bootstrap", alone])  # by another watcher

        assert again.exit_code == 0, again.output
        assert why(alone, name)[0] == found
        assert [line["cause"] for line in found] == ["GROUP_FORMING", "MEMBER_LEFT"] * 2
        assert "read now" not in warnings
