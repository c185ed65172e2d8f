"""The file in which a watcher keeps a cluster's journal: all or nothing, nothing twice, nobody else's to read."""

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


def test_what_is_saved_is_read_again(store, path):
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


def test_an_entry_of_the_same_record_is_kept_once(store):
    for _ in range(2):
        store.save([PlacedEntry(entry(), 3, 7, 0), PlacedEntry(entry(), 3, 7, 1)], {3: 8}, NOTHING, 5)
    store.save([PlacedEntry(entry(), -1, -1, 0), PlacedEntry(entry(), -1, -1, 0)], {}, NOTHING, 5)  # of no record

    assert len(store.entries("g")) == 4


def test_what_cannot_be_saved_whole_is_not_saved_at_all(store):
    store.save([], {0: 1}, NOTHING, 5)
    with pytest.raises(StorageError, match=r"cannot use"):
        store.save([PlacedEntry(entry(), 0, 1, 0)], {0: 2}, states(g=object()), 6)

    assert store.positions() == {0: 1}
    assert store.entries("g") == []


def test_a_watcher_that_is_opened_again_goes_on_where_the_last_one_ended(path):
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


def test_old_entries_go_and_so_do_the_oldest_of_too_many(path):
    kept = WatchStore(path, retention_ms=HOUR, max_bytes=300_000)
    many = [PlacedEntry(entry("g" * 1000, at_ms=10 * HOUR + i), 0, i, 0) for i in range(500)]
    kept.save([PlacedEntry(entry(at_ms=1), 1, 0, 0), *many], {}, NOTHING, 10 * HOUR)

    assert kept.prune(10 * HOUR) > 1

    assert kept.entries("g") == []
    left = kept.entries("g" * 1000)
    assert left[-1] == many[-1].entry
    assert 0 < len(left) < 500
    assert kept.size <= 300_000
    kept.close()


def test_what_is_remembered_of_groups_takes_no_entry_its_place(path):
    kept = WatchStore(path, max_bytes=200_000)
    kept.save([PlacedEntry(entry(at_ms=HOUR + i), 0, i, 0) for i in range(50)], {}, states(g=b"s" * 900_000), HOUR)

    assert kept.prune(HOUR) == 0
    assert len(kept.entries("g")) == 50
    huge = "h" * 300_000
    kept.save([PlacedEntry(entry(huge, at_ms=HOUR), 0, 50, 0)], {}, NOTHING, HOUR)
    assert kept.prune(HOUR) == 50
    assert len(kept.entries(huge)) == 1, "one that is larger than all that may be kept is at least there"
    size = kept.size
    kept.close()
    again = WatchStore(path)
    assert again.size == size
    again.close()


def test_a_commit_is_kept_by_itself(store):
    first = [PersistedCommit("g", "t", 0, CommitSeen(5, 1, 1)), PersistedCommit("g\ud800", "t", 1, CommitSeen(7, 2, 2))]
    store.save([], {}, ChangedState({"g": b"state"}, first), 5)
    store.save([], {}, ChangedState({}, [PersistedCommit("g", "t", 0, None)]), 6)

    assert list(store.commits()) == first[1:]
    assert list(store.groups()) == [b"state"]


def test_a_journal_that_begins_anew_is_another_one(path):
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


def test_a_store_of_the_version_before_keeps_its_entries_and_reads_the_rest_again(path):
    store = WatchStore(path)
    store.save([PlacedEntry(entry(), 0, 1, 0)], {0: 2}, states(g=b"s"), 5)
    store.set_info("version", "1")
    store.close()

    again = WatchStore(path)

    assert (again.positions(), list(again.groups()), again.entries("g")) == ({}, [], [entry()])
    assert again.info("version") == "2"
    again.close()


