"""SQLite file of a watcher: journal entries, state of each group, and next offset to read.

One transaction writes all three, so the watcher that follows a killed watcher continues at the same offset. Each entry
has the partition and offset of its record, so no entry is written twice. Other processes may read the file at any time.
The file has mode 0600, since it names clients and hosts.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.errors import StorageError
from kohort.insight.observed.state import CommitSeen
from kohort.insight.observed.watching import ChangedState, PersistedCommit

VERSION: Final = "2"
OLDER: Final = ("1",)
"""Older file formats. A file of an older format keeps its entries; its group states are read again from Kafka."""
RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
MAX_BYTES: Final = 1 << 30
PRUNE_SHARE: Final = 10
"""Fraction of an oversized journal that is deleted at once; 10 means the oldest tenth of its entries."""
ENTRY_BYTES: Final = 100
"""Assumed size of an entry's row in the file besides the group name and the value, in bytes."""
BUSY_S: Final = 10.0
MOST_BYTES: Final = 1 << 27
"""Maximum size of a value in the file, in bytes: a damaged file can claim any length."""
DAMAGED: Final = (sqlite3.Error, UnicodeError, MemoryError)
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
CREATE TABLE IF NOT EXISTS commits (
    grp BLOB, topic BLOB, partition INTEGER, next INTEGER, at_ms INTEGER, progress_ms INTEGER,
    PRIMARY KEY (grp, topic, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
"""
_ADD: Final = "INSERT OR IGNORE INTO entries (partition, position, nth, grp, at_ms, value) VALUES (?, ?, ?, ?, ?, ?)"
Row = tuple[int | None, int, int, bytes, int, bytes]


class PlacedEntry(NamedTuple):
    """Journal entry with the partition and offset of its record in ``__consumer_offsets``.

    ``nth`` is the index of the entry among the entries of the same record. ``partition`` is -1 if the entry has no
    record.
    """

    entry: JournalEntry
    partition: int
    offset: int
    nth: int


class _StoreFile:
    """Open SQLite file of a watcher. Every method raises StorageError if the file is unusable."""

    path: Path
    _db: sqlite3.Connection
    _action: str

    def info(self, name: str) -> str | None:
        with self._storage_errors():
            row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, *DAMAGED) as error:
            why = str(error) or "out of memory"
            raise StorageError(f"cannot {self._action} the journal file {self.path}: {why}") from error


class WatchStore(_StoreFile):
    """Journal file of one cluster, for the watcher of this cluster.

    The file keeps journal entries for ``retention_ms``, and at most ``max_bytes`` of them. The watcher limits the size
    of the group states.
    """

    _action = "use"

    def __init__(self, path: Path, *, retention_ms: int = RETENTION_MS, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._retention_ms = retention_ms
        self._max_bytes = max_bytes
        with self._storage_errors():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            path.chmod(0o600)
            self._lock = _lock_file(path.with_suffix(".lock"))
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        try:
            self._begin()
        except BaseException:
            self.close()  # closing the file releases its lock
            raise

    def _begin(self) -> None:
        with self._storage_errors():
            self._db.executescript(_SCHEMA)
        found = self.info("version")
        if found not in (None, VERSION, *OLDER):
            raise StorageError(
                f"{self.path} has format {found} of another version of kohort, not format {VERSION}: move the file away"
            )
        if found in OLDER:
            self.forget_positions()
        self.set_info("version", VERSION)
        self._bytes = self._bytes_of("id > ?", 0)

    def set_info(self, name: str, value: str) -> None:
        with self._storage_errors():
            self._db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    @property
    def store_id(self) -> str:
        """Id of the journal in this file. A journal that was deleted and recreated has a new id."""
        known = self.info("store_id")
        if known is None:
            known = uuid.uuid4().hex
            self.set_info("store_id", known)
        return known

    def positions(self) -> dict[int, int]:
        """Return the next offset to read in each partition of ``__consumer_offsets``."""
        with self._storage_errors():
            rows = self._db.execute("SELECT partition, next FROM positions").fetchall()
        return {partition: at for partition, at in rows if _are_integers(at)}

    def groups(self) -> Iterator[bytes]:
        with self._storage_errors():
            yield from (row[0] for row in self._db.execute("SELECT state FROM groups"))

    def commits(self) -> Iterator[PersistedCommit]:
        """Return the saved committed offsets. Raises ValueError for an invalid row."""
        query = "SELECT grp, topic, partition, next, at_ms, progress_ms FROM commits"
        with self._storage_errors():
            for group, topic, *place in self._db.execute(query):
                if not _are_integers(*place):
                    raise ValueError(f"invalid committed offset in the journal file: {place}")
                partition, *seen = place
                yield PersistedCommit(_name(group), _name(topic), partition, CommitSeen(*seen))

    def save(
        self, entries: Sequence[PlacedEntry], positions: Mapping[int, int], changed: ChangedState, now_ms: int
    ) -> None:
        """Save new journal entries, next offsets to read and changed group states in one transaction."""
        rows = [_row(one) for one in entries]
        with self._storage_errors(), self._transaction():
            added = sum(self._db.execute(_ADD, row).rowcount * _size_of(row) for row in rows)
            self._db.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", list(positions.items()))
            self._remember(changed)
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('until_ms', ?)", (str(now_ms),))
        self._bytes += added

    def _remember(self, changed: ChangedState) -> None:
        kept = [(group_key(name), state) for name, state in changed.groups.items() if state is not None]
        self._db.executemany("INSERT OR REPLACE INTO groups VALUES (?, ?)", kept)
        gone = [(group_key(name),) for name, state in changed.groups.items() if state is None]
        self._db.executemany("DELETE FROM groups WHERE grp = ?", gone)
        places = [(group_key(one.group), group_key(one.topic), one.partition, one.seen) for one in changed.commits]
        seen = [(*place, seen.offset, seen.at_ms, seen.progress_ms) for *place, seen in places if seen is not None]
        self._db.executemany("INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?, ?, ?)", seen)
        ended = [tuple(place) for *place, seen in places if seen is None]
        self._db.executemany("DELETE FROM commits WHERE grp = ? AND topic = ? AND partition = ?", ended)

    def forget(self) -> None:
        """Delete all data in the file. The journal gets a new id."""
        with self._storage_errors(), self._transaction():
            for table in ("entries", "positions", "groups", "commits"):
                self._db.execute(f"DELETE FROM {table}")  # table names are constants, not user input
            self._db.execute("DELETE FROM about WHERE name IN ('store_id', 'since_ms')")
        self._bytes = 0

    def forget_positions(self) -> None:
        """Delete saved offsets and group states: the watcher then reads all records again, but repeats no entry."""
        with self._storage_errors(), self._transaction():
            for table in ("positions", "groups", "commits"):
                self._db.execute(f"DELETE FROM {table}")

    def entries(self, group: str, *, last: int | None = None) -> list[JournalEntry]:
        """Return the journal entries of a group, oldest first. With ``last``, only the newest ``last`` entries."""
        query = "SELECT value FROM entries WHERE grp = ? ORDER BY id DESC LIMIT ?"
        with self._storage_errors():
            rows = self._db.execute(query, (group_key(group), -1 if last is None else last)).fetchall()
        return list(parsed_entries(row[0] for row in reversed(rows)))

    def entries_since(self, entry_id: int, limit: int) -> list[tuple[int, PlacedEntry]]:
        query = "SELECT id, value, partition, position, nth FROM entries WHERE id > ? ORDER BY id LIMIT ?"
        with self._storage_errors():
            rows = self._db.execute(query, (entry_id, limit)).fetchall()
        return [
            (row_id, PlacedEntry(entry, -1 if partition is None else partition, offset, nth))
            for row_id, value, partition, offset, nth in rows
            if _are_integers(offset, nth) and (partition is None or _are_integers(partition))
            for entry in parsed_entries([value])
        ]

    def prune(self, now_ms: int) -> int:
        """Delete journal entries that are too old or exceed the maximum size; return the number of deleted entries.

        The newest entry is deleted only if it is too old.
        """
        with self._storage_errors():
            gone = self._delete("at_ms < ?", now_ms - self._retention_ms)
            while self._bytes > self._max_bytes:
                (count,) = self._db.execute("SELECT count(*) FROM entries").fetchone()
                if count <= 1:
                    break
                part = max(1, count // PRUNE_SHARE)
                first = self._db.execute("SELECT id FROM entries ORDER BY id LIMIT 1 OFFSET ?", (part,)).fetchone()
                if first is None or not (found := self._delete("id < ?", first[0])):
                    raise sqlite3.DatabaseError("the index of the journal file is damaged: move the file away")
                gone += found
        return gone

    def _delete(self, where: str, bound: int) -> int:
        freed = self._bytes_of(where, bound)
        # the SQL condition is a constant, not user input
        count: int = self._db.execute(f"DELETE FROM entries WHERE {where}", (bound,)).rowcount
        self._bytes -= freed
        return count

    @property
    def size(self) -> int:
        return self._bytes

    def _bytes_of(self, where: str, bound: int) -> int:
        # the SQL condition is a constant, not user input
        query = f"SELECT count(*), total(length(grp) + length(value)) FROM entries WHERE {where}"
        with self._storage_errors():
            count, size = self._db.execute(query, (bound,)).fetchone()
        return int(size + count * ENTRY_BYTES)

    def close(self) -> None:
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


def _lock_file(path: Path) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StorageError(f"another watcher uses the journal of this cluster: {path} is locked") from None
    return descriptor


def parsed_entries(values: Iterable[bytes]) -> Iterator[JournalEntry]:
    """Parse journal entries. Unreadable entries are skipped, and entries of kinds that only newer versions know."""
    for value in values:
        try:
            yield parse_entry(value)
        except (ValueError, TypeError):  # a SQLite column may have a value of any type
            continue


def _row(one: PlacedEntry) -> Row:
    place = (None if one.partition < 0 else one.partition), one.offset, one.nth
    return *place, group_key(one.entry.group), one.entry.at_ms, build_entry(one.entry)


def _size_of(row: Row) -> int:
    return len(row[3]) + len(row[5]) + ENTRY_BYTES


def group_key(group: str) -> bytes:
    """Encode a group name as bytes, since a client may send a name that is not valid Unicode."""
    return group.encode("utf-8", "surrogatepass")


def _name(key: Any) -> str:
    try:
        return str(key, "utf-8", "surrogatepass")
    except (TypeError, UnicodeError):
        raise ValueError(f"invalid group or topic name in the journal file: {key!r}") from None


def _are_integers(*found: Any) -> bool:
    return all(type(one) is int for one in found)


_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def store_path(cluster_id: str, environ: Mapping[str, str]) -> Path:
    """Return the default journal file of a cluster. A cluster id with special characters is hashed."""
    root = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    plain = _PLAIN.fullmatch(cluster_id) is not None
    name = cluster_id if plain else hashlib.sha256(cluster_id.encode("utf-8", "surrogatepass")).hexdigest()
    return root / "kohort" / "watch" / f"{name}.sqlite"


READ_AT_ONCE = 1_000
DIGITS_END = 19
"""Integers with fewer decimal digits than this fit into 64 bits."""


class StoreReader(_StoreFile):
    """Reader of a watcher's journal file."""

    _action = "read"

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._storage_errors():
            where = f"{path.absolute().as_uri()}?mode=ro"
            self._db = sqlite3.connect(where, uri=True, timeout=BUSY_S, check_same_thread=False)
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)

    @property
    def until_ms(self) -> int | None:
        """Time of the watcher's last contact with the cluster, in ms since 1970."""
        value = self.info("until_ms")
        return int(value) if value is not None and value.isdecimal() and len(value) < DIGITS_END else None

    def last_id(self, before_ms: int | None = None) -> int:
        """Return the highest id of the journal entries, optionally before ``before_ms``; 0 for an empty journal."""
        with self._storage_errors():
            if before_ms is not None:
                query = "SELECT min(id) FROM entries WHERE at_ms >= ?"
                (first,) = self._db.execute(query, (before_ms,)).fetchone()
                if first is not None:
                    return int(first) - 1
            (last,) = self._db.execute("SELECT max(id) FROM entries").fetchone()
        return int(last or 0)

    def entries(self, group: str | None, after_id: int = 0) -> tuple[list[JournalEntry], int]:
        """Return the journal entries with ids above ``after_id``, and the highest of their ids.

        The entries are those of one group, or of all groups if ``group`` is None.
        """
        query, bounds = "SELECT id, value FROM entries WHERE id > ?", [after_id]
        found: list[JournalEntry] = []
        last = after_id
        with self._storage_errors():
            if group is None:
                rows = self._db.execute(f"{query} ORDER BY id", bounds)
            else:
                rows = self._db.execute(f"{query} AND grp = ? ORDER BY id", [*bounds, group_key(group)])
            while some := rows.fetchmany(READ_AT_ONCE):
                found += parsed_entries(value for _, value in some)
                last = some[-1][0]
        return found, last

    def close(self) -> None:
        self._db.close()
