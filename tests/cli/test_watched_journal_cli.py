from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import kohort
from kohort import OffsetAndMetadata, TopicPartition
from kohort.coordinator.journal import ClientIdentity, GenerationSeen, SeenMember
from kohort.insight.observed.watching import ChangedState
from kohort.watch.journal_source import STALE_MS
from kohort.watch.store import PlacedEntry, WatchStore

MINUTE_MS = 60_000


def generation(group: str, number: int, at_ms: int, *clients: str) -> GenerationSeen:
    members = tuple(
        SeenMember(
            member=ClientIdentity(f"{client}-id", client, f"/{client}"),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            topics=("t",),
            partitions={"t": (i,)},
        )
        for i, client in enumerate(clients)
    )
    return GenerationSeen(
        at_ms=at_ms,
        group=group,
        observed=True,
        generation=number,
        protocol_type="consumer",
        protocol="range",
        leader=None,
        members=members,
    )


class Watched:
    def __init__(self, broker: kohort.Broker, folder: Path) -> None:
        self.group, self.path, self.kept = f"watched-{uuid.uuid4().hex[:8]}", folder / "w.sqlite", 0
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({self.group: 2})
            admin.alter_group_offsets(self.group, {TopicPartition(self.group, 0): OffsetAndMetadata(0)})
            self.cluster = admin.describe_cluster().cluster_id

    def keep(self, *entries: GenerationSeen, until_ms: int) -> None:
        store = WatchStore(self.path)
        store.set_info("cluster", self.cluster)
        placed = [PlacedEntry(entry, 0, self.kept + i, 0) for i, entry in enumerate(entries)]
        self.kept += len(entries)
        store.save(placed, {}, ChangedState({}, []), until_ms)
        store.close()


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def watched(broker, tmp_path, now_ms) -> Watched:
    watched = Watched(broker, tmp_path)
    first = generation(watched.group, 1, now_ms - 70 * MINUTE_MS, "one")
    watched.keep(first, generation(watched.group, 2, now_ms - 10 * MINUTE_MS, "one", "two"), until_ms=now_ms)
    return watched


def test_commands_read_journal_file_of_store_option(run, ask, watched):
    store = "--store", str(watched.path)

    (rebalance,) = ask("group", "why", watched.group, *store)["rebalances"]
    assert (rebalance["generation"], rebalance["cause"]) == (2, "NEW_MEMBER")
    assert [event["kind"] for event in ask("group", "events", watched.group, *store)["events"]] == [
        "generation_seen",
        "generation_seen",
    ]
    assert ask("group", "timeline", watched.group, *store)["timeline"]["group"] == watched.group
    refused = ask("group", "fenced", watched.group, *store)
    assert (refused["fenced"], refused["from_outside"]) == ([], True)
    assert "kohort watch cannot see them" in run("group", "fenced", watched.group, *store).stderr
    page = run("metrics", *store).stdout
    counted = [line for line in page.splitlines() if line.startswith("kohort_group_rebalances_total")]
    assert any(watched.group in line and "NEW_MEMBER" in line and line.endswith(" 1.0") for line in counted)
    run("group", "why", watched.group, code=3)


def test_rebalance_of_last_hour_is_explained_by_older_journal_entries(ask, watched):
    (row,) = [row for row in ask("groups", "--store", str(watched.path))["groups"] if row["group"] == watched.group]
    assert row["rebalances_1h"] == 1
    assert row["last_rebalance"]["cause"] == "NEW_MEMBER"


def test_groups_command_shows_rebalances_of_many_groups(ask, broker, watched, now_ms):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        for i in range(201):
            admin.alter_group_offsets(f"many-{i}", {TopicPartition(watched.group, 0): OffsetAndMetadata(0)})
    rows = {row["group"]: row for row in ask("groups", "--store", str(watched.path))["groups"]}
    assert (rows[watched.group]["rebalances_1h"], rows["many-7"]["rebalances_1h"]) == (1, 0)


def test_rebalance_counts_are_unknown_with_stale_journal(run, ask, watched, now_ms):
    watched.keep(until_ms=now_ms - STALE_MS - MINUTE_MS)
    store = "--store", str(watched.path)

    result = run("groups", *store, "--output", "json")

    (row,) = [row for row in json.loads(result.stdout)["groups"] if row["group"] == watched.group]
    assert row["rebalances_1h"] is None
    assert "the journal ends at" in result.stderr
    assert "start `kohort watch`" in result.stderr
    assert "the journal ends at" in run("group", "why", watched.group, *store).stderr


def test_follow_option_of_events_reads_journal_file(broker, watched, now_ms):
    command = [sys.executable, "-m", "kohort", "group", "events", watched.group, "--follow", "--output", "ndjson"]
    following = subprocess.Popen(
        [*command, "--bootstrap", broker.bootstrap, "--store", str(watched.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert following.stdout is not None
        assert [json.loads(following.stdout.readline())["kind"] for _ in range(2)] == ["generation_seen"] * 2
        watched.keep(generation(watched.group, 3, now_ms, "one"), until_ms=now_ms)
        assert "generation 3 was observed" in json.loads(following.stdout.readline())["sentence"]
    finally:
        following.kill()
        following.communicate()


def test_journal_file_of_another_cluster_is_rejected(run, watched):
    watched.cluster = "another"
    watched.keep(until_ms=0)
    error = run("group", "why", watched.group, "--store", str(watched.path), code=2).stderr
    assert "is the journal of cluster another, not of" in error


def test_invalid_journal_file_is_rejected(run, watched, tmp_path):
    rubbish = tmp_path / "rubbish.sqlite"
    rubbish.write_bytes(b"no data base" * 100)
    error = run("group", "why", watched.group, "--store", str(rubbish), code=1).stderr
    assert "rubbish.sqlite: file is not a database" in error
    assert "does not exist" in run("groups", "--store", str(tmp_path / "nothing"), code=2).stderr
