"""Journal file of a watcher: atomic writes, no duplicate entries, access for the owner only."""

import os
import sqlite3
import stat

import pytest

from kohort.coordinator.journal import GroupDeleted
from kohort.errors import StorageError
from kohort.insight.observed.state import CommitSeen
from kohort.insight.observed.watching import ChangedState, PersistedCommit
from kohort.watch.store import PlacedEntry, StoreReader, WatchStore, store_path

HOUR = 3_600_000
NOTHING = ChangedState({}, [])


def states(**groups):
    return ChangedState(groups, [])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "c.sqlite"


@pytest.fixture
def store(path):
    kept = WatchStore(path, retention_ms=24 * HOUR)
    yield kept
    kept.close()


def entry(group="g", at_ms=1):
    return GroupDeleted(at_ms=at_ms, group=group, observed=True, why="unknown")


def test_watch_store_returns_saved_entries_offsets_and_group_states(store, path):
    odd = "g\ud800"
    store.save([PlacedEntry(entry(), 3, 7, 0), PlacedEntry(entry(odd), 3, 8, 0)], {3: 9}, states(g=b"state"), 5)
    store.save([PlacedEntry(entry(at_ms=2), 3, 9, 0)], {3: 10}, states(g=None, h=b"other"), 6)

    assert store.positions() == {3: 10}
    assert list(store.groups()) == [b"other"]
    assert store.entries("g") == [entry(), entry(at_ms=2)]
    assert store.entries("g", last=1) == [entry(at_ms=2)]
    assert [found for _, found in store.entries_since(1, 10)] == [
        PlacedEntry(entry(odd), 3, 8, 0),
        PlacedEntry(entry(at_ms=2), 3, 9, 0),
    ]
    reader = StoreReader(path)
    assert reader.entries(odd) == ([entry(odd)], 2)
    assert reader.entries(None, 2) == ([entry(at_ms=2)], 3)
    assert (reader.last_id(), reader.last_id(before_ms=2), reader.last_id(before_ms=3)) == (3, 2, 3)
    assert reader.until_ms == 6
    reader.close()


def test_watch_store_keeps_one_entry_for_a_record_that_is_read_twice(store):
    for _ in range(2):
        store.save([PlacedEntry(entry(), 3, 7, 0), PlacedEntry(entry(), 3, 7, 1)], {3: 8}, NOTHING, 5)
    store.save([PlacedEntry(entry(), -1, -1, 0), PlacedEntry(entry(), -1, -1, 0)], {}, NOTHING, 5)

    assert len(store.entries("g")) == 4


def test_watch_store_saves_all_or_nothing(store):
    store.save([], {0: 1}, NOTHING, 5)
    with pytest.raises(StorageError, match=r"cannot use"):
        store.save([PlacedEntry(entry(), 0, 1, 0)], {0: 2}, states(g=object()), 6)

    assert store.positions() == {0: 1}
    assert store.entries("g") == []


def test_reopened_watcher_continues_at_its_saved_offset(path):
    first = WatchStore(path)
    first.save([PlacedEntry(entry(), 0, 1, 0)], {0: 2}, states(g=b"s"), 5)
    with pytest.raises(StorageError, match="another watcher uses the journal"):
        WatchStore(path)
    first.close()

    second = WatchStore(path)
    assert (second.positions(), list(second.groups()), second.entries("g")) == ({0: 2}, [b"s"], [entry()])
    second.forget_positions()
    assert (second.positions(), list(second.groups()), second.entries("g")) == ({}, [], [entry()])
    second.forget()
    assert second.entries("g") == []
    second.close()


