"""A watcher's file, read while the watcher maybe writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kohort.coordinator.journal import JournalEntry
from kohort.watch.store import BUSY_S, DAMAGED, MOST_BYTES, group_key, parsed_entries, refusal

READ_AT_ONCE = 1_000
DIGITS_END = 19
"""A time has fewer digits, and any number of fewer has 64 bits."""


class StoreReader:
    """Reads one file. Every call raises StorageError where it cannot be read, and for a file that is no store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._told():
            where = f"{path.absolute().as_uri()}?mode=ro"
            self._db = sqlite3.connect(where, uri=True, timeout=BUSY_S, check_same_thread=False)
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)

    def about(self, name: str) -> str | None:
        """Return a fact about the whole: of which cluster it is, until when it watched."""
        with self._told():
            row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    @property
    def until_ms(self) -> int | None:
        """Until when the cluster was watched, in ms since 1970."""
        said = self.about("until_ms")
        return int(said) if said is not None and said.isdecimal() and len(said) < DIGITS_END else None

    def last_id(self, before_ms: int | None = None) -> int:
        """Return the id of the last entry, or of the last before the first one of that time or later; 0 for none."""
        with self._told():
            if before_ms is not None:
                query = "SELECT min(id) FROM entries WHERE at_ms >= ?"
                (first,) = self._db.execute(query, (before_ms,)).fetchone()
                if first is not None:
                    return int(first) - 1
            (last,) = self._db.execute("SELECT max(id) FROM entries").fetchone()
        return int(last or 0)

    def entries(self, group: str | None, after_id: int = 0) -> tuple[list[JournalEntry], int]:
        """Return the entries of a group, or of all, after one of them, in the order in which they were kept, and the id
        of the last."""
        query, bounds = "SELECT id, value FROM entries WHERE id > ?", [after_id]
        found: list[JournalEntry] = []
        last = after_id
        with self._told():
            if group is None:
                rows = self._db.execute(f"{query} ORDER BY id", bounds)
            else:
                rows = self._db.execute(f"{query} AND grp = ? ORDER BY id", [*bounds, group_key(group)])
            while some := rows.fetchmany(READ_AT_ONCE):
                found += parsed_entries(value for _, value in some)
                last = some[-1][0]
        return found, last

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            raise refusal(self.path, "read", error) from error
