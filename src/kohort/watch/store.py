"""The journal of a watcher in a file of SQLite: entries, what is remembered of each group, and how far was read.

All three change in one transaction, so that a watcher that is killed goes on where the last one ended and writes
nothing twice; an entry stands under the record that it was made from besides. Readers may read meanwhile. The file is
the user's alone (mode 0600): it names clients and hosts.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.errors import StorageError

VERSION: Final = "1"
RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
MAX_BYTES: Final = 1 << 30
PRUNE_SHARE: Final = 10
"""Of a store that is too large this part of the entries goes, the oldest first: one tenth."""
BUSY_S: Final = 10.0
_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    partition INTEGER, position INTEGER, nth INTEGER, grp BLOB, at_ms INTEGER, value BLOB,
    UNIQUE (partition, position, nth)
);
CREATE INDEX IF NOT EXISTS entries_by_group ON entries (grp, id);
CREATE INDEX IF NOT EXISTS entries_by_time ON entries (at_ms);
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next INTEGER);
CREATE TABLE IF NOT EXISTS groups (grp BLOB PRIMARY KEY, state BLOB);
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
"""


class PlacedEntry(NamedTuple):
    """An entry, and the record that it was made from: partition, offset, which entry of it; -1 where it is of none."""

    entry: JournalEntry
    partition: int
    offset: int
    nth: int


class WatchStore:
    """One cluster's file. Every call raises StorageError where the file cannot be used."""

    def __init__(self, path: Path, *, retention_ms: int = RETENTION_MS, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._retention_ms = retention_ms
        self._max_bytes = max_bytes
        self._unplaced = 0
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            path.chmod(0o600)
            self._lock = _locked(path.with_suffix(".lock"))
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._db.executescript(_SCHEMA)
        found = self.about("version")
        if found not in (None, VERSION):
            self.close()
            raise StorageError(f"{path} was made by another version of kohort (format {found}): move it away")
        self.tell_about("version", VERSION)

    def about(self, name: str) -> str | None:
        """Return a fact about the whole: whose it is, since when it watches."""
        with self._told():
            row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def tell_about(self, name: str, value: str) -> None:
        """Keep a fact about the whole."""
        with self._told():
            self._db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def positions(self) -> dict[int, int]:
        """Return the next offset to read, by partition of ``__consumer_offsets``."""
        with self._told():
            return dict(self._db.execute("SELECT partition, next FROM positions").fetchall())

    def groups(self) -> Iterator[bytes]:
        """Return what was remembered of each group when the positions were kept."""
        with self._told():
            yield from (row[0] for row in self._db.execute("SELECT state FROM groups"))

    def save(
        self,
        entries: Sequence[PlacedEntry],
        positions: Mapping[int, int],
        groups: Mapping[str, bytes | None],
        now_ms: int,
    ) -> None:
        """Keep entries, positions and what is remembered of groups (None: it is gone), all or nothing."""
        rows = [(*self._place(one), _key(one.entry.group), one.entry.at_ms, build_entry(one.entry)) for one in entries]
        with self._told(), self._transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO entries (partition, position, nth, grp, at_ms, value) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._db.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", list(positions.items()))
            kept = [(_key(name), state) for name, state in groups.items() if state is not None]
            self._db.executemany("INSERT OR REPLACE INTO groups VALUES (?, ?)", kept)
            gone = [(_key(name),) for name, state in groups.items() if state is None]
            self._db.executemany("DELETE FROM groups WHERE grp = ?", gone)
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('until_ms', ?)", (str(now_ms),))

    def _place(self, one: PlacedEntry) -> tuple[int | None, int, int]:
        return (None if one.partition < 0 else one.partition), one.offset, one.nth

    def forget(self) -> None:
        """Begin anew: nothing was read, and nothing is known."""
        with self._told(), self._transaction():
            for table in ("entries", "positions", "groups"):
                self._db.execute(f"DELETE FROM {table}")  # names of our own

    def forget_positions(self) -> None:
        """Read all again, for what this version remembers otherwise; entries that are kept are not written twice."""
        with self._told(), self._transaction():
            self._db.execute("DELETE FROM positions")
            self._db.execute("DELETE FROM groups")

    def entries(self, group: str, *, last: int | None = None) -> list[JournalEntry]:
        """Return the entries of a group, oldest first; or only its ``last``. What cannot be read is left out."""
        query = "SELECT value FROM entries WHERE grp = ? ORDER BY id DESC LIMIT ?"
        with self._told():
            rows = self._db.execute(query, (_key(group), -1 if last is None else last)).fetchall()
        return list(_parsed(row[0] for row in reversed(rows)))

    def entries_since(self, entry_id: int, limit: int) -> list[tuple[int, JournalEntry]]:
        """Return entries of all groups after one of them, with their ids, in the order in which they were kept."""
        query = "SELECT id, value FROM entries WHERE id > ? ORDER BY id LIMIT ?"
        with self._told():
            rows = self._db.execute(query, (entry_id, limit)).fetchall()
        return [(row[0], entry) for row in rows for entry in _parsed([row[1]])]

    def prune(self, now_ms: int) -> int:
        """Let go of entries that are too old, and of the oldest where the file is too large; return how many."""
        with self._told():
            gone = self._db.execute("DELETE FROM entries WHERE at_ms < ?", (now_ms - self._retention_ms,)).rowcount
            while self.size > self._max_bytes:
                count = self._db.execute("SELECT count(*) FROM entries").fetchone()[0]
                if not count:
                    break
                oldest = "SELECT id FROM entries ORDER BY id LIMIT ?"
                part = max(1, count // PRUNE_SHARE)
                gone += self._db.execute(f"DELETE FROM entries WHERE id IN ({oldest})", (part,)).rowcount
        return gone

    @property
    def size(self) -> int:
        """How many bytes of the file are in use; those that were let go of are used again."""
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def close(self) -> None:
        """Close the file; what was saved is on it."""
        self._db.close()
        os.close(self._lock)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell what is wrong with the file in one sentence."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"the watcher's store {self.path} cannot be used: {error}") from error


def _locked(path: Path) -> int:
    """Return the descriptor of a lock that ends with the process. Raises StorageError if somebody else has it."""
    held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise StorageError(f"another watcher keeps the journal of this cluster: {path} is locked") from None
    return held


def read_entries(path: Path, group: str) -> tuple[list[JournalEntry], int | None]:
    """Return a group's entries of a store that maybe somebody else writes, and until when it was watched (ms since
    1970). Raises StorageError for a file that is none."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as db:
            rows = db.execute("SELECT value FROM entries WHERE grp = ? ORDER BY id", (_key(group),)).fetchall()
            until = db.execute("SELECT value FROM about WHERE name = 'until_ms'").fetchone()
    except sqlite3.Error as error:
        raise StorageError(f"the watcher's store {path} cannot be read: {error}") from error
    return list(_parsed(row[0] for row in rows)), None if until is None else int(until[0])


def _parsed(values: Iterable[bytes]) -> Iterator[JournalEntry]:
    for value in values:
        try:
            yield parse_entry(value)
        except ValueError:
            continue  # of a kind that a newer version has written


def _key(group: str) -> bytes:
    return group.encode("utf-8", "surrogatepass")
