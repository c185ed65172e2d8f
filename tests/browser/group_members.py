from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import kohort
from kohort import ConfigResource
from support.waiting import eventually

SESSION_MS = 6_000
POLL_MS = 100
KILLED = """
import sys, kohort
bootstrap, group, topic, protocol, name = sys.argv[1:]
options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
with kohort.Consumer(bootstrap_servers=bootstrap, group_id=group, group_protocol=protocol, client_id=name,
                     auto_offset_reset="earliest", auto_commit_interval_ms=500, **options) as consumer:
    consumer.subscribe([topic])
    while True:
        consumer.poll(100)
        if consumer.assignment():
            print("has", flush=True)
"""


class Polling:
    def __init__(self, options: dict[str, Any], topic: str) -> None:
        self._options, self._topic = options, topic
        self._ending, self._may_poll = threading.Event(), threading.Event()
        self._may_poll.set()
        self.partitions: frozenset[int] = frozenset()
        self._thread = threading.Thread(target=self._run, name=options["client_id"], daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with kohort.Consumer(**self._options) as consumer:
            consumer.subscribe([self._topic])
            while not self._ending.is_set():
                if self._may_poll.wait(0.1):
                    consumer.poll(POLL_MS)
                    self.partitions = frozenset(tp.partition for tp in consumer.assignment())

    def stand_still(self) -> None:
        self._may_poll.clear()

    def go_on(self) -> None:
        self._may_poll.set()

    def leave(self) -> None:
        self._ending.set()
        self._may_poll.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self._options['client_id']} does not end"


class GroupMembers:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._polling: dict[str, Polling] = {}
        self._processes: list[subprocess.Popen[str]] = []

    def join(self, name: str, group: str, protocol: str = "classic", **options: Any) -> Polling:
        """Start a member of a group. It reads the topic that has the same name as the group."""
        timed = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
        settings = {
            "bootstrap_servers": self.bootstrap,
            "group_id": group,
            "group_protocol": protocol,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 300,
            **timed,
            **options,
        }
        found = self._polling[name] = Polling(settings, group)
        return found

    def has(self, name: str, partitions: int) -> None:
        member = self._polling[name]
        eventually(
            lambda: len(member.partitions) == partitions,
            lambda: f"{name} has {sorted(member.partitions)}, and not {partitions}",
            deadline_s=90,
        )

    def partitions_of(self, name: str) -> frozenset[int]:
        return self._polling[name].partitions

    def leave(self, name: str) -> None:
        self._polling.pop(name).leave()

    def story_of(self, group: str) -> dict[str, list[str]]:
        with kohort.Admin(bootstrap_servers=self.bootstrap) as admin:
            about = admin.describe_groups([group])[group]
            return {one.member_id: sorted(map(str, one.assignment)) for one in about.members}

    def committed(self, group: str) -> dict[int, int]:
        with kohort.Admin(bootstrap_servers=self.bootstrap) as admin:
            found = admin.list_group_offsets(group)
            return {tp.partition: at.offset for tp in found if (at := found[tp]) is not None}

    def come_and_be_killed(self, name: str, group: str, protocol: str = "classic") -> None:
        command = [sys.executable, "-c", KILLED, self.bootstrap, group, group, protocol, name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        for _ in range(15):  # the member commits every half second
            assert process.stdout.readline(), f"{name} ended by itself"
        process.kill()
        process.wait(30)
        process.stdout.close()

    def end(self) -> None:
        for name in list(self._polling):
            self.leave(name)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait(30)


def prepare(bootstrap: str, topics: Sequence[str], partitions: int = 4) -> None:
    """Create topics, and set a short session timeout for the consumer groups with the same names."""
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(dict.fromkeys(topics, partitions))
        short = {"consumer.session.timeout.ms": str(SESSION_MS), "consumer.heartbeat.interval.ms": "500"}
        for topic in topics:
            admin.alter_configs({ConfigResource("group", topic): short}).check()


def write(bootstrap: str, topic: str, records: int, value: Callable[[int], bytes] = lambda n: b"order %d" % n) -> None:
    """Produce records, distributed evenly over the four partitions."""
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(records):
            producer.send(topic, value(n), key=b"key-%d" % n, partition=n % 4)
        producer.flush(30_000)


def read_all(bootstrap: str, group: str, records: int) -> None:
    """Let one member read and commit ``records`` records of the topic that has the same name as the group."""
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([group])
        count = 0

        def more() -> bool:
            nonlocal count
            count += len(consumer.poll(500))
            return count >= records

        eventually(more, lambda: f"{group} read {count} of {records}", pause_s=0)
        consumer.commit()
