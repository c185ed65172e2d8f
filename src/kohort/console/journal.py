"""The console's copy of a cluster's journal: read on a thread, kept in limited memory.

If the cluster has no journal, the console starts a watcher (``kohort.watch.background``), and reads its journal file.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kohort.aio.system import wall_ms
from kohort.console.reachability import foreseen
from kohort.coordinator.journal import GroupDeleted, JournalEntry, build_entry, parse_entry
from kohort.errors import Wakeup
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.findings.timeline import find_timeline
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition, by_topic
from kohort.results.console import JournalReport
from kohort.verbs.describing import partitions_named
from kohort.watch.background import BackgroundWatch
from kohort.watch.journal_source import JournalAccess, is_stale, open_journal
from kohort.watch.opening import WatchClients, WatchSettings

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer
    from kohort.insight.findings.timeline import LaneFinding
    from kohort.watch.journal_source import JournalSource

MIB: Final = 1 << 20
ENTRY_BYTES: Final = 100
"""Approximate memory in bytes that a journal entry needs in addition to its encoded content."""


class _CachedRebalances(NamedTuple):
    version: int
    since_ms: int
    rebalances: list[RebalanceFinding]


class ConsoleJournal:
    """Journal entries of each group in memory, in order of arrival. Thread-safe."""

    def __init__(self, max_bytes: int = 64 * MIB) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._by_group: dict[str, deque[tuple[int, bytes]]] = {}
        self._order: deque[str] = deque()
        """Group of each journal entry, oldest entry first. At the memory limit, the oldest entry is removed."""
        self._added = 0
        self._versions: dict[str, int] = {}
        """Value of ``_added`` when each group's newest entry was added. It changes when a group has new entries."""
        self._cached: dict[str, _CachedRebalances] = {}
        """Computed rebalances of each group. They are reused until the group has a new journal entry."""
        self._bytes = 0
        self.since_ms: int | None = None
        self.until_ms: int | None = None
        self.left_out = 0

    def add(self, entries: Iterable[JournalEntry]) -> None:
        with self._lock:
            for entry in entries:
                data = build_entry(entry)
                self._by_group.setdefault(entry.group, deque()).append((entry.at_ms, data))
                self._order.append(entry.group)
                self._added += 1
                self._versions[entry.group] = self._added
                self._bytes += len(data) + ENTRY_BYTES
                self.since_ms = entry.at_ms if self.since_ms is None else self.since_ms
                self.until_ms = max(entry.at_ms, self.until_ms or 0)
            while self._bytes > self._max_bytes and self._order:
                self._remove_oldest()

    def _remove_oldest(self) -> None:
        group = self._order.popleft()
        at_ms, data = self._by_group[group].popleft()
        if not self._by_group[group]:
            del self._by_group[group], self._versions[group]
            self._cached.pop(group, None)
        self._bytes -= len(data) + ENTRY_BYTES
        self.left_out += 1
        self.since_ms = at_ms

    def groups(self) -> list[str]:
        with self._lock:
            return list(self._by_group)

    def entries(self, group: str, until_ms: int | None = None, since_ms: int = 0) -> list[JournalEntry]:
        with self._lock:
            kept = list(self._by_group.get(group, ()))
        return [
            parse_entry(data) for at_ms, data in kept if at_ms >= since_ms and (until_ms is None or at_ms <= until_ms)
        ]

    def rebalances(self, since_ms: int, until_ms: int | None, back_ms: int) -> Mapping[str, list[RebalanceFinding]]:
        """Return for each group the rebalances that started in a time span.

        Also reads the journal entries of the ``back_ms`` ms before the span: they explain its first rebalances.
        """
        return {
            group: _since(since_ms, find_rebalances(self.entries(group, until_ms, since_ms - back_ms)))
            for group in self.groups()
        }

    def recent_rebalances(self, since_ms: int, back_ms: int) -> Mapping[str, list[RebalanceFinding]]:
        """Return for each group the rebalances since ``since_ms``.

        The rebalances of a group are cached until the group has new journal entries.
        """
        return {group: _since(since_ms, self._rebalances_of(group, since_ms - back_ms)) for group in self.groups()}

    def _rebalances_of(self, group: str, since_ms: int) -> list[RebalanceFinding]:
        with self._lock:
            version, cached = self._versions.get(group, 0), self._cached.get(group)
        if cached is not None and cached.version == version and cached.since_ms <= since_ms:
            return cached.rebalances
        found = find_rebalances(self.entries(group, None, since_ms))
        with self._lock:
            if self._versions.get(group) == version:
                self._cached[group] = _CachedRebalances(version, since_ms, found)
        return found


