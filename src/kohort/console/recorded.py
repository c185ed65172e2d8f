"""A recording as the data source of the console: journal entries from a file or a simulation.

For the console, the end of the recording is the present time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kohort.console.journal import MIB, ConsoleJournal
from kohort.console.lag_history import LagPoint
from kohort.console.live import groups_from_journal
from kohort.console.sources import GroupsKnown, SourceAbout, SourceNews
from kohort.coordinator.journal import SCHEMA, JournalEntry, parse_entry
from kohort.errors import UsageError
from kohort.insight.observed.generation_records import BASELINE_MS
from kohort.results.console import JournalReport
from kohort.watch.store import StoreReader

if TYPE_CHECKING:
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.watch.opening import WatchClients

SQLITE: Final = b"SQLite format 3\x00"
MOST_BYTES: Final = 512 * MIB
"""Maximum size of a recording in bytes."""
SHOWN: Final = 60


class RecordedSource:
    """A recorded journal as the data source. Raises UsageError if the journal has no entries."""

    def __init__(self, entries: Iterable[JournalEntry], title: str, *, until_ms: int | None = None) -> None:
        self._kept = ConsoleJournal(MOST_BYTES)
        self._kept.add(entries)
        if self._kept.until_ms is None:
            raise UsageError(f"{title} has no journal entry")
        self._title, self._until_ms = title, max(until_ms or 0, self._kept.until_ms)
        self._known: GroupsKnown | None = None

    def about(self) -> SourceAbout:
        journal = JournalReport(kind="recording", since_ms=self._kept.since_ms, until_ms=self._until_ms)
        return SourceAbout("recorded", self._title, journal=journal)

    def now_ms(self) -> int:
        return self._until_ms

    def known_until_ms(self) -> int:
        return self._until_ms

    def unreachable(self) -> None:
        return None

    def groups(self, at_ms: int | None) -> GroupsKnown:
        if at_ms is not None and at_ms < self._until_ms:
            return groups_from_journal(self._kept, at_ms)
        if self._known is None:
            self._known = groups_from_journal(self._kept, self._until_ms)
        return self._known

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:  # noqa: ARG002 - a journal has no snapshots
        return ()

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        return self._kept.entries(group, until_ms)

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        return self._kept.rebalances(since_ms, until_ms, BASELINE_MS)

    def lag_points(self, group: str) -> Sequence[LagPoint]:  # noqa: ARG002 - a journal has no offsets
        return ()

    def clients(self) -> WatchClients | None:
        return None

    def sees(self, group: str, topics: Iterable[str] = ()) -> bool:  # noqa: ARG002 - the console's own user
        return True

    def listen(self, publish: Callable[[SourceNews], object]) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> None: ...


def read_recording(path: Path) -> RecordedSource:
    """Read a recording: a journal file of ``kohort watch``, or JSON of ``kohort group events``.

    Raises UsageError with the line number of an invalid entry, StorageError for an unreadable journal file, OSError.
    """
    with path.open("rb") as file:
        is_store = file.read(len(SQLITE)) == SQLITE
    if is_store:
        with closing(StoreReader(path)) as reader:
            return RecordedSource(reader.entries(None)[0], f"recording {path.name}", until_ms=reader.until_ms)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is neither a journal file of kohort watch nor JSON") from error
    return RecordedSource(_entries_of(path, text), f"recording {path.name}")


def _entries_of(path: Path, text: str) -> list[JournalEntry]:
    try:
        whole = json.loads(text)
        lines = [(1, event) for event in whole["events"]] if "events" in whole else [(1, whole)]
    except (ValueError, TypeError, KeyError, RecursionError):
        numbered = enumerate(text.splitlines(), 1)
        lines = [(number, _line(path, number, line)) for number, line in numbered if line.strip()]
    return [_entry(path, number, event) for number, event in lines]


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: line {number} is not JSON: {line[:SHOWN]!r}") from None


def _entry(path: Path, number: int, event: Any) -> JournalEntry:
    try:
        about = {"kind": event["kind"], "at_ms": event["at_ms"], "group": event["group"]}
        if event.get("observed"):
            about["observed"] = True
        return parse_entry(json.dumps({"schema": SCHEMA, **event.get("entry", {}), **about}).encode())
    except (KeyError, TypeError, AttributeError, ValueError, msgspec.ValidationError) as error:
        expected = "an event of `kohort group events --output ndjson`"
        raise UsageError(f"{path}: line {number} is not {expected}: {error}") from error
