from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kohort
from kohort.aio.admin import Admin
from kohort.aio.producing.producer import Producer
from kohort.cli.group.events import why
from support.processes.member_process import eventually

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).parents[1] / "support" / "processes" / "member_query.py"
PARTITIONS = 6
DEADLINE_S = 180.0


class Query:
    def __init__(self, bootstrap: str, checkpoint: Path) -> None:
        command = [sys.executable, str(PROGRAM), bootstrap, "orders", "shared", str(checkpoint)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows: list[tuple[int, int]] = []
        self.again: list[tuple[int, int]] = []
        self.holds = self.is_waiting = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            for partition, offset, again in json.loads(line):
                self.rows.append((partition, offset))
                if again:
                    self.again.append((partition, offset))
            self.is_waiting = self.holds
            if not self.is_waiting:
                self.completes()

    def completes(self) -> None:
        self.holds = self.is_waiting = False
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._reading.join(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Orders:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.sent = 0
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({"orders": PARTITIONS})

    def send(self, rows: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for n in range(self.sent, self.sent + rows):
                producer.send("orders", b"%d" % n, partition=n % PARTITIONS)
        self.sent += rows

    def all_read_by(self, *queries: Query) -> Callable[[], bool]:
        return lambda: (
            {row for q in queries for row in q.rows} == {(n % PARTITIONS, n // PARTITIONS) for n in range(self.sent)}
        )

    def shared_as(self, *shares: int) -> Callable[[], bool]:
        def now() -> bool:
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                found = admin.describe_groups(["shared"])
            stable = not found.errors and found["shared"].state == "Stable"
            return stable and sorted(len(m.assignment) for m in found["shared"].members) == sorted(shares)

        return now

    def lag(self) -> int:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            committed = admin.list_group_offsets("shared").check()
        return self.sent - sum(o.offset for o in committed.values() if o is not None)

    def rebalances(self) -> list[dict[str, Any]]:
        options = ["--last", "0", "--output", "json", "--bootstrap", self.bootstrap]
        done = CliRunner().invoke(why, ["shared", *options], catch_exceptions=False)
        rebalances: list[dict[str, Any]] = json.loads(done.stdout)["rebalances"]
        return rebalances


@pytest.fixture
def orders() -> Iterator[Orders]:
    with kohort.Broker() as broker:
        yield Orders(broker.bootstrap)


def test_no_row_is_lost_and_duplicates_are_reported_for_any_query_outcome(orders: Orders, tmp_path: Path) -> None:
    first, second = (Query(orders.bootstrap, tmp_path / name) for name in ("first", "second"))
    returned = None
    try:
        eventually("both share the partitions", orders.shared_as(3, 3), DEADLINE_S)
        orders.send(120)
        eventually("the rows are read", orders.all_read_by(first, second), DEADLINE_S)

        # the first query stalls inside a micro-batch beyond its session timeout, and continues
        first.holds = True
        orders.send(60)
        eventually("a micro-batch begins", lambda: first.is_waiting, DEADLINE_S)
        begun = first.rows[-1]
        first.signal(signal.SIGSTOP)
        eventually("the second query has all partitions", orders.shared_as(6), DEADLINE_S)
        eventually("the second query reads the micro-batch of the first", lambda: begun in second.rows, DEADLINE_S)
        first.signal(signal.SIGCONT)
        first.completes()
        eventually("the first query rejoins", orders.shared_as(3, 3), DEADLINE_S)

        # the first query is killed inside a micro-batch, and restarted with its checkpoint
        first.holds = True
        orders.send(60)
        eventually("a micro-batch begins", lambda: first.is_waiting, DEADLINE_S)
        begun = first.rows[-1]
        first.end()
        eventually("the second query has all partitions", orders.shared_as(6), DEADLINE_S)
        eventually("the second query reads the micro-batch of the first", lambda: begun in second.rows, DEADLINE_S)
        returned = Query(orders.bootstrap, tmp_path / "first")
        eventually("the restarted query joins", orders.shared_as(3, 3), DEADLINE_S)
        orders.send(60)
        eventually("the rows are read", orders.all_read_by(first, second, returned), DEADLINE_S)
        assert begun not in returned.rows, "the restarted query skips partitions of the second query"

        # the restarted query is stopped as Spark stops a query, and leaves the group
        returned.signal(signal.SIGTERM)
        eventually("the second query has all partitions after the restarted one left", orders.shared_as(6), DEADLINE_S)
        orders.send(60)
        eventually("the rows are read", orders.all_read_by(first, second, returned), DEADLINE_S)
        eventually("lag 0", lambda: orders.lag() == 0, DEADLINE_S)
    finally:
        for query in filter(None, (first, second, returned)):
            query.signal(signal.SIGCONT)
            query.end()

    queries = (first, second, returned)
    times = Counter(row for query in queries for row in query.rows)
    twice = {row for row, count in times.items() if count > 1}
    assert begun in twice
    assert twice <= {row for query in queries for row in query.again}
    causes = {rebalance["cause"]: rebalance for rebalance in orders.rebalances()}
    assert {"SESSION_TIMEOUT.frozen", "SESSION_TIMEOUT.process_died", "MEMBER_LEFT"} <= set(causes), list(causes)
    assert "UNKNOWN_MEMBER_ID" in str(causes["SESSION_TIMEOUT.frozen"]["evidence"]), (
        "requests after the stall are rejected"
    )
