"""Two pipelines as members of one group: one stalls, is fenced, then killed; the other takes over.

Used by tests/spark on kohort and by tests/interop on Apache Kafka.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from kohort import Admin, Producer
from kohort.errors import ErrorCode
from kohort.spark.reading.group_commits import parse_mark
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.processes.member_process import eventually
from support.processes.pipeline_process import PipelineProcess, last_run, ledger_of, rows_of
from support.raw.raw_client import RawClient

TOPIC = "orders-of-two"
GROUP = "two"
PARTITIONS = 6
WAIT_S = 600.0
COLUMNS = ("partition", "offset", "redelivered")
ORDERS = """\
name: orders
brokers: "${BROKERS}"
source:
  topics: [orders-of-two]
  group: two
  group_mode: member
  limit: {rows: 200}
  kafka:
    client.id: "${NAME}"
    PROTOCOL
decode: {format: json, schema: "n long"}
steps:
  - python: steps.py:held
  - sql: select *, _source.partition, _source.offset, _source.redelivered from input
sinks:
  - parquet: {path: "out-${NAME}"}
checkpoint: "state-${NAME}"
trigger: {every: 100 milliseconds}
"""
PROTOCOLS = {
    "classic": "session.timeout.ms: 20000\n    heartbeat.interval.ms: 1000",
    "consumer": "group.protocol: consumer",
}
"""Group options of each protocol that members set; with the consumer protocol the broker sets the rest."""
STEPS = """\
import os
import time
from pathlib import Path


def held(rows):
    hold = Path(os.environ["HOLD"])
    while hold.exists():
        hold.with_suffix(".reached").touch()
        time.sleep(0.05)
    return rows
