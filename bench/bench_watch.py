"""Cost of `kohort watch`: processor time and memory with a cluster of many committing groups.

    python bench/bench_watch.py [--groups 1000] [--commits 100] [--seconds 60] [--backlog 500000] [--json]

The watcher is a separate process that samples groups and writes its file. Its records are synthetic, in an ordinary
topic of 50 partitions in place of ``__consumer_offsets``: each group has five members and twenty partitions, one group
per second rebalances, and ``--commits`` offsets per second are committed, each in its own batch, like a coordinator's.
As many groups without members exist in the cluster, for the samples. First it reads a backlog of commits. ``cpu`` is
the share of one core.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from serving import cpu_of, resident_mb, served_broker

import kohort
from kohort.coordinator.records import GroupWritten, KeyValue, OffsetCommitted, build_record
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.watch import watcher
from kohort.watch.store import WatchStore
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue

STAND_IN = "written-by-hand"
PARTITIONS = 50
MEMBERS, SHARE = 5, 4


def generation(group: int, number: int) -> KeyValue:
    """The record of a generation: five members with four partitions each."""
    now_ms = time.time_ns() // 1_000_000
    members = [
        MemberMetadata(
            member_id=f"member-{i}-{number // (i + 7)}-of-{group}",
            client_id=f"client-{i}",
            client_host=f"/10.0.0.{i}",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=build_subscription(Subscription(["orders"])),
            assignment=build_assignment(
                Assignment([TopicPartition("orders", p) for p in range(i * SHARE, (i + 1) * SHARE)])
            ),
        )
        for i in range(MEMBERS)
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range",
        leader=members[0].member_id,
        current_state_timestamp=now_ms,
        members=members,
    )
    return build_record(GroupWritten(f"group-{group}", value))


def commit(nth: int, groups: int) -> tuple[int, KeyValue]:
    """The nth commit, and the number of its group."""
    group, partition = nth % groups, nth // groups % (MEMBERS * SHARE)
    value = OffsetCommitValue(offset=nth, metadata="", commit_timestamp=1_700_000_000_000 + nth, topic_id=b"o" * 16)
    return group, build_record(OffsetCommitted(f"group-{group}", "orders", partition, value))


def fill(producer: kohort.Producer, address: str, groups: int, backlog: int) -> None:
    """Write every group and the backlog, and create groups for the samples."""
    for group in range(groups):
        key, value = generation(group, 1)
        producer.send(STAND_IN, value, key, partition=group % PARTITIONS)
    for nth in range(backlog):
        group, (key, value) = commit(nth, groups)
        producer.send(STAND_IN, value, key, partition=group % PARTITIONS)
    producer.flush()
    with kohort.Admin(bootstrap_servers=address) as admin:
        for group in range(groups):
            admin.alter_group_offsets(f"group-{group}", {TopicPartition(STAND_IN, 0): OffsetAndMetadata(1)})


def watch(address: str, path: Path) -> None:
    """Run the watcher until the process is ended; report when the backlog is read."""
    watcher.OFFSETS_TOPIC = STAND_IN  # type: ignore[misc]
    options = {"bootstrap.servers": address, **watcher.CONSUMER_OPTIONS}
    with kohort.Admin(bootstrap_servers=address) as admin, kohort.Consumer(options) as consumer:
        watching = watcher.GroupWatcher(consumer, admin, WatchStore(path))
        watching.open()
        is_printed = False
        while True:
            watching.step(500)
            if watching.is_caught_up and not is_printed:
                print(json.dumps({"records": watching.records, "sizes": watching.groups.sizes}), flush=True)
                is_printed = True


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Measure one run against a broker in a separate process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served_broker() as broker,
        kohort.Producer(bootstrap_servers=broker.address, linger_ms=5) as producer,
    ):
        with kohort.Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topics({STAND_IN: PARTITIONS})
        fill(producer, broker.address, options.groups, options.backlog)
        command = [sys.executable, __file__, "--be", broker.address, str(Path(folder) / "s.sqlite")]
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            caught_up = json.loads(child.stdout.readline())
            backlog_cpu_s, backlog_s = cpu_of(child.pid), time.monotonic() - began
            write(producer, options)
            cpu_s = cpu_of(child.pid) - backlog_cpu_s
            memory_mb = resident_mb(child.pid)
        finally:
            child.kill()
            child.wait()
    return {
        "backlog_records": caught_up["records"],
        "backlog_s": round(backlog_s, 2),
        "backlog_us_a_record": round(backlog_cpu_s / max(1, caught_up["records"]) * 1e6, 2),
        "groups": caught_up["sizes"][0],
        "partitions": caught_up["sizes"][1],
        "cpu": round(cpu_s / options.seconds, 4),
        "resident_mb": round(memory_mb, 1),
    }


def write(producer: kohort.Producer, options: argparse.Namespace) -> None:
    """Commit at the rate and rebalance one group per second, for the given time."""
    began, nth = time.monotonic(), options.backlog
    for second in range(options.seconds):
        group = second % options.groups
        key, value = generation(group, 2 + second // options.groups)
        producer.send(STAND_IN, value, key, partition=group % PARTITIONS)
        for i in range(options.commits):
            group, (key, value) = commit(nth, options.groups)
            producer.send(STAND_IN, value, key, partition=group % PARTITIONS)
            nth += 1
            time.sleep(max(0.0, began + second + i / options.commits - time.monotonic()))


def main() -> None:
    if sys.argv[1:2] == ["--be"]:
        watch(sys.argv[2], Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--backlog", type=int, default=500_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<22}{value:>12}")


if __name__ == "__main__":
    main()