def test_watch_store_deletes_old_and_surplus_entries(path):
    kept = WatchStore(path, retention_ms=HOUR, max_bytes=300_000)
    many = [PlacedEntry(entry("g" * 1000, at_ms=10 * HOUR + i), 0, i, 0) for i in range(500)]
    kept.save([PlacedEntry(entry(at_ms=1), 1, 0, 0), *many], {}, NOTHING, 10 * HOUR)

    assert kept.prune(10 * HOUR) > 1

    assert kept.entries("g") == []
    remaining = kept.entries("g" * 1000)
    assert remaining[-1] == many[-1].entry
    assert 0 < len(remaining) < 500
    assert kept.size <= 300_000
    kept.close()


def test_watch_store_does_not_count_group_states_against_the_entry_limit(path):
    kept = WatchStore(path, max_bytes=200_000)
    kept.save([PlacedEntry(entry(at_ms=HOUR + i), 0, i, 0) for i in range(50)], {}, states(g=b"s" * 900_000), HOUR)

    assert kept.prune(HOUR) == 0
    assert len(kept.entries("g")) == 50
    huge = "h" * 300_000
    kept.save([PlacedEntry(entry(huge, at_ms=HOUR), 0, 50, 0)], {}, NOTHING, HOUR)
    assert kept.prune(HOUR) == 50
    assert len(kept.entries(huge)) == 1, "the newest entry is kept although it exceeds the maximum size"
    size = kept.size
    kept.close()
    again = WatchStore(path)
    assert again.size == size
    again.close()


def test_watch_store_saves_commits_separately_from_group_states(store):
    first = [PersistedCommit("g", "t", 0, CommitSeen(5, 1, 1)), PersistedCommit("g\ud800", "t", 1, CommitSeen(7, 2, 2))]
    store.save([], {}, ChangedState({"g": b"state"}, first), 5)
    store.save([], {}, ChangedState({}, [PersistedCommit("g", "t", 0, None)]), 6)

    assert list(store.commits()) == first[1:]
    assert list(store.groups()) == [b"state"]


def test_deleted_and_restarted_journal_has_a_new_id(path):
    store = WatchStore(path)
    store.save([PlacedEntry(entry(), 0, 1, 0)], {0: 2}, states(g=b"s"), 5)
    name = store.store_id
    store.close()
    again = WatchStore(path)
    assert again.store_id == name

    again.forget()

    assert again.store_id != name
    assert (again.size, again.positions(), list(again.groups())) == (0, {}, [])
    again.close()


def test_watch_store_of_older_version_keeps_entries_and_drops_group_states(path):
    store = WatchStore(path)
    store.save([PlacedEntry(entry(), 0, 1, 0)], {0: 2}, states(g=b"s"), 5)
    store.set_info("version", "1")
    store.close()

    again = WatchStore(path)

    assert (again.positions(), list(again.groups()), again.entries("g")) == ({}, [], [entry()])
    assert again.info("version") == "2"
    again.close()


