from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import kohort
from kohort.coordinator.records import partition_of
from kohort.errors import StorageError
from kohort.watch.store import WatchStore
from kohort.watch.watcher import CONSUMER_OPTIONS, GroupWatcher, WatchOptions, read_group_history
from support.waiting import eventually

POLLS = 200


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def broker() -> Iterator[kohort.Broker]:
    soon = {f"group.consumer.{name}": 100 for name in ("heartbeat.interval.ms", "min.heartbeat.interval.ms")}
    options = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 4, "group.consumer.assignment.interval.ms": 100}
    with kohort.Broker({**options, **soon}) as broker:
        yield broker


@pytest.fixture
def topic(broker, request):
    name = f"t-{request.node.name.replace('[', '-').strip(']')}"
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([name])
    return name


@contextmanager
def member(broker, topic, protocol="classic", **options):
    consumer = kohort.Consumer(
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        **options,
    )
    with consumer:
        consumer.subscribe([topic])
        yield consumer


def poll_until_shared(*consumers):
    for _ in range(POLLS):
        for consumer in consumers:
            consumer.poll(20)
        if sum(len(c.assignment()) for c in consumers) == 4 and all(c.assignment() for c in consumers):
            for consumer in consumers:
                for partition in consumer.assignment():
                    consumer.position(partition)  # a commit omits partitions without a position
            return
    raise AssertionError("the members did not share the partitions")


def story(broker, topic, protocol):
    with member(broker, topic, protocol, client_id="one") as one:
        poll_until_shared(one)
        with member(broker, topic, protocol, client_id="two") as two:
            poll_until_shared(one, two)
            one.commit()
            two.commit()
        poll_until_shared(one)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_watch_finds_same_rebalances_as_broker_journal(run, ask, broker, topic, protocol):
    story(broker, topic, protocol)

    watched = ask("watch", "--once", "--group", topic)

    journaled = ask("group", "why", topic, "--last", "0")["rebalances"]
    ours = [(one["generation"], one["cause"]) for one in watched["rebalances"]]
    assert ours == [(one["generation"], one["cause"]) for one in journaled]
    assert {one["cause"] for one in journaled} >= {"GROUP_FORMING", "NEW_MEMBER", "MEMBER_LEFT"}
    assert {one["origin"] for one in watched["rebalances"]} == {"inferred"}
    assert "proof" not in {one["confidence"] for one in watched["rebalances"]}
    assert ask("watch", "--once", "--group", topic)["rebalances"] == []  # no rebalance is recorded twice


def test_watch_prints_one_line_per_rebalance(run, broker, topic, state):
    story(broker, topic, "classic")

    result = run("watch", "--once", "--group", topic)
    first, *_, last = result.stdout.splitlines()
    assert f"  {topic}  generation 0 -> 1  GROUP_FORMING (high)  Generation 1 (1 member" in first
    assert "MEMBER_LEFT (high)" in last
    other = str(state / "other.sqlite")
    again = run("watch", "--once", "--group", topic, "--store", other, "--output", "ndjson")
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    assert {line["schema"] for line in lines} == {"kohort/v1/watch.line"}
    assert len(lines) == len(result.stdout.splitlines())


def test_watch_rejects_contradicting_options(run):
    assert "use --output ndjson, or add --once" in run("watch", "--output", "json", code=2).stderr


def test_to_topic_option_of_watch_is_rejected_for_kohort_brokers(run, broker, topic):
    error = run("watch", "--once", "--to-topic", code=2).stderr
    assert "the brokers of this cluster are kohort's and write __kohort_journal themselves: omit --to-topic" in error


def test_once_option_of_watch_reports_cluster_without_groups(run, monkeypatch):
    with kohort.Broker() as empty:
        result = run("watch", "--once", "--bootstrap", empty.bootstrap, code=3)
    assert "the cluster has no " in result.stderr


