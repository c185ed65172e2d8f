"""Two members load a topic into one table, and SIGKILL ends one of them again and again: every record is one row."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kohort
from kohort.tables import load
from support.processes.table_load import SCHEMA
from support.tables import FORMATS, rows_of, sink_in
from support.waiting import eventually

pytestmark = [pytest.mark.ours, pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(3600)]
TESTS = Path(__file__).parents[1]
KILLS = 30
PARTITIONS = 4
ROWS_PER_S = 400
DEADLINE_S = 300
MOMENTS = ("append", "appended", "any time")
"""When a kill comes: in the table's commit, between it and the group's commit, or at a random time."""
OPTIONS = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}


class Producing(threading.Thread):
    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        self._address = bootstrap
        self._over = threading.Event()
        self.count = 0

    def run(self):
        with kohort.Producer(bootstrap_servers=self._address) as producer:
            while not self._over.wait(0.05):
                for _ in range(ROWS_PER_S // 20):
                    producer.send("orders", b'{"n": %d}' % self.count, partition=self.count % PARTITIONS)
                    self.count += 1

    def end(self):
        self._over.set()
        self.join(60)


class Loader:
    """A member as a process, and the lines that it printed since the last look."""

    def __init__(self, bootstrap, folder, form):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.processes.table_load", bootstrap, "orders", str(folder), form],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(TESTS)},
        )

        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def kill_at(self, moment, pause_s):
        """Kill the process a pause after the next line ``moment`` of its output."""
        while not self._lines.empty():
            self._lines.get()
        while (line := self._lines.get(timeout=DEADLINE_S)) not in (None, moment):
            if moment == "any time":
                break
        time.sleep(pause_s)
        assert line is not None, self.process.stderr.read()
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.mark.parametrize("form", FORMATS)
def test_killed_members_neither_lose_nor_repeat_a_row(tmp_path, form):
    rng = random.Random(f"{form}-44")
    with kohort.Broker(OPTIONS) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"orders": PARTITIONS})
        producing = Producing(broker.bootstrap)
        producing.start()
        loaders = [Loader(broker.bootstrap, tmp_path, form) for _ in range(2)]
        for kill in range(KILLS):
            victim = loaders.pop(rng.randrange(2))
            pause_s = rng.choice([0, 0, 0.005, 0.02, 0.05, 0.5])
            victim.kill_at(MOMENTS[kill % 3], pause_s)
            loaders.append(Loader(broker.bootstrap, tmp_path, form))
        producing.end()
        for loader in loaders:
            loader.end()
        eventually(
            lambda: not admin.describe_groups(["loader"])["loader"].members,
            "the killed members expire",
            deadline_s=DEADLINE_S,
        )
        options = {"bootstrap_servers": broker.bootstrap, "group_id": "loader", "enable_auto_commit": False}
        with kohort.Consumer(options, auto_offset_reset="earliest") as consumer:
            columns = ["partition", "offset"]
            load(consumer, "orders", sink_in(tmp_path, form), json=SCHEMA, columns=columns, until_end=True)

    rows = rows_of(sink_in(tmp_path, form))
    expected = [(n % PARTITIONS, n // PARTITIONS, n) for n in range(producing.count)]
    assert sorted((row["partition"], row["offset"], row["n"]) for row in rows) == sorted(expected)
    print(f"{form}: {KILLS} kills, {producing.count} rows")
