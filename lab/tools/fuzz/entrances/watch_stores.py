"""A watcher's SQLite file, with damaged bytes or foreign values, and its record headers."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.entrances.texts import scratch_folder
from fuzz.mutate import mutated
from fuzz.trees import ODD
from kohort.coordinator.journal import parse_entry
from kohort.errors import StorageError
from kohort.insight.observed.state import CommitSeen, WatchedGroup
from kohort.insight.observed.watching import ChangedState, ObservedGroups, PersistedCommit
from kohort.model import Record
from kohort.watch.store import PlacedEntry, StoreReader, WatchStore
from kohort.watch.topic_journal import HEADER, PROGRESS_HEADER, progress_of

FILE, ROWS, HEADERS = range(3)
COLUMNS = {
    "entries": ("partition", "position", "nth", "grp", "at_ms", "value"),
    "positions": ("next",),
    "groups": ("grp", "state"),
    "commits": ("next", "at_ms", "progress_ms"),
    "about": ("name", "value"),
}
NAMES = ("version", "store_id", "topic_id", "since_ms", "until_ms")
TOPIC_PROGRESS = b'{"topic_id": "x", "until": {"0": [5, 1], "3": [9, 2147483648]}}'
NOW_MS = 100_000
MOST = 1 << 18
Change = tuple[str, str, int, Any]


class WatchStores(Entrance):
    """A damaged watcher's file."""

    name = "watch-stores"
    feeds = "a watcher's SQLite file, damaged as a file and in its rows, and the headers of the records it ships"
    hang_ms = 100.0  # SQLite writes

    @cached_property
    def path(self) -> Path:
        return scratch_folder() / "c.sqlite"

    @cached_property
    def template(self) -> bytes:
        from fuzz.entrances.good_ones import entries

        store = WatchStore(self.path)
        placed = [PlacedEntry(parse_entry(one), 0, at, 0) for at, one in enumerate(entries())]
        state = msgspec.msgpack.encode(WatchedGroup(group="g"))
        commit = PersistedCommit("g", "t", 0, CommitSeen(5, 1_000, 900))
        store.save(placed[:12], {0: 12, 1: 7}, ChangedState({"g": state, "h": state}, [commit]), NOW_MS)
        for name in NAMES[1:]:
            store.set_info(name, "1")
        store.close()
        return self.path.read_bytes()

    def generate(self, rng: random.Random) -> bytes:
        match rng.randrange(5):
            case 0:
                return msgspec.msgpack.encode([FILE, mutated(self.template, rng)])
            case 1:
                headers = [
                    [HEADER, mutated(b"abc/12", rng) if rng.random() < 0.5 else b"abc/12"],
                    [PROGRESS_HEADER, mutated(TOPIC_PROGRESS, rng)],
                ]
                return msgspec.msgpack.encode([HEADERS, headers])
            case _:
                return msgspec.msgpack.encode([ROWS, [self.change(rng) for _ in range(rng.choice((1, 1, 2, 4)))]])

    def change(self, rng: random.Random) -> Change:
        """Return a table, its column, a row, and a new value."""
        table = rng.choice(list(COLUMNS))
        odd: Any = rng.choice([one for one in ODD if not isinstance(one, list | dict)] + [b"", b"\xff", b"g"])
        if isinstance(odd, int) and not -(1 << 63) <= odd < 1 << 63:
            odd = str(odd)
        if isinstance(odd, str):
            odd = odd.encode("utf-8", "replace").decode()
        if table in {"entries", "groups"} and rng.random() < 0.5:
            good = self.template[rng.randrange(len(self.template)) :][:200]
            odd = mutated(rng.choice((good, msgspec.msgpack.encode(WatchedGroup(group="g")))), rng)
        return table, rng.choice(COLUMNS[table]), rng.randrange(14), odd

    def run(self, data: bytes, watch: Watch) -> None:
        template = self.template
        try:
            kind, payload = msgspec.msgpack.decode(data, type=tuple[int, Any])
            if kind == HEADERS:
                headers = msgspec.convert(payload, list[tuple[str, bytes]], strict=False)
            elif kind == FILE:
                template = msgspec.convert(payload, bytes)[:MOST]
            else:
                changes = msgspec.convert(payload, list[tuple[str, str, int, Any]])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if kind == HEADERS:
            watch.step(lambda: progress_of(Record("t", 0, 0, 1, None, b"x", tuple(headers))))
            return
        self.clear()
        self.path.write_bytes(with_changes(template, changes) if kind == ROWS else template)
        for use in (self.looked_at, self.continued, self.continued):  # a failed open leaves no state behind
            try:
                watch.step(use)
            except StorageError as error:
                if str(self.path) not in str(error):
                    raise Wrong(f"an error without the file's name: {error}") from error

    def clear(self) -> None:
        """Close the files of the previous input."""
        for ending in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)

    def looked_at(self) -> None:
        """Read the file as commands do."""
        reader = StoreReader(self.path)
        try:
            for ask in (
                lambda: [reader.info(name) for name in NAMES],
                lambda: reader.until_ms,
                reader.last_id,
                lambda: reader.last_id(5_000),
                lambda: reader.entries("g"),
                lambda: reader.entries(None, 5),
            ):
                ask()  # type: ignore[no-untyped-call]
        finally:
            reader.close()

    def continued(self) -> None:
        """Continue the file as a watcher does."""
        store = WatchStore(self.path, max_bytes=3_000)
        try:
            groups = ObservedGroups()
            try:
                groups.restore(store.groups(), store.commits())
            except ValueError:
                store.forget_positions()
            store.positions()
            found = store.entries_since(0, 100)
            store.save([one for _, one in found[:2]], {0: 50}, ChangedState({"g": b"x"}, []), NOW_MS)
            store.prune(NOW_MS)
            if store.size < 0 or store.entries("g", last=1) is None:
                raise Wrong(f"a size of {store.size}")
            _ = store.store_id
        finally:
            store.close()


IN_WAL, IN_JOURNAL = b"\2\2", b"\1\1"
"""Bytes 18 and 19 of a file: its journal mode; an in-memory file supports no WAL."""


def with_changes(template: bytes, changes: list[Change]) -> bytes:
    """Return the file with changed values."""
    db = sqlite3.connect(":memory:")
    try:
        db.deserialize(template[:18] + IN_JOURNAL + template[20:])
        for table, column, row, value in changes:
            if column not in COLUMNS.get(table, ()):
                continue
            key = "rowid" if table != "commits" else "partition"
            query = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {key} = ?"
            place: int | str = row
            if table == "about":
                query, place = f"UPDATE OR IGNORE about SET {column} = ? WHERE name = ?", NAMES[row % 5]
            with suppress(sqlite3.Error, OverflowError):
                db.execute(query, (value, place))
        db.commit()
        made = db.serialize()
    finally:
        db.close()
    return made[:18] + IN_WAL + made[20:]
