"""A live cluster as the data source of the console.

The console samples the cluster's groups every few seconds, and reads its journal.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.aio.serving.garbage import postpone_collection
from kohort.console.journal import MIB, ConsoleJournal, JournalThread, snapshot_from_journal
from kohort.console.lag_history import LagHistory, LagPoint
from kohort.console.reachability import PULSE_MS, PULSE_S, ClusterUnreachable, Reachability, foreseen
from kohort.console.sources import GroupsKnown, ReachNews, SourceAbout, SourceNews
from kohort.errors import ApiTimeout
from kohort.insight.findings.groups import HOUR_MS, GroupFinding, find_group
from kohort.insight.observed.generation_records import BASELINE_MS
from kohort.insight.snapshot import with_progress
from kohort.verbs.groups import is_missing
from kohort.watch.opening import WatchClients
from kohort.watch.sampling import READABLE, GroupSample, SamplingLimits, list_all_groups, missing_values, sample_groups

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.model import TopicPartition
    from kohort.results.console import UnreachableCluster
    from kohort.watch.sampling import ListedGroups

logger = logging.getLogger("kohort.console")
SNAPSHOTS_KEPT: Final = 6
MOST_LETTERS: Final = 2 << 20
"""Maximum total length in characters of the names of the groups that the console shows."""
FIRST_WAIT_S: Final = 20.0
PAUSE_FACTOR: Final = 4
"""Minimum pause after a sample of all groups: this many times the duration of the sample."""
YIELD_EVERY: Final = 10
YIELD_S: Final = 0.001
"""Pause in seconds after each ``YIELD_EVERY`` groups of a sample. It lets other threads run (a broker, requests)."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    interval_s: float = 5.0
    max_groups: int = 2_000
    journal_mib: int = 64
    store: Path | None = None
    watch: bool = True
    """True to start a watcher, which records a journal, if the cluster has no journal."""
    end_s: float = 5.0
    """Maximum time in seconds to wait for running requests when the console stops."""


