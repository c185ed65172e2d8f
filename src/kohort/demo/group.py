"""Consumer group of the demo, and its journal: of three members one is killed, and a fourth member joins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kohort.aio.admin import Admin
from kohort.aio.consuming.consumer import Consumer
from kohort.coordinator.journal import TOPIC, AssignmentWritten, JournalEntry, MemberRemoved, RoundSettled
from kohort.demo.checks import Deliveries, count_deliveries, read_notes
from kohort.demo.processes import Child, Processes
from kohort.errors import ApiTimeout
from kohort.insight.journal_reader import JournalReader
from kohort.model import TopicPartition

_POLL_MS: Final = 100


class DemoJournal:
    def __init__(self, bootstrap: str, group: str) -> None:
        self._consumer = Consumer(bootstrap_servers=bootstrap, client_id="demo-journal", auto_offset_reset="earliest")
        self._consumer.assign([TopicPartition(TOPIC, 0)])
        self._reader = JournalReader(group)

    @property
    def entries(self) -> list[JournalEntry]:
        return self._reader.entries

    def read_more(self) -> None:
        for record in self._consumer.poll(_POLL_MS):
            self._reader.add(record.key, record.value)

    def read_all(self) -> list[JournalEntry]:
        partition = TopicPartition(TOPIC, 0)
        end = self._consumer.end_offsets([partition])[partition]
        while self._consumer.position(partition) < end:
            self.read_more()
        return self.entries

    def close(self) -> None:
        self._consumer.close()


def is_settled(entries: list[JournalEntry], members: int) -> bool:
    """True if the last generation in the journal has ``members`` members, each with partitions."""
    written = [e for e in entries if isinstance(e, AssignmentWritten)]
    settled = [e for e in entries if isinstance(e, RoundSettled)]
    if not written or not settled or settled[-1].generation != written[-1].generation:
        return False
    shares = (written[-1].partitions or {}).values()
    return len(shares) == members and all(any(share.values()) for share in shares)


def removal_of(entries: list[JournalEntry], client_id: str) -> MemberRemoved | None:
    removals = [e for e in entries if isinstance(e, MemberRemoved) and e.member.client_id == client_id]
    return removals[-1] if removals else None


GROUP: Final = "demo-group"
SESSION_TIMEOUT_MS: Final = 6000
WAIT_S: Final = 180.0


@dataclass(slots=True)
class KilledMember:
    name: str
    pid: int
    at_ms: int
    noticed_ms: int = 0

    @property
    def notice_ms(self) -> int:
        return self.noticed_ms - self.at_ms

    @property
    def sentence(self) -> str:
        if self.notice_ms < 0:
            return f"was removed from the group {-self.notice_ms / 1000:.1f} s before its SIGKILL"
        return f"was removed from the group {self.notice_ms / 1000:.1f} s after its SIGKILL"


@dataclass(slots=True)
class DemoGroup:
    bootstrap: str
    topic: str
    processes: Processes
    notes: Path
    journal: DemoJournal
    members: dict[str, Child] = field(default_factory=dict)
    killed: KilledMember | None = None
    added: str = ""
    stop_waiting: threading.Event = field(default_factory=threading.Event)

    def start_members(self, count: int = 3) -> None:
        self.notes.mkdir(parents=True, exist_ok=True)
        for number in range(1, count + 1):
            self.start_member(f"member-{number}")
        self._wait_until(lambda: self._settled(count), f"no {count} members with their partitions")

    def start_member(self, name: str) -> None:
        self.members[name] = self.processes.start(
            name,
            "kohort.demo.member",
            *("--bootstrap", self.bootstrap, "--topic", self.topic, "--group", GROUP, "--name", name),
            *("--notes", str(self._notes_of(name)), "--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
        )

    def _notes_of(self, name: str) -> Path:
        return self.notes / f"{name}.jsonl"

    def kill_one(self) -> KilledMember:
        """Send SIGKILL to the second member after it has written down its first records."""
        child = self.members["member-2"]
        notes = self._notes_of(child.name)
        self._wait_until(lambda: notes.stat().st_size > 0, f"{child.name} received no record")
        del self.members[child.name]
        child.kill()
        self.killed = KilledMember(child.name, child.pid, time.time_ns() // 1_000_000)
        return self.killed

    def wait_for_removal(self, killed: KilledMember) -> None:
        def removed() -> bool:
            settled, removal = self._settled(2), removal_of(self.journal.entries, killed.name)
            killed.noticed_ms = removal.at_ms if removal else 0
            return settled and removal is not None

        self._wait_until(removed, "the killed member was not removed")

    def add_one(self) -> None:
        self.added = "member-4"
        self.start_member(self.added)
        self._wait_until(lambda: self._settled(3), f"no partitions for {self.added}")

    def wait_for_lag_0(self) -> None:
        self._wait_until(lambda: not any(lag_of(self.bootstrap, GROUP, [self.topic]).values()), "the lag is not 0")

    def _settled(self, members: int) -> bool:
        self.journal.read_more()
        return is_settled(self.journal.entries, members)

    def _wait_until(self, holds: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not holds():
            for child in self.members.values():
                child.check_alive()
            if self.stop_waiting.is_set() or time.monotonic() > deadline:
                raise ApiTimeout(f"group {GROUP}: {problem} within {WAIT_S:.0f} s")
            time.sleep(0.05)

    def leave(self) -> None:
        for child in self.members.values():
            self.processes.end(child)

    def seen(self) -> Deliveries:
        return count_deliveries(read_notes(self.notes.glob("*.jsonl")), end_offsets(self.bootstrap, self.topic))


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    with Admin(bootstrap_servers=bootstrap, client_id="demo-check") as admin:
        return {tp.partition: end for tp, end in _ends(admin, topic).items()}


def lag_of(bootstrap: str, group: str, topics: list[str]) -> dict[str, int]:
    lag = {}
    with Admin(bootstrap_servers=bootstrap, client_id="demo-check") as admin:
        for topic in topics:
            ends = _ends(admin, topic)
            held = admin.list_group_offsets(group, list(ends)).check()
            done = {tp: offset.offset for tp, offset in held.items() if offset is not None}
            lag[topic] = sum(end - done.get(tp, 0) for tp, end in ends.items())
    return lag


def _ends(admin: Admin, topic: str) -> dict[TopicPartition, int]:
    described = admin.describe_topics([topic])[topic]
    places: dict[TopicPartition, int | str] = {
        TopicPartition(topic, p.partition): "latest" for p in described.partitions
    }
    return {tp: found.offset for tp, found in admin.list_offsets(places).check().items()}