def _since(since_ms: int, found: Iterable[RebalanceFinding]) -> list[RebalanceFinding]:
    return [rebalance for rebalance in found if rebalance.opened_at_ms >= since_ms]


NO_OFFSETS: Final = "the journal has no offsets"


def snapshot_from_journal(
    group: str, entries: Sequence[JournalEntry], at_ms: int
) -> tuple[GroupSnapshot, list[RebalanceFinding]] | None:
    """Return a group's state at ``at_ms`` and its rebalances until then; None if all its journal entries are later."""
    until = [entry for entry in entries if entry.at_ms <= at_ms]
    if not until:
        return None
    rebalances = find_rebalances(until)
    last = next((one for one in reversed(rebalances) if one.end != "no_rebalance"), None)
    lanes = find_timeline(until, group=group, from_ms=until[0].at_ms, until_ms=at_ms).lanes
    members = tuple(m for lane in lanes if (m := _member(lane, last)) is not None)
    protocol = "classic" if last is None else last.protocol
    state = "Stable" if members else "Empty"
    if last is not None and last.is_in_flight:
        state = "PreparingRebalance" if protocol == "classic" else "Reconciling"
    if isinstance(until[-1], GroupDeleted):  # a deleted group has no members, but its rebalances remain visible
        members, state = (), "Dead"
    places = sorted({tp for member in members for tp in member.assignment})
    snapshot = GroupSnapshot(
        at_ms=at_ms,
        group=group,
        state=state,
        protocol=protocol,
        assignor=None if last is None else last.assignor,
        epoch=None if last is None or protocol == "classic" else last.generation,
        members=members,
        partitions=tuple(PartitionSnapshot(partition=tp, error=NO_OFFSETS) for tp in places),
        error=NO_OFFSETS,
        partition_counts=_counts(places),
    )
    return snapshot, rebalances


def _member(lane: LaneFinding, last: RebalanceFinding | None) -> MemberSnapshot | None:
    if not lane.assignments or lane.assignments[-1].until_ms is not None:
        return None
    places = partitions_named(lane.assignments[-1].partitions)
    return MemberSnapshot(
        member_id=lane.member.member_id,
        client_id=lane.member.client_id,
        host=lane.member.host,
        instance_id=lane.member.instance_id,
        topics=tuple(sorted({tp.topic for tp in places})),
        assignment=tuple(sorted(places)),
        protocol="classic" if last is None else last.protocol,
    )


def _counts(places: Sequence[TopicPartition]) -> dict[str, int]:
    """Return a lower bound of each topic's partition count: the highest assigned partition number plus one."""
    return {topic: max(numbers) + 1 for topic, numbers in by_topic(places).items()}


BACK_MS: Final = 86_400_000
"""Maximum age in ms of the journal entries that the console reads when it starts."""
WAIT_MS: Final = 500
RETRY_S: Final = 2.0
LONGEST_RETRY_S: Final = 60.0


