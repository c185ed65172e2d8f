"""Background thread that watches the groups of a cluster, in a broker or in any other program.

After a failure the thread logs the error and continues at the offsets saved in the journal file. It logs errors of the
same kind at most once an hour.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kohort.coordinator.journal import JournalEntry
from kohort.errors import ApiError, KohortError
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances
from kohort.watch.opening import OpenWatcher, WatchClients, WatchSettings, open_watcher
from kohort.watch.watcher import GroupWatcher

ENTRIES_READ: Final = 300
MAX_ENTRIES: Final = 2_000
"""At most this many of a group's latest journal entries are searched for new rebalances."""
FINDINGS_KEPT: Final = 3
"""The journal entries of this many latest rebalances of a group are kept, to explain the next rebalance."""
GROUPS_KEPT: Final = 200


class KeptJournal(Protocol):
    def entries(self, group: str, *, last: int | None = None) -> list[JournalEntry]: ...


@dataclass(slots=True)
class _Recent:
    entries: list[JournalEntry]
    reported: set[tuple[str, int]] = field(default_factory=set)


class NewRebalances:
    """Detector of new rebalances. It keeps the latest journal entries of recently active groups."""

    def __init__(self, kept: KeptJournal) -> None:
        self._kept = kept
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    def of(self, new: Iterable[JournalEntry]) -> list[RebalanceFinding]:
        """Add the journal entries ``new``, and return the rebalances that end with one of them."""
        by_group: dict[str, list[JournalEntry]] = {}
        for entry in new:
            by_group.setdefault(entry.group, []).append(entry)
        found = [rebalance for group, entries in by_group.items() for rebalance in self._of_group(group, entries)]
        return sorted(found, key=lambda rebalance: rebalance.opened_at_ms)

    def _of_group(self, group: str, new: Sequence[JournalEntry]) -> list[RebalanceFinding]:
        recent = self._recent.get(group) or self._load(group, len(new))
        self._recent[group] = recent
        self._recent.move_to_end(group)
        if len(self._recent) > GROUPS_KEPT:
            self._recent.popitem(last=False)
        recent.entries = [*recent.entries, *new][-MAX_ENTRIES:]
        found = find_rebalances(recent.entries)
        over = [rebalance for rebalance in found if not rebalance.is_in_flight]
        finished = [rebalance for rebalance in over if rebalance.key not in recent.reported]
        recent.reported = {rebalance.key for rebalance in over}
        if len(found) > FINDINGS_KEPT:
            since_ms = found[-FINDINGS_KEPT].opened_at_ms
            recent.entries = [entry for entry in recent.entries if entry.at_ms >= since_ms]
        return finished

    def _load(self, group: str, count: int) -> _Recent:
        entries = self._kept.entries(group, last=ENTRIES_READ + count)
        before = entries[: len(entries) - count]
        return _Recent(before, {one.key for one in find_rebalances(before) if not one.is_in_flight})


STEP_MS: Final = 500
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
EMPTY_WAIT_S: Final = 5.0
LOG_AGAIN_S: Final = 3600.0
END_S: Final = 5.0
"""Maximum time that ``end`` waits for the thread, in seconds. The next watcher reads unsaved records again."""
CONSUMER_OVERRIDES: Final = {"max.poll.records": 500}
"""Consumer options of a background watcher. Each poll returns few records, so the host program stays responsive."""
UNWATCHED_MS: Final = 60_000
"""Time in ms without contact to a cluster, after which the cluster counts as unwatched."""
YIELD_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class WatchState:
    """State of a background watcher. Its counters are 0 at the start of the watcher."""

    is_up: bool = False
    """True after the watcher has read ``__consumer_offsets`` up to the log end offsets at the time of its start."""
    until_ms: int | None = None
    """Time of the watcher's last contact with the cluster, in ms since 1970; None before the first contact."""
    groups: int = 0
    records: int = 0
    failures: int = 0


class BackgroundWatch:
    """Watcher of one cluster, active from ``begin`` to ``end``.

    It calls ``log`` with each message and ``report`` with each new rebalance.
    """

    def __init__(
        self,
        clients: WatchClients,
        address: str,
        settings: WatchSettings | None = None,
        *,
        log: Callable[[str], object] = lambda _: None,
        report: Callable[[RebalanceFinding], object] = lambda _: None,
    ) -> None:
        self._clients = clients
        self._settings = settings or WatchSettings()
        self._log, self._report = log, report
        self._ending = threading.Event()
        self._records_before = 0
        """Number of records that earlier watchers of this thread read before they failed."""
        self._address = address
        self._logged_until: dict[str, float] = {}
        self._view = WatchState()
        self._thread = threading.Thread(target=self._run, name="kohort-watch", daemon=True)

    @property
    def view(self) -> WatchState:
        return self._view

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._ending.is_set():
            try:
                with open_watcher(self._clients, self._settings, os.environ, CONSUMER_OVERRIDES) as opened:
                    for _ in self._steps(opened):
                        wait_s = FIRST_WAIT_S
            except KohortError as error:
                self._failed(error, wait_s)
                self._ending.wait(wait_s)
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    def _steps(self, opened: OpenWatcher) -> Iterator[None]:
        watcher, is_first = opened.watcher, not opened.store.positions()
        while not watcher.open():
            is_first = False  # ``__consumer_offsets`` does not exist yet, so all of its records will be new
            if self._ending.wait(EMPTY_WAIT_S):
                return
        detector = NewRebalances(opened.store)
        try:
            while not self._ending.is_set():
                was_there = watcher.is_caught_up
                new = watcher.step(STEP_MS)
                if was_there or not is_first:
                    for rebalance in detector.of(new):
                        self._report(rebalance)
                for note in watcher.notes:
                    self._log(note)
                watcher.notes.clear()
                self._update_view(watcher)
                time.sleep(YIELD_S)
                yield
        finally:
            self._view = replace(self._view, is_up=False)
            self._records_before = self._view.records

    def _update_view(self, watcher: GroupWatcher) -> None:
        self._view = replace(
            self._view,
            is_up=watcher.is_caught_up and time.time_ns() // 1_000_000 - watcher.contact_ms < UNWATCHED_MS,
            until_ms=watcher.contact_ms,
            groups=watcher.groups.sizes[0],
            records=self._records_before + watcher.records,
        )

    def _failed(self, error: KohortError, wait_s: float) -> None:
        self._view = replace(self._view, is_up=False, failures=self._view.failures + 1)
        kind = f"{type(error).__name__} {error.code if isinstance(error, ApiError) else ''}"
        now_s = time.monotonic()
        if now_s < self._logged_until.get(kind, now_s):
            return
        self._logged_until[kind] = now_s + LOG_AGAIN_S
        self._log(f"cannot watch {self._address}: {error}; next attempt in {wait_s:g} s")


@contextmanager
def watching_in_background(watch: BackgroundWatch) -> Iterator[BackgroundWatch]:
    watch.begin()
    try:
        yield watch
    finally:
        watch.end()