def test_watch_store_file_has_mode_0600(store, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_watch_store_of_invalid_file_raises_storage_error(tmp_path):
    rubbish = tmp_path / "x.sqlite"
    rubbish.write_bytes(b"not a database, but long enough to be taken for one" * 50)
    with pytest.raises(StorageError, match=r"cannot use .*x\.sqlite: file is not a database"):
        WatchStore(rubbish)
    with pytest.raises(StorageError, match=r"cannot read"):
        StoreReader(rubbish).entries("g")
    with pytest.raises(StorageError, match=r"cannot read"):
        StoreReader(tmp_path / "nothing.sqlite")


def test_watch_store_that_fails_to_open_releases_its_lock(path):
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be taken for one" * 50)
    for _ in range(2):
        with pytest.raises(StorageError, match="is not a database"):
            WatchStore(path)


def changed(path, *commands):
    with sqlite3.connect(path) as db:
        for command in commands:
            db.execute(command)
    db.close()


def test_watch_store_skips_rows_with_values_of_unexpected_types(path):
    store = WatchStore(path)
    store.save([PlacedEntry(entry(), 0, at, 0) for at in range(4)], {0: 4, 1: 7}, NOTHING, 5)
    store.close()
    changed(
        path,
        "UPDATE entries SET value = 5 WHERE id = 1",
        "UPDATE entries SET value = NULL WHERE id = 2",
        "UPDATE entries SET position = 'x' WHERE id = 3",
        "UPDATE positions SET next = 'x' WHERE partition = 1",
        "UPDATE about SET value = '²' WHERE name = 'until_ms'",
    )

    again = WatchStore(path)
    assert again.positions() == {0: 4}
    assert [at for at, _ in again.entries_since(0, 10)] == [4]
    assert again.entries("g") == [entry(), entry()]
    again.close()
    reader = StoreReader(path)
    assert reader.until_ms is None
    assert reader.entries("g") == ([entry(), entry()], 4)
    reader.close()


@pytest.mark.parametrize("column", ["grp = 5", "topic = x'ff'", "next = 'x'", "at_ms = NULL"])
def test_watch_store_with_invalid_commit_raises_value_error(path, column):
    store = WatchStore(path)
    store.save([], {}, ChangedState({}, [PersistedCommit("g", "t", 0, CommitSeen(5, 1, 1))]), 5)
    store.close()
    changed(path, f"UPDATE commits SET {column}")

    again = WatchStore(path)
    with pytest.raises(ValueError, match=r"invalid committed offset|invalid group or topic name"):
        list(again.commits())
    again.close()


def test_watch_store_with_undecodable_names_raises_storage_error(path):
    WatchStore(path).close()
    changed(path, "UPDATE about SET value = CAST(x'ff' AS TEXT)")

    with pytest.raises(StorageError, match=r"cannot use .*c\.sqlite"):
        WatchStore(path)


def test_watch_store_with_damaged_index_raises_storage_error(path):
    store = WatchStore(path, max_bytes=500)
    store.save([PlacedEntry(entry(), 0, at, 0) for at in range(20)], {0: 20}, NOTHING, 5)
    changed(path, "CREATE TRIGGER kept BEFORE DELETE ON entries BEGIN SELECT RAISE(IGNORE); END")

    with pytest.raises(
        StorageError, match=r"cannot use .*c\.sqlite: the index of the journal file is damaged: move the file away"
    ):
        store.prune(5)
    store.close()


def test_watch_store_with_oversized_value_raises_storage_error(path, monkeypatch):
    store = WatchStore(path)
    store.save([PlacedEntry(entry(), 0, 0, 0)], {}, NOTHING, 5)
    store.close()
    changed(path, "UPDATE entries SET value = CAST(zeroblob(3000000) AS TEXT)")
    monkeypatch.setattr("kohort.watch.store.MOST_BYTES", 1_000_000)

    with pytest.raises(StorageError, match=r"cannot use .*c\.sqlite: string or blob too big"):
        WatchStore(path)


def test_watch_store_of_unknown_version_is_not_changed(path):
    WatchStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE about SET value = '99' WHERE name = 'version'")
    db.close()
    with pytest.raises(StorageError, match=r"format 99 of another version"):
        WatchStore(path)


def test_watch_store_skips_entry_of_unknown_kind(store, path):
    store.save([PlacedEntry(entry(), 0, 1, 0)], {}, NOTHING, 5)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO entries (grp, at_ms, value) VALUES (?, 1, ?)", (b"g", b'{"kind":"of tomorrow"}'))
    db.close()
    assert store.entries("g") == [entry()]


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "", "a/b", "x" * 65, "\x00"])
def test_store_path_hashes_cluster_id_with_special_characters(hostile, tmp_path):
    path = store_path(hostile, {"XDG_STATE_HOME": str(tmp_path)})
    assert path.parent == tmp_path / "kohort" / "watch"
    assert path.name.removesuffix(".sqlite").isalnum()
    assert os.sep not in path.name


def test_store_path_ends_with_plain_cluster_id():
    assert store_path("Y1w-_9", {"XDG_STATE_HOME": "/s"}).name == "Y1w-_9.sqlite"