class JournalThread:
    """Thread that reads the journal until ``end`` is called. It passes new entries to ``added``."""

    def __init__(
        self,
        clients: WatchClients,
        kept: ConsoleJournal,
        added: Callable[[Sequence[JournalEntry]], object],
        *,
        store: Path | None = None,
        watch: bool = True,
    ) -> None:
        """``store``: journal file of a watcher; ``watch``: True to start a watcher if the cluster has no journal."""
        self._clients, self._kept, self._added = clients, kept, added
        self._store, self._may_watch = store, watch
        self._ending = threading.Event()
        self._consumer: Consumer | None = None
        self._watch: BackgroundWatch | None = None
        self._status = JournalReport(kind=None, why_not="not read yet")
        self.was_read = threading.Event()
        """Event that is set after the first attempt to read the journal, even if it failed or found no journal."""
        self._thread = threading.Thread(target=self._run, name="kohort-console-journal", daemon=True)

    @property
    def about(self) -> JournalReport:
        status = self._status
        until_ms = status.until_ms if status.until_ms is not None else self._kept.until_ms
        return msgspec.structs.replace(status, since_ms=self._kept.since_ms, until_ms=until_ms)

    @property
    def is_known(self) -> bool:
        """True if the console reads a journal whose writer has not stopped."""
        return self._status.kind is not None and not self._status.stale

    def begin(self) -> None:
        self._thread.start()

    def end(self, within_s: float = 5.0) -> None:
        self._ending.set()
        if self._consumer is not None:
            self._consumer.wakeup()
        if self._watch is not None:
            self._watch.end()
        if self._thread.ident is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        retry_s, start_ms = RETRY_S, wall_ms() - BACK_MS
        while not self._ending.is_set():
            try:
                with self._clients.admin() as admin:
                    access = JournalAccess(self._consumer_with, admin, os.environ, self._store, self._warn)
                    source = open_journal(access, None, max(start_ms, (self._kept.until_ms or 0) + 1))
                    if source is None:
                        self._start_watcher(access)
                    else:
                        retry_s = RETRY_S
                        with closing(source):
                            self._follow(source)
            except Wakeup:
                return  # ``JournalThread.end`` called ``wakeup`` of the consumer to stop this thread
            except Exception as error:  # noqa: BLE001 - a stopped thread would leave an old journal
                self._status = JournalReport(kind=None, why_not=f"the journal cannot be read: {foreseen(error)}")
                self.was_read.set()
                retry_s = min(LONGEST_RETRY_S, retry_s * 2)
            self._ending.wait(retry_s)

    def _consumer_with(self, options: Mapping[str, Any]) -> Consumer:
        self._consumer = made = self._clients.consumer(options)
        if self._ending.is_set():  # ``JournalThread.end`` was called before the consumer existed
            made.wakeup()
        return made

    def _follow(self, source: JournalSource) -> None:
        entries = source.read()
        while not self._ending.is_set():
            if entries:
                self._kept.add(entries)
            kind = "journal topic" if source.until_ms is None else "watcher" if self._watch is None else "own watcher"
            stale = is_stale(source, wall_ms())
            self._status = JournalReport(kind=kind, until_ms=source.until_ms, stale=stale)  # type: ignore[arg-type]
            if entries and self.was_read.is_set():
                self._added(entries)
            self.was_read.set()
            entries = source.wait(WAIT_MS)

    def _start_watcher(self, access: JournalAccess) -> None:
        """Start a watcher, unless this thread has already started one.

        When the caller opens the journal again, it finds the watcher's journal file.
        """
        if not self._may_watch:
            self._status = JournalReport(kind=None, why_not="the cluster has no journal; start `kohort watch`")
        elif self._watch is None:
            why_not = "the cluster has no journal; the console starts to record one"
            self._status = JournalReport(kind=None, why_not=why_not)
            address = ",".join(access.admin.config.bootstrap_servers)
            self._watch = BackgroundWatch(self._clients, address, WatchSettings(), log=self._warn)
            self._watch.begin()
        self.was_read.set()

    def _warn(self, text: str) -> None:
        if self._status.kind is None:
            self._status = JournalReport(kind=None, why_not=text)
