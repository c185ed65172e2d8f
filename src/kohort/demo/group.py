"""The group's part of the demo: three members, one killed while rows arrive, one added; then all leave in order."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kohort.aio.admin import Admin
from kohort.demo.journal import DemoJournal, removal_of, settled_with
from kohort.demo.processes import Child, Processes
from kohort.demo.seen import Seen, count_seen, read_notes
from kohort.errors import ApiTimeout
from kohort.model import TopicPartition

GROUP: Final = "demo-group"
SESSION_TIMEOUT_MS: Final = 6000
WAIT_S: Final = 180.0


@dataclass(slots=True)
class Killed:
    """The member that was killed: when, and when the coordinator noticed."""

    name: str
    pid: int
    at_ms: int
    noticed_ms: int = 0

    @property
    def notice_ms(self) -> int:
        return self.noticed_ms - self.at_ms

    @property
    def told(self) -> str:
        """When it was noticed, in words; on a slow machine it may have been heard of too late before it was killed."""
        if self.notice_ms < 0:
            return f"was out of the group already, {-self.notice_ms / 1000:.1f} s before its SIGKILL"
        return f"was noticed {self.notice_ms / 1000:.1f} s after its SIGKILL"


@dataclass(slots=True)
class GroupPart:
    """Runs the members; ``advance`` is called while rows are loaded, and does what is due."""

    bootstrap: str
    topic: str
    processes: Processes
    notes: Path
    journal: DemoJournal
    members: dict[str, Child] = field(default_factory=dict)
    killed: Killed | None = None
    added: str = ""
    give_up: threading.Event = field(default_factory=threading.Event)
    """Set when the demo ends before its time, so that nobody waits for the group any more."""

    def start_members(self, count: int = 3) -> None:
        """Start members and wait until each has its partitions."""
        self.notes.mkdir(parents=True, exist_ok=True)
        for number in range(1, count + 1):
            self.start_member(f"member-{number}")
        self.journal.wait_for(settled_with(count), f"{count} members with their partitions", WAIT_S, self.give_up)

    def start_member(self, name: str) -> None:
        self.members[name] = self.processes.start(
            name,
            "kohort.demo.member",
            *("--bootstrap", self.bootstrap, "--topic", self.topic, "--group", GROUP, "--name", name),
            *("--notes", str(self._notes_of(name)), "--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
        )

    def _notes_of(self, name: str) -> Path:
        return self.notes / f"{name}.jsonl"

    def kill_one(self) -> Killed:
        """SIGKILL the second member while it is at work, that is, after it has noted its first rows."""
        child = self.members.pop("member-2")
        deadline = time.monotonic() + WAIT_S
        while not self._notes_of(child.name).stat().st_size and not self.give_up.is_set():
            child.check_alive()
            if time.monotonic() > deadline:
                raise ApiTimeout(f"{child.name} saw no row within {WAIT_S:.0f} s")
            time.sleep(0.05)
        child.kill()
        self.killed = Killed(child.name, child.pid, time.time_ns() // 1_000_000)
        return self.killed

    def notice(self) -> bool:
        """Tell whether the coordinator has noticed the kill, and the others have taken over."""
        if self.killed is None:
            return False
        self.journal.read_more()
        removal = removal_of(self.journal.entries, self.killed.name)
        if removal is None:
            return False
        self.killed.noticed_ms = removal.at_ms
        return settled_with(2)(self.journal.entries)

    def wait_for_notice(self) -> None:
        deadline = time.monotonic() + WAIT_S
        while not self.notice():
            for child in self.members.values():
                child.check_alive()
            if self.give_up.is_set() or time.monotonic() > deadline:
                raise ApiTimeout(f"group {GROUP}: the killed member was not noticed within {WAIT_S:.0f} s")

    def add_one(self) -> None:
        """Add a member that was never there, and wait until it has its share."""
        self.added = "member-4"
        self.start_member(self.added)
        self.journal.wait_for(settled_with(3), "a share for the added member", WAIT_S, self.give_up)

    def wait_for_lag_0(self) -> None:
        """Until the group has committed all there is; a member that ended meanwhile is an error."""
        deadline = time.monotonic() + WAIT_S
        while any(lag_of(self.bootstrap, GROUP, [self.topic]).values()):
            for child in self.members.values():
                child.check_alive()
            if time.monotonic() > deadline:
                raise ApiTimeout(f"group {GROUP}: lag 0 within {WAIT_S:.0f} s was not reached")
            time.sleep(0.2)

    def leave(self) -> None:
        """End the members one after the other; each says goodbye."""
        for child in self.members.values():
            self.processes.end(child)

    def seen(self) -> Seen:
        """Return what the members noted, against the log."""
        return count_seen(read_notes(self.notes.glob("*.jsonl")), end_offsets(self.bootstrap, self.topic))


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Return where each partition of a topic ends."""
    with Admin(bootstrap_servers=bootstrap, client_id="demo-check") as admin:
        return {tp.partition: end for tp, end in _ends(admin, topic).items()}


def lag_of(bootstrap: str, group: str, topics: list[str]) -> dict[str, int]:
    """Return how many records of each topic a group has yet to commit."""
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
