"""A consumer of any client as a process, and its output so far; ``interop/clients/README.md`` is its contract."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakSet

from support import waiting

DEADLINE_S = 150.0


def eventually(what: str, check: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """Wait until ``check()`` is true and return its result; fail with ``what`` at the deadline."""
    return waiting.eventually(check, f"not in time: {what}", deadline_s=deadline_s, pause_s=0.05)


class Change(NamedTuple):
    """Partitions that a member gained (or lost), and the time in ms of the machine's clock."""

    gained: bool
    partitions: frozenset[int]
    at_ms: float


_members: WeakSet[Member] = WeakSet()


def what_members_did() -> str:
    """Describe all members of the running test, for a failure report."""
    return "\n".join(m.story() for m in sorted(_members, key=lambda m: m.process.pid))


def why_groups_rebalanced() -> str:
    """Report the rebalances of these members' groups from a broker's journal, by ``kohort group why``."""
    groups = sorted({(m.group, m.bootstrap) for m in _members})
    command = [sys.executable, "-m", "kohort", "group", "why", "--last", "0"]
    reports = []
    for group, bootstrap in groups:
        arguments = [*command, group, "--bootstrap", bootstrap]
        try:
            why = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired as late:
            reports.append(f"{group}: {late}")  # the original failure must still be reported
        else:
            reports.append(f"{group}:\n{why.stdout}{why.stderr}")
    return "\n".join(reports)


class Member:
    """A running member. ``command`` is how its program is called, up to the verb."""

    def __init__(
        self,
        command: Sequence[str],
        bootstrap: str,
        group: str,
        topic: str,
        *,
        strategy: str = "-",
        instance: str = "-",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*command, "consume", bootstrap, group, topic, strategy, instance],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.group, self.bootstrap = group, bootstrap
        self.owns: set[int] = set()
        self.changes: list[Change] = []
        self.read: set[tuple[int, int]] = set()
        self.read_again: list[tuple[int, int]] = []
        self.has_left = False
        self.ended_ms: float | None = None
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._collect, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        _members.add(self)

    def story(self) -> str:
        """Describe its progress, its gained and lost partitions with times, and its stderr."""
        code = self.process.poll()
        ends: dict[int, int] = {}
        for partition, offset in self.read:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        lines = [
            f"member {self.process.pid}, {'running' if code is None else f'exit code {code}'}:",
            f"  read {len(self.read)} records, {len(self.read_again)} again; up to {dict(sorted(ends.items()))}",
        ]
        for change in self.changes:
            verb = "gained" if change.gained else "gave up"
            lines.append(f"  at {change.at_ms:.0f} ms it {verb} {sorted(change.partitions)}")
        return "\n".join([*lines, *(f"  stderr: {line.rstrip()}" for line in self.errors)])

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if "gained" in event:
                self.owns |= set(event["gained"])
                self.changes.append(Change(True, frozenset(event["gained"]), event["at"]))
            elif "gave_up" in event:
                self.owns -= set(event["gave_up"])
                self.changes.append(Change(False, frozenset(event["gave_up"]), event["at"]))
            elif "read" in event:
                at = tuple(event["read"])
                if at in self.read:
                    self.read_again.append(at)
                self.read.add(at)
            else:
                self.has_left = bool(event["left"])

    def _collect(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def kill(self) -> None:
        """Kill the process (SIGKILL): it does not leave its group."""
        self.process.kill()
        self._end()

    def close(self) -> None:
        """Stop the process (SIGTERM): it commits, leaves, and exits."""
        self.process.terminate()
        self._end()

    def _end(self) -> None:
        self.process.wait(30)
        self.ended_ms = time.time() * 1000
        for thread in self._threads:
            thread.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.owns = set()


def end_all(members: Iterable[Member]) -> None:
    """Kill all members that still run."""
    for member in members:
        if member.process.poll() is None:
            member.kill()


def share_everything(members: Sequence[Member], partitions: int) -> bool:
    """Return True if each partition has one owner among ``members``."""
    owned = [set(m.owns) for m in members]
    return sum(map(len, owned)) == partitions and set().union(*owned) == set(range(partitions))


def twice_owned(members: Sequence[Member], partitions: int) -> list[str]:
    """Describe each partition that two members owned at one time."""
    found = []
    for partition in range(partitions):
        spans = sorted(span for i, m in enumerate(members) for span in _spans(m, partition, i))
        for (_, until, one), (since, _, other) in pairwise(spans):
            if since < until and one != other:
                found.append(f"partition {partition}: member {other} had it {until - since:.0f} ms before {one} let go")
    return found


def _spans(member: Member, partition: int, number: int) -> Iterable[tuple[float, float, int]]:
    since: float | None = None
    for gained, changed, at_ms in member.changes:
        if partition in changed and gained and since is None:
            since = at_ms
        elif partition in changed and not gained and since is not None:
            yield since, at_ms, number
            since = None
    if since is not None:
        yield since, member.ended_ms or float("inf"), number