def test_watch_after_kill_adds_no_duplicate_entries(run, broker, topic, state):
    command = [sys.executable, "-m", "kohort", "watch", "--bootstrap", broker.bootstrap, "--interval", "0.1"]
    with member(broker, topic, client_id="one") as one:
        poll_until_shared(one)
        watching = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert watching.stderr is not None
        assert watching.stdout is not None
        assert "watching" in watching.stderr.readline()
        with member(broker, topic, client_id="two") as two:
            poll_until_shared(one, two)
            assert "NEW_MEMBER (high)" in watching.stdout.readline()
            watching.send_signal(signal.SIGKILL)
            watching.communicate()
        poll_until_shared(one)

    result = run("watch", "--once", "--group", topic)

    assert [line.split("  ")[3] for line in result.stdout.splitlines()] == ["MEMBER_LEFT (high)", "MEMBER_LEFT (high)"]
    (path,) = (state / "kohort" / "watch").glob("*.sqlite")
    kept: Any = WatchStore(path)
    generations = [entry.generation for entry in kept.entries(topic)]
    kept.close()
    assert generations == sorted(set(generations))


def test_watch_loses_no_journal_entry_at_full_disk(broker, topic, state):
    story(broker, topic, "classic")
    store = WatchStore(state / "s.sqlite")
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        with kohort.Consumer({"bootstrap.servers": broker.bootstrap, **CONSUMER_OPTIONS}) as reader:
            watcher = GroupWatcher(reader, admin, store, WatchOptions(poll_ms=0))
            assert watcher.open()
            watcher.step(0)
            before = store.positions(), store.entries(topic)
            store._db.execute("PRAGMA query_only = ON")
            with pytest.raises(StorageError, match="readonly"):
                eventually(lambda: watcher.step(10))
            store._db.execute("PRAGMA query_only = OFF")
            assert watcher.records
            watcher.finish()
        assert (store.positions(), store.entries(topic)) == before

        with kohort.Consumer({"bootstrap.servers": broker.bootstrap, **CONSUMER_OPTIONS}) as reader:
            watcher = GroupWatcher(reader, admin, store, WatchOptions(poll_ms=0))
            assert watcher.open()
            eventually(lambda: watcher.step(10) is not None and watcher.is_caught_up)
            watcher.finish()
    entries: Any = store.entries(topic)
    generations = [entry.generation for entry in entries]
    store.close()
    assert len(generations) >= 3
    assert generations == sorted(set(generations))


def test_duration_of_rebalance_is_bounded_by_sampled_states(broker, topic, state):
    store = WatchStore(state / "s.sqlite")
    with (
        kohort.Admin(bootstrap_servers=broker.bootstrap) as admin,
        kohort.Consumer({"bootstrap.servers": broker.bootstrap, **CONSUMER_OPTIONS, "fetch.min.bytes": 1}) as reader,
        member(broker, topic, client_id="one") as one,
    ):
        poll_until_shared(one)
        watcher = GroupWatcher(reader, admin, store, WatchOptions(poll_ms=1))
        assert watcher.open()
        eventually(lambda: watcher.step(10) is not None and watcher.is_caught_up)
        one.commit()
        eventually(lambda: watcher.step(10) is not None and watcher._late.of(partition_of(topic, 50)) is not None)
        with member(broker, topic, client_id="two") as two:
            for _ in range(POLLS):
                two.poll(10)
                watcher.step(10)
                if watcher.groups._groups[topic].round:
                    break
            poll_until_shared(one, two)
        new: Any = eventually(lambda: [entry for entry in watcher.step(10) if entry.group == topic])
        watcher.finish()
    store.close()
    assert new[0].settled_seen_ms is not None
    assert new[0].rebalancing_seen_ms is not None
    assert new[0].settled_seen_ms <= new[0].rebalancing_seen_ms <= new[0].at_ms + 1_000
    assert watcher.notes == []


def test_why_without_journal_reads_consumer_offsets(broker, topic):
    story(broker, topic, "consumer")
    with (
        kohort.Admin(bootstrap_servers=broker.bootstrap) as admin,
        kohort.Consumer({"bootstrap.servers": broker.bootstrap, **CONSUMER_OPTIONS}) as reader,
    ):
        found = read_group_history(reader, admin, topic)
        missing_group = read_group_history(reader, admin, "no such group")

    assert found is not None
    assert found.since_ms is not None
    assert {entry.group for entry in found.entries} == {topic}
    assert missing_group is not None
    assert missing_group[:2] == ([], None)
