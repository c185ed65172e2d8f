"""Watcher on its own thread, beside a broker or in any program.

After a failure it logs the error, at most once an hour per kind, and continues from its file.
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
from kohort.watch.opening import OpenWatcher, WatchClients, WatchSettings, opened_watcher
from kohort.watch.watcher import GroupWatcher

UNDER_WAY: Final = ("open", "assigning", "reconciling")
LAST: Final = 300
"""Entries of a group to read on its first event."""
MOST: Final = 2_000
"""Entries of one group to examine at once."""
FINDINGS_KEPT: Final = 3
"""Rebalances whose entries are kept to explain the next one."""
GROUPS_KEPT: Final = 200


class KeptJournal(Protocol):
    def entries(self, group: str, *, last: int | None = None) -> list[JournalEntry]: ...


Key = tuple[str, int]


@dataclass(slots=True)
class _Recent:
    entries: list[JournalEntry]
    told: set[Key] = field(default_factory=set)


class RebalanceNews:
    """Finds new rebalances; keeps the last entries of recent groups."""

    def __init__(self, kept: KeptJournal) -> None:
        self._kept = kept
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    def of(self, new: Iterable[JournalEntry]) -> list[RebalanceFinding]:
        """Return the rebalances that ``new``, the last entries of their groups, have finished."""
        by_group: dict[str, list[JournalEntry]] = {}
        for entry in new:
            by_group.setdefault(entry.group, []).append(entry)
        found = [this for group, entries in by_group.items() for this in self._of_group(group, entries)]
        return sorted(found, key=lambda this: this.opened_at_ms)

    def _of_group(self, group: str, new: Sequence[JournalEntry]) -> list[RebalanceFinding]:
        recent = self._recent.get(group) or self._looked_back(group, len(new))
        self._recent[group] = recent
        self._recent.move_to_end(group)
        if len(self._recent) > GROUPS_KEPT:
            self._recent.popitem(last=False)
        recent.entries = [*recent.entries, *new][-MOST:]
        found = find_rebalances(recent.entries)
        over = [this for this in found if this.end not in UNDER_WAY]
        news = [this for this in over if _key(this) not in recent.told]
        recent.told = {_key(this) for this in over}
        if len(found) > FINDINGS_KEPT:
            since_ms = found[-FINDINGS_KEPT].opened_at_ms
            recent.entries = [entry for entry in recent.entries if entry.at_ms >= since_ms]
        return news

    def _looked_back(self, group: str, count: int) -> _Recent:
        entries = self._kept.entries(group, last=LAST + count)
        before = entries[: len(entries) - count]
        return _Recent(before, {_key(this) for this in find_rebalances(before) if this.end not in UNDER_WAY})


def _key(this: RebalanceFinding) -> Key:
    return this.id, this.opened_at_ms


STEP_MS: Final = 500
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
EMPTY_WAIT_S: Final = 5.0
TOLD_AGAIN_S: Final = 3600.0
END_S: Final = 5.0
"""Wait for the end of a step; an interrupted step is read again."""
AT_ONCE: Final = {"max.poll.records": 500}
"""Fewer than alone, for the program beside it."""
UNHEARD_MS: Final = 60_000
"""Silence after which a cluster counts as unwatched."""
BREATH_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class WatchState:
    """State of a background watcher. Counts are since it began."""

    is_up: bool = False
    """True once the watcher has read to the ends that it found at its start."""
    until_ms: int | None = None
    """Time of the last sample; None before the first."""
    groups: int = 0
    records: int = 0
    failures: int = 0


class BackgroundWatch:
    """Watches one cluster until ``end``. ``tell`` receives sentences, ``told`` each rebalance."""

    def __init__(
        self,
        clients: WatchClients,
        address: str,
        settings: WatchSettings | None = None,
        *,
        tell: Callable[[str], object] = lambda _: None,
        told: Callable[[RebalanceFinding], object] = lambda _: None,
    ) -> None:
        self._clients = clients
        self._settings = settings or WatchSettings()
        self._tell, self._told = tell, told
        self._ending = threading.Event()
        self._records_before = 0
        """Records that failed watchers read."""
        self._address = address
        self._silent_until: dict[str, float] = {}
        self._view = WatchState()
        self._thread = threading.Thread(target=self._run, name="kohort-watch", daemon=True)

    @property
    def view(self) -> WatchState:
        """Present state, for any thread."""
        return self._view

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop; all state is persisted."""
        self._ending.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._ending.is_set():
            try:
                with opened_watcher(self._clients, self._settings, os.environ, AT_ONCE) as opened:
                    for _ in self._steps(opened):
                        wait_s = FIRST_WAIT_S
            except KohortError as error:
                self._failed(error, wait_s)
                self._ending.wait(wait_s)
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    def _steps(self, opened: OpenWatcher) -> Iterator[None]:
        watcher, is_first = opened.watcher, not opened.store.positions()
        while not watcher.open():
            is_first = False  # all that comes is new
            if self._ending.wait(EMPTY_WAIT_S):
                return
        news = RebalanceNews(opened.store)
        try:
            while not self._ending.is_set():
                was_there = watcher.is_caught_up
                new = watcher.step(STEP_MS)
                if was_there or not is_first:
                    for this in news.of(new):
                        self._told(this)
                for note in watcher.notes:
                    self._tell(note)
                watcher.notes.clear()
                self._look(watcher)
                time.sleep(BREATH_S)
                yield
        finally:
            self._view = replace(self._view, is_up=False)
            self._records_before = self._view.records

    def _look(self, watcher: GroupWatcher) -> None:
        self._view = replace(
            self._view,
            is_up=watcher.is_caught_up and time.time_ns() // 1_000_000 - watcher.heard_ms < UNHEARD_MS,
            until_ms=watcher.heard_ms,
            groups=watcher.groups.sizes[0],
            records=self._records_before + watcher.records,
        )

    def _failed(self, error: KohortError, wait_s: float) -> None:
        self._view = replace(self._view, is_up=False, failures=self._view.failures + 1)
        kind = f"{type(error).__name__} {error.code if isinstance(error, ApiError) else ''}"
        now_s = time.monotonic()
        if now_s < self._silent_until.get(kind, now_s):
            return
        self._silent_until[kind] = now_s + TOLD_AGAIN_S
        self._tell(f"{self._address} cannot be watched: {error}; it is tried again, in {wait_s:g} s and later")


@contextmanager
def watching_beside(watch: BackgroundWatch) -> Iterator[BackgroundWatch]:
    watch.begin()
    try:
        yield watch
    finally:
        watch.end()
