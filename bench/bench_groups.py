"""Time of ``kohort groups`` on a broker with many groups, as a user waits for it.

    python bench/bench_groups.py [--groups 10000] [--topics 50] [--partitions 3] [--rounds 3] [--json]

Groups have no members; each committed three partitions of one topic and has a lag in all. The broker is a separate
process. Reported: the command's wall time, its parts in this process (the requests alone, the findings); ``cpu`` is
both processes' together. The best of some rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench_coordinator import additions_per_second
from serving import cpu_of, served_broker

import kohort
from kohort import TopicPartition
from kohort.insight.findings.groups import find_group
from kohort.watch.sampling import SamplingLimits, sample_groups

RECORDS = 20


def fill(address: str, groups: int, topics: int, partitions: int) -> None:
    """Create topics with some records, and groups with a lag."""
    with (
        kohort.Admin(bootstrap_servers=address) as admin,
        kohort.Producer(bootstrap_servers=address) as producer,
    ):
        admin.create_topics({f"topic-{n}": partitions for n in range(topics)})
        for n in range(topics):
            for i in range(RECORDS * partitions):
                producer.send(f"topic-{n}", b"v" * 100, partition=i % partitions)
        producer.flush()
        for n in range(groups):
            topic = f"topic-{n % topics}"
            offsets = {TopicPartition(topic, p): n // topics % RECORDS for p in range(partitions)}
            admin.alter_group_offsets(f"group-{n}", offsets)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of a call, and its result."""
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def command_seconds(address: str, broker_pid: int, *options: str) -> tuple[float, float]:
    """Return the wall time of the whole command, and the processor time of the command and of the broker."""
    environment = {**os.environ, "KOHORT_BOOTSTRAP": address}
    command = [sys.executable, "-m", "kohort", "groups", *options]
    before = used_by_children() + cpu_of(broker_pid)
    wall, _ = timed(
        lambda: subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    )
    return wall, used_by_children() + cpu_of(broker_pid) - before


def used_by_children() -> float:
    """Return the processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(address: str, broker_pid: int) -> dict[str, float]:
    """One round."""
    with kohort.Admin(bootstrap_servers=address) as admin:
        cpu = time.process_time() + cpu_of(broker_pid)
        listing, listed = timed(admin.list_groups)
        names = [g.group_id for g in listed]
        limits = SamplingLimits(append_times=0)
        sampling, sample = timed(lambda: sample_groups(admin, names, limits))
        finding, found = timed(lambda: [find_group([s]) for s in sample.groups])
        assert len(found) == len(names)
        cpu = time.process_time() + cpu_of(broker_pid) - cpu
        dated, sample = timed(lambda: sample_groups(admin, names, SamplingLimits(append_times=5000, append_ms=60_000)))
    bare, bare_cpu = command_seconds(address, broker_pid, "--no-journal")
    whole, whole_cpu = command_seconds(address, broker_pid)
    return {
        "list": listing,
        "sample": sampling,
        "find": finding,
        "cpu": cpu,
        "with_5000_append_times": dated,
        "command_no_journal": bare,
        "command_no_journal_cpu": bare_cpu,
        "command": whole,
        "command_cpu": whole_cpu,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"python_additions_per_second": float(round(additions_per_second()))}
    with served_broker() as served:
        fill(served.address, options.groups, options.topics, options.partitions)
        rounds = [measure(served.address, served.pid) for _ in range(options.rounds)]
    for name in rounds[0]:
        result[f"{name}_seconds"] = round(min(one[name] for one in rounds), 3)
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.groups} groups of {options.partitions} partitions each, the best of {options.rounds}")
    for name, value in result.items():
        print(f"  {name:<34}{value:>12}")


if __name__ == "__main__":
    main()