"""


class Run:
    """A pipeline by name; ``holds`` suspends it in its next micro-batch."""

    def __init__(self, folder: Path, bootstrap: str, name: str) -> None:
        self.hold = folder / f"{name}.hold"
        self.out, self.state = folder / f"out-{name}", folder / f"state-{name}" / "orders"
        environ = {"BROKERS": bootstrap, "NAME": name, "HOLD": str(self.hold)}
        self.killed = False
        self.process = PipelineProcess(folder / "orders.yaml", environ, log=folder / f"{name}.log")

    def holds(self) -> None:
        self.hold.touch()

    def completes(self) -> None:
        self.hold.unlink()
        self.hold.with_suffix(".reached").unlink()

    def is_waiting(self) -> bool:
        self.check_runs()
        return self.hold.with_suffix(".reached").exists()

    def kill(self) -> None:
        self.process.kill()
        self.killed = True

    def check_runs(self) -> None:
        if not self.killed:
            self.process.check_runs()

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.out, COLUMNS)


class Orders:
    """The topic and its group."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.sent = 0
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({TOPIC: PARTITIONS})

    def send(self, rows: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for n in range(self.sent, self.sent + rows):
                producer.send(TOPIC, b'{"n": %d}' % n, partition=n % PARTITIONS)
        self.sent += rows

    def described(self) -> Any:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            found = admin.describe_groups([GROUP])
            return None if found.errors else found[GROUP]

    def shared_as(self, **shares: int) -> Callable[[], bool]:
        """Return a check that the named members have these numbers of partitions and the group is settled."""

        def now() -> bool:
            group = self.described()
            if group is None or group.state != "Stable":
                return False
            return {m.client_id: len(m.assignment) for m in group.members} == shares

        return now

    def all_in(self, *runs: Run) -> Callable[[], bool]:
        def now() -> bool:
            for run in runs:
                run.check_runs()
            found = {(row["partition"], row["offset"]) for run in runs for row in run.rows()}
            return found == {(n % PARTITIONS, n // PARTITIONS) for n in range(self.sent)}

        return now

    def claims(self) -> dict[int, tuple[int, int]]:
        """Claiming query and offset, by partition."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            committed = admin.list_group_offsets(GROUP).check()
        found = {tp.partition: (parse_mark(o.metadata), o.offset) for tp, o in committed.items() if o is not None}
        return {partition: (mark.query, offset) for partition, (mark, offset) in found.items() if mark is not None}

    def lag(self) -> int:
        return self.sent - sum(offset for _, offset in self.claims().values())

    def commit_as(self, member_id: str, generation: int, partition: int) -> int:
        """Commit as a member of a generation; return the error code."""
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=0, committed_metadata="late")
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
        )
        with RawClient(self.bootstrap) as client:
            code: int = client.ask(request, 8).topics[0].partitions[0].error_code
            return code


def run_two_pipelines(
    folder: Path, bootstrap: str, generation: Callable[[], int], *, protocol: Literal["classic", "consumer"] = "classic"
) -> None:
    """Run the scenario, and check that each row is accounted for. ``generation``: the group's reported generation."""
    (folder / "orders.yaml").write_text(ORDERS.replace("PROTOCOL", PROTOCOLS[protocol]))
    (folder / "steps.py").write_text(STEPS)
    orders = Orders(bootstrap)
    left, right = (Run(folder, bootstrap, name) for name in ("left", "right"))
    try:
        eventually("both share the partitions", orders.shared_as(left=3, right=3), WAIT_S)
        orders.send(600)
        eventually("the rows are written", orders.all_in(left, right), WAIT_S)
        stands_still_and_is_fenced(orders, left, right, generation)
        is_killed(orders, left, right)
        orders.send(300)
        eventually("the rows are written", orders.all_in(left, right), WAIT_S)
        eventually("lag 0", lambda: orders.lag() == 0, WAIT_S)
        assert right.process.end() == 0, right.process.printed
    finally:
        for run in (left, right):
            run.process.kill()
    every_row_is_accounted_for(orders, left, right)


def stands_still_and_is_fenced(orders: Orders, left: Run, right: Run, generation: Callable[[], int]) -> None:
    left.holds()
    orders.send(300)
    eventually("a micro-batch of the left is under way", left.is_waiting, WAIT_S)
    member = next(m for m in orders.described().members if m.client_id == "left")
    begun_in, had = generation(), {tp.partition for tp in member.assignment}
    left.process.signal_all(signal.SIGSTOP)
    eventually("the right has all partitions", orders.shared_as(right=6), WAIT_S)
    eventually("it reads what the left had begun", orders.all_in(left, right), WAIT_S)

    for partition in had:
        assert orders.commit_as(member.member_id, begun_in, partition) == ErrorCode.UNKNOWN_MEMBER_ID
    eventually("the right has committed", lambda: orders.lag() == 0, WAIT_S)
    claims = orders.claims()
    assert len({query for query, _ in claims.values()}) == 1

    left.completes()
    left.process.signal_all(signal.SIGCONT)
    eventually("the left joins again", orders.shared_as(left=3, right=3), WAIT_S)
    assert {p: offset for p, (_, offset) in orders.claims().items()} == {p: offset for p, (_, offset) in claims.items()}


def is_killed(orders: Orders, left: Run, right: Run) -> None:
    left.holds()
    orders.send(300)
    eventually("a micro-batch of the left is under way", left.is_waiting, WAIT_S)
    left.kill()
    eventually("the right has all partitions", orders.shared_as(right=6), WAIT_S)
    eventually("it reads what the left had begun", orders.all_in(left, right), WAIT_S)


def every_row_is_accounted_for(orders: Orders, left: Run, right: Run) -> None:
    rows = [row for run in (left, right) for row in run.rows()]
    copies = Counter((row["partition"], row["offset"]) for row in rows)
    assert set(copies) == {(n % PARTITIONS, n // PARTITIONS) for n in range(orders.sent)}
    again = {(row["partition"], row["offset"]) for row in rows if row["redelivered"]}
    twice = {place for place, times in copies.items() if times > 1}
    assert twice
    assert twice <= again

    ledgers = [ledger_of(left.state), ledger_of(right.state)]
    assert [ledger.problems for ledger in ledgers] == [[], []]
    assert sum(ledger.rows_in for ledger in ledgers) == copies.total()
    assert sum(ledger.redelivered for ledger in ledgers) == sum(row["redelivered"] for row in rows)
    report = last_run(right.state)
    assert (report["balanced"], report["lag"]) == (True, {"input": 0})
    assert f"re-delivered {report['ledger']['redelivered']:,}" in right.process.printed