def test_the_file_is_its_users_alone(store, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_is_no_store_is_told_so_in_one_sentence(tmp_path):
    rubbish = tmp_path / "x.sqlite"
    rubbish.write_bytes(b"not a database, but long enough to be taken for one" * 50)
    with pytest.raises(StorageError, match=r"cannot use .*x\.sqlite: file is not a database"):
        WatchStore(rubbish)
    with pytest.raises(StorageError, match=r"cannot read"):
        StoreReader(rubbish).entries("g")
    with pytest.raises(StorageError, match=r"cannot read"):
        StoreReader(tmp_path / "nothing.sqlite")


def test_who_could_not_open_a_file_holds_no_lock_of_it(path):
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


def test_columns_that_hold_something_else_are_no_entries_and_no_positions(path):
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
def test_a_commit_that_is_none_is_not_gone_on_from(path, column):
    store = WatchStore(path)
    store.save([], {}, ChangedState({}, [PersistedCommit("g", "t", 0, CommitSeen(5, 1, 1))]), 5)
    store.close()
    changed(path, f"UPDATE commits SET {column}")

    again = WatchStore(path)
    with pytest.raises(ValueError, match=r"invalid commit|invalid name"):
        list(again.commits())
    again.close()


def test_names_in_a_damaged_file_that_are_no_text_are_told_as_the_rest(path):
    WatchStore(path).close()
    changed(path, "UPDATE about SET value = CAST(x'ff' AS TEXT)")

    with pytest.raises(StorageError, match=r"cannot use .*c\.sqlite"):
        WatchStore(path)


def test_entries_that_do_not_go_are_told_and_not_tried_for_ever(path):
    """As where a damaged file has its ids out of order: what is there is not found by them."""
    store = WatchStore(path, max_bytes=500)
    store.save([PlacedEntry(entry(), 0, at, 0) for at in range(20)], {0: 20}, NOTHING, 5)
    changed(path, "CREATE TRIGGER kept BEFORE DELETE ON entries BEGIN SELECT RAISE(IGNORE); END")

    with pytest.raises(
        StorageError, match=r"cannot use .*c\.sqlite: the index of entries is damaged: move the file away"
    ):
        store.prune(5)
    store.close()


def test_a_value_of_any_length_that_a_damaged_file_says_is_told_as_the_rest(path, monkeypatch):
    store = WatchStore(path)
    store.save([PlacedEntry(entry(), 0, 0, 0)], {}, NOTHING, 5)
    store.close()
    changed(path, "UPDATE entries SET value = CAST(zeroblob(3000000) AS TEXT)")
    monkeypatch.setattr("kohort.watch.store.MOST_BYTES", 1_000_000)

    with pytest.raises(StorageError, match=r"cannot use .*c\.sqlite: string or blob too big"):
        WatchStore(path)


def test_a_store_of_another_version_is_left_alone(path):
    WatchStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE about SET value = '99' WHERE name = 'version'")
    db.close()
    with pytest.raises(StorageError, match=r"format 99 of another version"):
        WatchStore(path)


def test_an_entry_of_a_kind_yet_unknown_is_passed_over(store, path):
    store.save([PlacedEntry(entry(), 0, 1, 0)], {}, NOTHING, 5)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO entries (grp, at_ms, value) VALUES (?, 1, ?)", (b"g", b'{"kind":"of tomorrow"}'))
    db.close()
    assert store.entries("g") == [entry()]


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "", "a/b", "x" * 65, "\x00"])
def test_the_name_of_the_file_is_never_the_clusters_to_choose(hostile, tmp_path):
    path = store_path(hostile, {"XDG_STATE_HOME": str(tmp_path)})
    assert path.parent == tmp_path / "kohort" / "watch"
    assert path.name.removesuffix(".sqlite").isalnum()
    assert os.sep not in path.name


def test_a_plain_cluster_id_is_the_name_of_the_file():
    assert store_path("Y1w-_9", {"XDG_STATE_HOME": "/s"}).name == "Y1w-_9.sqlite"
