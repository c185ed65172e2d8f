"""Reads a cluster's journal on a thread of its own: all of the last day, and then what comes.

Where nobody keeps one, a watcher of the console's own begins to (``kohort.watch.background``), into the file that
``kohort watch`` would use; what it finds is read from there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.console.kept_journal import ConsoleJournal
from kohort.console.reachability import foreseen
from kohort.errors import Wakeup
from kohort.results.console import JournalTold
from kohort.watch.background import BackgroundWatch
from kohort.watch.journal_source import JournalAccess, is_stale, open_journal
from kohort.watch.opening import WatchClients, WatchSettings

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer
    from kohort.coordinator.journal import JournalEntry
    from kohort.watch.journal_source import JournalSource

BACK_MS: Final = 86_400_000
"""What is read at the beginning."""
WAIT_MS: Final = 500
AGAIN_S: Final = 2.0
LONGEST_AGAIN_S: Final = 60.0


class JournalThread:
    """Fills a kept journal until ``end``; ``tell`` is given the entries that came."""

    def __init__(
        self,
        clients: WatchClients,
        kept: ConsoleJournal,
        tell: Callable[[Sequence[JournalEntry]], object],
        *,
        store: Path | None = None,
        watch: bool = True,
    ) -> None:
        """``store`` is a watcher's file to read instead; with ``watch`` a watcher begins where there is no journal."""
        self._clients, self._kept, self._tell = clients, kept, tell
        self._store, self._may_watch = store, watch
        self._ending = threading.Event()
        self._consumer: Consumer | None = None
        self._watch: BackgroundWatch | None = None
        self._told = JournalTold(kind=None, why_not="it is being looked for")
        self.was_read = threading.Event()
        """Set once there is nothing more to wait for: what there is was read, or there is none."""
        self._thread = threading.Thread(target=self._run, name="kohort-console-journal", daemon=True)

    @property
    def about(self) -> JournalTold:
        """Where the journal comes from, and what it covers."""
        told = self._told
        return JournalTold(
            kind=told.kind,
            since_ms=self._kept.since_ms,
            until_ms=told.until_ms if told.until_ms is not None else self._kept.until_ms,
            stale=told.stale,
            why_not=told.why_not,
        )

    @property
    def is_known(self) -> bool:
        """Whether there is a journal that says what happens now."""
        return self._told.kind is not None and not self._told.stale

    def begin(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self, within_s: float = 5.0) -> None:
        """Read no more: whoever waits for entries is woken, what else is being asked is waited for so long."""
        self._ending.set()
        if self._consumer is not None:
            self._consumer.wakeup()
        if self._watch is not None:
            self._watch.end()
        if self._thread.ident is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        again_s, since_ms = AGAIN_S, _now_ms() - BACK_MS
        while not self._ending.is_set():
            try:
                with self._clients.admin() as admin:
                    access = JournalAccess(self._consumer_with, admin, os.environ, self._store, self._warned)
                    source = open_journal(access, None, since_ms)
                    if source is None:
                        self._watch_ourselves(access)
                    else:
                        try:
                            again_s = AGAIN_S
                            self._follow(source)
                        finally:
                            source.close()
                            since_ms = max(since_ms, (self._kept.until_ms or 0) + 1)
            except Wakeup:
                return  # only the end wakes
            except Exception as error:  # noqa: BLE001 - a dead thread would leave an old journal in place of the present
                self._told = JournalTold(kind=None, why_not=f"the journal cannot be read: {foreseen(error)}")
                self.was_read.set()
                again_s = min(LONGEST_AGAIN_S, again_s * 2)
            self._ending.wait(again_s)

    def _consumer_with(self, options: Mapping[str, Any]) -> Consumer:
        self._consumer = made = self._clients.consumer(options)
        if self._ending.is_set():  # the end did not see it
            made.wakeup()
        return made

    def _follow(self, source: JournalSource) -> None:
        """Take what is there, and what comes, until the end."""
        entries = source.read()
        while not self._ending.is_set():
            if entries:
                self._kept.add(entries)
            kind = "journal topic" if source.until_ms is None else "watcher" if self._watch is None else "own watcher"
            stale = is_stale(source, time.time() * 1000)
            self._told = JournalTold(kind=kind, until_ms=source.until_ms, stale=stale)  # type: ignore[arg-type]
            if entries and self.was_read.is_set():
                self._tell(entries)
            self.was_read.set()
            entries = source.wait(WAIT_MS)

    def _watch_ourselves(self, access: JournalAccess) -> None:
        """Begin to watch where nobody does; the next look finds its file."""
        if not self._may_watch:
            self._told = JournalTold(kind=None, why_not="the cluster keeps none; `kohort watch` would")
        elif self._watch is None:
            self._told = JournalTold(kind=None, why_not="the cluster keeps none; the console begins to watch")
            address = ",".join(access.admin.config.bootstrap_servers)
            self._watch = BackgroundWatch(self._clients, address, WatchSettings(), tell=self._warned)
            self._watch.begin()
        self.was_read.set()

    def _warned(self, text: str) -> None:
        if self._told.kind is None:
            self._told = JournalTold(kind=None, why_not=text)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