class LiveSource:
    def __init__(self, clients: WatchClients, address: str, settings: LiveSettings | None = None) -> None:
        self._clients, self._address = clients, address
        self._settings = settings or LiveSettings()
        self._kept = ConsoleJournal(self._settings.journal_mib * MIB)
        self._journal = JournalThread(
            clients, self._kept, self._entries_added, store=self._settings.store, watch=self._settings.watch
        )
        self._lag = LagHistory()
        self._snapshots: dict[str, deque[GroupSnapshot]] = {}
        self._partitions: dict[TopicPartition, TopicPartition] = {}
        """``TopicPartition`` objects of the last sample. The next sample reuses them to save memory."""
        self._known: GroupsKnown | None = None
        self._coordinators: dict[str, int] = {}
        """Node id of each group's last known coordinator."""
        self._reach = Reachability(self.now_ms, time.monotonic, self._reach_changed)
        self._cluster_id: str | None = None
        self._publish: Callable[[SourceNews], object] = lambda _: None
        self._first, self._ending, self._due = threading.Event(), threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"kohort-console-{name}", daemon=True)
            for target, name in ((self._run, "samples"), (self._pulse, "pulse"))
        ]

    def about(self) -> SourceAbout:
        return SourceAbout("live", f"groups of {self._address}", self._cluster_id, self._address, self._journal.about)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def known_until_ms(self) -> int:
        outage = self._reach.unreachable
        return self.now_ms() if outage is None else outage.since_ms

    def unreachable(self) -> ClusterUnreachable | None:
        outage, known = self._reach.unreachable, self._known
        names = () if known is None else (*known.groups, *known.unknown)
        return None if outage is None else ClusterUnreachable(self._address, outage, names)

    def clients(self) -> WatchClients | None:
        return self._clients

    def groups(self, at_ms: int | None) -> GroupsKnown:
        if at_ms is None:
            self._first.wait(FIRST_WAIT_S)
            self._check_reachable()
            if self._known is None:
                raise ApiTimeout(f"the groups of {self._address} were not sampled within {FIRST_WAIT_S:g} s")
            return self._known
        return groups_from_journal(self._kept, at_ms)

    def _check_reachable(self) -> None:
        lost = self.unreachable()
        if lost is not None:
            raise lost

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        self._check_reachable()
        return list(self._snapshots.get(group, ()))

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        self._journal.was_read.wait(FIRST_WAIT_S)
        return self._kept.entries(group, until_ms)

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        self._journal.was_read.wait(FIRST_WAIT_S)
        return self._kept.rebalances(since_ms, until_ms, BASELINE_MS)

    def lag_points(self, group: str) -> Sequence[LagPoint]:
        return self._lag.of(group)

    def sees(self, group: str, topics: Iterable[str] = ()) -> bool:  # noqa: ARG002 - the console's own user
        return True

    def listen(self, publish: Callable[[SourceNews], object]) -> None:
        self._publish = publish

    def begin(self) -> None:
        self._journal.begin()
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        self._due.set()
        self._journal.end(self._settings.end_s)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(self._settings.end_s)

    def _reach_changed(self, outage: UnreachableCluster | None) -> None:
        if outage is not None:
            logger.warning("%s", ClusterUnreachable(self._address, outage))
        else:
            logger.warning("%s answers again", self._address)
        self._first.set()
        self._publish(SourceNews(reach=ReachNews(outage)))

    def _pulse(self) -> None:
        """Request the list of nodes every two seconds, to detect outages.

        Uses its own connection, because a sample of all groups may occupy another connection for long.
        """
        while not self._ending.is_set():
            try:
                with self._clients.admin() as admin:
                    while not self._ending.wait(PULSE_S):
                        admin.describe_cluster(timeout_ms=PULSE_MS)
                        if self._reach.pulse_answered():
                            self._due.set()
            except Exception as error:  # noqa: BLE001 - a stopped thread would not notice an outage
                self._reach.pulse_failed(foreseen(error))
                self._ending.wait(PULSE_S / 2)

    def _entries_added(self, entries: Sequence[JournalEntry]) -> None:
        self._publish(SourceNews(entries=entries))

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._clients.admin() as admin:
                    while not self._ending.is_set():
                        self._sample_in_time(admin)
            except Exception as error:  # noqa: BLE001 - a stopped thread would leave old values
                self._reach.sample_failed(foreseen(error))
            self._wait(self._settings.interval_s)

    def _sample_in_time(self, admin: Admin) -> None:
        began_s = time.monotonic()
        with postpone_collection():
            self._sample(admin)
        took_s = time.monotonic() - began_s
        wait_s = max(self._settings.interval_s - took_s, PAUSE_FACTOR * took_s)
        self._reach.sampled(began_s, wait_s)
        self._first.set()
        self._wait(wait_s)

    def _wait(self, seconds: float) -> None:
        if self._due.wait(seconds) and not self._ending.is_set():
            self._due.clear()

    def _sample(self, admin: Admin) -> None:
        if self._cluster_id is None:
            self._cluster_id = admin.describe_cluster().cluster_id
        limits = SamplingLimits()
        listed = list_all_groups(admin, limits.timeout_ms)
        names = [one.group_id for one in listed.groups if one.group_type.lower() in READABLE]
        unseen = [f"broker {node_id}: {error}" for node_id, error in listed.errors.items()]
        gaps = self.groups_of_silent_brokers(listed, names)
        shown = self._shown(names)
        if len(shown) < len(names):
            unseen.append(
                f"{len(names) - len(shown)} groups: the page shows at most {self._settings.max_groups} groups, "
                f"with at most {MOST_LETTERS} characters of names in all"
            )
        sample = sample_groups(admin, shown, limits, self._partitions)
        errors = {name: error for name, error in sample.errors.items() if not is_missing(error)}
        gaps |= {name: f"describing the group failed: {error}" for name, error in errors.items()}
        gaps |= {one.group: text for one in sample.groups if (text := missing_values(one)) is not None}
        self._take(sample, unseen, gaps)

    def _shown(self, names: Sequence[str]) -> list[str]:
        """Select the groups to sample, within the limits of the console. Prefer groups with shorter names."""
        shortest = sorted(names, key=len)[: self._settings.max_groups]
        sums = accumulate(len(name) for name in shortest)
        return [name for name, letters in zip(shortest, sums, strict=True) if letters <= MOST_LETTERS]

    def groups_of_silent_brokers(self, listed: ListedGroups, names: Sequence[str]) -> dict[str, str]:
        """Return known groups that a listing lacks because their coordinator did not answer.

        The result maps each of these groups to the reason.
        """
        silent = {
            group: f"its coordinator, broker {node}, does not answer: {listed.errors[node]}"
            for group, node in self._coordinators.items()
            if node in listed.errors
        }
        for name in names:
            silent.pop(name, None)
        return silent

    def _take(self, sample: GroupSample, unseen: list[str], gaps: dict[str, str]) -> None:
        snapshots: dict[str, deque[GroupSnapshot]] = {}
        for snapshot in sample.groups:
            kept = self._snapshots.get(snapshot.group) or deque(maxlen=SNAPSHOTS_KEPT)
            snapshots[snapshot.group] = kept
            kept.append(with_progress(kept[-1] if kept else None, snapshot))
        self._snapshots = snapshots
        self._partitions = {one.partition: one.partition for snapshot in sample.groups for one in snapshot.partitions}
        now_ms = self.now_ms()
        known = self._journal.was_read.is_set() and self._journal.is_known
        rebalances = self._kept.recent_rebalances(now_ms - HOUR_MS, BASELINE_MS) if known else None
        found: dict[str, GroupFinding] = {}
        for number, (group, kept) in enumerate(snapshots.items()):
            found[group] = find_group(list(kept), None if rebalances is None else rebalances.get(group, []))
            if number % YIELD_EVERY == 0:
                time.sleep(YIELD_S)
        self._lag.add(found.values())
        before = self._known or GroupsKnown(0, {})
        self._known = now = GroupsKnown(now_ms, found, rebalances, unseen, gaps)
        kept_nodes = {group: node for group, node in self._coordinators.items() if group in now.unknown}
        self._coordinators = kept_nodes | {
            group: one.coordinator_id for group, one in found.items() if one.coordinator_id is not None
        }
        changed = [one for group, one in found.items() if _differs(before.groups.get(group), one)]
        gone = [g for g in (*before.groups, *before.unknown) if g not in found and g not in now.unknown]
        unknown = {group: why for group, why in now.unknown.items() if before.unknown.get(group) != why}
        if changed or gone or unknown:
            self._publish(SourceNews(changed, gone, unknown=unknown))


def _differs(before: GroupFinding | None, now: GroupFinding) -> bool:
    if before is None:
        return True
    names = ("health", "reason", "state", "lag", "lag_ms", "eta_ms", "members", "partitions", "rebalances_1h", "epoch")
    return any(getattr(before, name) != getattr(now, name) for name in names)


def groups_from_journal(kept: ConsoleJournal, at_ms: int) -> GroupsKnown:
    found, rebalances = {}, {}
    for group in kept.groups():
        past = snapshot_from_journal(group, kept.entries(group, at_ms), at_ms)
        if past is not None:
            snapshot, until = past
            recent = [rebalance for rebalance in until if rebalance.opened_at_ms >= at_ms - HOUR_MS]
            rebalances[group] = recent
            found[group] = find_group([snapshot], recent)
    return GroupsKnown(at_ms, found, rebalances)
