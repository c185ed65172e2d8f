"""A live cluster as a source: samples of its groups every few seconds, with several looks kept, and its journal."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.aio.serving.garbage import put_off
from kohort.console.journal_thread import JournalThread
from kohort.console.kept_journal import MIB, ConsoleJournal
from kohort.console.lag_history import LagHistory, LagPoint
from kohort.console.sources import GroupsKnown, SourceAbout, SourceNews
from kohort.console.told_snapshot import told_snapshot
from kohort.errors import ApiTimeout, KohortError
from kohort.insight.findings.groups import HOUR_MS, GroupFinding, find_group
from kohort.insight.observed.generation_records import BASELINE_MS
from kohort.watch.opening import WatchClients
from kohort.watch.sampling import READABLE, GroupSample, SamplingLimits, heard_groups, sample_groups, unseen_of

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.model import TopicPartition

LOOKS_KEPT: Final = 6
FIRST_WAIT_S: Final = 20.0
SHARE: Final = 4
"""A sample that takes long is followed by a pause of so many times that."""
BREATH_EVERY: Final = 10
BREATH_S: Final = 0.001
"""After so many groups others may work: a broker in the same process, the console's own requests."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How a cluster is looked at: seconds between samples, at most so many groups, so many MiB of journal; a watcher's
    file to read, and whether the console watches itself where nobody does."""

    interval_s: float = 5.0
    max_groups: int = 2_000
    journal_mib: int = 64
    store: Path | None = None
    watch: bool = True
    end_s: float = 5.0
    """How long the end waits for what is being asked."""


class LiveSource:
    """One cluster."""

    def __init__(self, clients: WatchClients, address: str, settings: LiveSettings | None = None) -> None:
        self._clients, self._address = clients, address
        self._settings = settings or LiveSettings()
        self._kept = ConsoleJournal(self._settings.journal_mib * MIB)
        self._journal = JournalThread(
            clients, self._kept, self._came, store=self._settings.store, watch=self._settings.watch
        )
        self._lag = LagHistory()
        self._looks: dict[str, deque[GroupSnapshot]] = {}
        self._places: dict[TopicPartition, TopicPartition] = {}
        """The partitions of the last sample: six looks at each have one name."""
        self._known: GroupsKnown | None = None
        self._error: KohortError | None = None
        self._cluster_id: str | None = None
        self._tell: Callable[[SourceNews], object] = lambda _: None
        self._first, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="kohort-console-looks", daemon=True)

    # What is asked

    def about(self) -> SourceAbout:
        return SourceAbout("live", f"groups of {self._address}", self._cluster_id, self._address, self._journal.about)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def clients(self) -> WatchClients | None:
        return self._clients

    def groups(self, at_ms: int | None) -> GroupsKnown:
        if at_ms is None:
            self._first.wait(FIRST_WAIT_S)
            if self._known is None:
                raise self._error or ApiTimeout(f"{self._address} was not seen within {FIRST_WAIT_S:g} s")
            return self._known
        return groups_told(self._kept, at_ms)

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        return list(self._looks.get(group, ()))

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        self._journal.was_read.wait(FIRST_WAIT_S)
        return self._kept.entries(group, until_ms)

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        self._journal.was_read.wait(FIRST_WAIT_S)
        return self._kept.rebalances(since_ms, until_ms, BASELINE_MS)

    def lag_points(self, group: str) -> Sequence[LagPoint]:
        return self._lag.of(group)

    def listen(self, tell: Callable[[SourceNews], object]) -> None:
        self._tell = tell

    # How it looks

    def begin(self) -> None:
        self._journal.begin()
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._journal.end(self._settings.end_s)
        if self._thread.ident is not None:
            self._thread.join(self._settings.end_s)

    def _came(self, entries: Sequence[JournalEntry]) -> None:
        self._tell(SourceNews(entries=entries))

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._clients.admin() as admin:
                    while not self._ending.is_set():
                        began = time.monotonic()
                        with put_off():
                            self._sample(admin)
                        self._first.set()
                        took_s = time.monotonic() - began
                        self._ending.wait(max(self._settings.interval_s - took_s, SHARE * took_s))
            except KohortError as error:
                self._error = error
                known = self._known
                if known is not None:  # what was known stays, and says how old it is
                    told = (f"nothing has been seen since: {error}", *known.unseen[:1])
                    self._known = GroupsKnown(known.at_ms, known.groups, known.rebalances, told)
                self._first.set()
                self._ending.wait(self._settings.interval_s)

    def _sample(self, admin: Admin) -> None:
        if self._cluster_id is None:
            self._cluster_id = admin.describe_cluster().cluster_id
        limits = SamplingLimits()
        listed = heard_groups(admin, limits.timeout_ms)
        names = [one.group_id for one in listed.groups if one.group_type.lower() in READABLE]
        unseen = [f"broker {node_id}: {error}" for node_id, error in listed.errors.items()]
        if len(names) > self._settings.max_groups:
            unseen.append(
                f"{len(names) - self._settings.max_groups} groups: only {self._settings.max_groups} are shown"
            )
            del names[self._settings.max_groups :]
        sample = sample_groups(admin, names, limits, self._places)
        unseen += [text for snapshot in sample.groups if (text := unseen_of(snapshot)) is not None]
        self._take(sample, unseen)

    def _take(self, sample: GroupSample, unseen: list[str]) -> None:
        looks: dict[str, deque[GroupSnapshot]] = {}
        for snapshot in sample.groups:
            kept = looks[snapshot.group] = self._looks.get(snapshot.group) or deque(maxlen=LOOKS_KEPT)
            kept.append(snapshot)
        self._looks = looks
        self._places = {one.partition: one.partition for snapshot in sample.groups for one in snapshot.partitions}
        now_ms = self.now_ms()
        known = self._journal.was_read.is_set() and self._journal.is_known
        told = self._kept.recent_rebalances(now_ms - HOUR_MS, BASELINE_MS) if known else None
        found: dict[str, GroupFinding] = {}
        for number, (group, kept) in enumerate(looks.items()):
            found[group] = find_group(list(kept), None if told is None else told.get(group, []))
            if number % BREATH_EVERY == 0:
                time.sleep(BREATH_S)
        self._lag.add(found.values())
        before = {} if self._known is None else self._known.groups
        self._known = GroupsKnown(now_ms, found, told, unseen)
        changed = [one for group, one in found.items() if _differs(before.get(group), one)]
        gone = [group for group in before if group not in found]
        if changed or gone:
            self._tell(SourceNews(changed, gone))


def _differs(before: GroupFinding | None, now: GroupFinding) -> bool:
    """Tell whether anything but the time of the look is another."""
    if before is None:
        return True
    names = ("health", "reason", "state", "lag", "lag_ms", "eta_ms", "members", "partitions", "rebalances_1h", "epoch")
    return any(getattr(before, name) != getattr(now, name) for name in names)


def groups_told(kept: ConsoleJournal, at_ms: int) -> GroupsKnown:
    """Return the groups as their journal tells of them at a time."""
    found, rebalances = {}, {}
    for group in kept.groups():
        told = told_snapshot(group, kept.entries(group, at_ms), at_ms)
        if told is not None:
            recent = [this for this in told[1] if this.opened_at_ms >= at_ms - HOUR_MS]
            rebalances[group] = recent
            found[group] = find_group([told[0]], recent)
    return GroupsKnown(at_ms, found, rebalances)
