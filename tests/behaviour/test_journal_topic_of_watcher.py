from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kohort
from kohort.coordinator.journal import GroupDeleted, JournalEntry
from kohort.errors import UsageError
from kohort.insight.observed.watching import ChangedState
from kohort.watch.journal_source import JournalAccess, JournalSource, is_stale, open_journal
from kohort.watch.store import PlacedEntry, WatchStore
from kohort.watch.topic_journal import HEARTBEAT_MS, PRODUCER_OPTIONS, SHIPPED_AT_ONCE, TopicJournal
from kohort.watch.watcher import CONSUMER_OPTIONS

pytestmark = pytest.mark.ours
TOPIC = "a-journal"  # another topic than the broker's own journal
NOTHING = ChangedState({}, [])
DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000


@pytest.fixture
def broker() -> Iterator[kohort.Broker]:
    with kohort.Broker() as broker:
        yield broker


def entry(group: str, at_ms: int = NOW_MS) -> JournalEntry:
    return GroupDeleted(at_ms=at_ms, group=group, observed=True, why="unknown")


def a_store(folder: Path, name: str, topic_id: str = "one") -> WatchStore:
    store = WatchStore(folder / f"{name}.sqlite")
    store.set_info("topic_id", topic_id)
    return store


def keep(store: WatchStore, partition: int, offset: int, *groups: str, at_ms: int = NOW_MS) -> None:
    placed = [PlacedEntry(entry(group, at_ms), partition, offset, nth) for nth, group in enumerate(groups)]
    store.save(placed, {partition: offset + 1}, NOTHING, at_ms)


@contextmanager
def reader(broker: kohort.Broker) -> Iterator[tuple[kohort.Admin, kohort.Consumer]]:
    with (
        kohort.Admin(bootstrap_servers=broker.bootstrap) as admin,
        kohort.Consumer(CONSUMER_OPTIONS, bootstrap_servers=broker.bootstrap) as consumer,
    ):
        yield admin, consumer


@contextmanager
def shipping(broker: kohort.Broker, store: WatchStore) -> Iterator[TopicJournal]:
    with kohort.Producer(bootstrap_servers=broker.bootstrap, **PRODUCER_OPTIONS) as producer:
        journal = TopicJournal(producer, store, TOPIC)
        with reader(broker) as (admin, consumer):
            journal.open(admin, consumer, DAY_MS)
        yield journal


@contextmanager
def reading(broker: kohort.Broker) -> Iterator[JournalSource]:
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        access = JournalAccess(lambda o: kohort.Consumer(o, bootstrap_servers=broker.bootstrap), admin, {}, topic=TOPIC)
        found = open_journal(access, None)
        assert found is not None
        yield found
        found.close()


def journaled_groups(broker: kohort.Broker) -> list[str]:
    with reading(broker) as journal:
        return [one.group for one in journal.read()]


def test_second_watcher_writes_only_missing_journal_entries(broker, tmp_path):
    first, second = a_store(tmp_path, "first"), a_store(tmp_path, "second")
    keep(first, 0, 10, "a", "b")
    keep(first, 1, 7, "c", at_ms=NOW_MS + 5_000)  # the clock is ahead
    with shipping(broker, first) as journal:
        assert journal.ship(NOW_MS) == 3
        for store in (first, second):  # the first was killed before it could ship the last two
            keep(store, 0, 11, "d", at_ms=NOW_MS + 1)
            keep(store, 2, 3, "e", at_ms=NOW_MS - 9_000)
    keep(second, 0, 12, "f")
    second.forget_positions()
    keep(second, 0, 10, "a", "b")  # the second watcher has read them too, and one record that the first skipped
    keep(second, 1, 5, "made by the second alone")
    keep(second, 1, 7, "c")
    with shipping(broker, second) as journal:
        assert journal.ship(NOW_MS) == 3
        assert journal.ship(NOW_MS) == 0
    assert journaled_groups(broker) == ["a", "b", "c", "d", "e", "f"]

    keep(first, 0, 12, "f")
    keep(first, 3, 0, "g")
    with shipping(broker, first) as journal:  # and back again
        assert journal.ship(NOW_MS) == 1
    assert journaled_groups(broker)[-2:] == ["f", "g"]
    first.close()
    second.close()


def test_killed_watcher_resumes_without_loss_and_duplicates(broker, tmp_path):
    store = a_store(tmp_path, "s")
    names = [str(offset) for offset in range(SHIPPED_AT_ONCE + 50)]
    for offset, name in enumerate(names):
        keep(store, 0, offset, name)
    with shipping(broker, store) as journal:
        journal.ship(NOW_MS)
    keep(store, 0, len(names), "last")
    with shipping(broker, store) as journal:
        assert journal.ship(NOW_MS) == 1
    store.close()

    assert journaled_groups(broker) == [*names, "last"]


def test_recreated_offsets_topic_is_journaled_from_its_start(broker, tmp_path):
    store = a_store(tmp_path, "s")
    keep(store, 0, 100, "before")
    with shipping(broker, store) as journal:
        journal.ship(NOW_MS)
        store.forget()
        store.set_info("topic_id", "two")
        keep(store, 0, 1, "after")
        assert journal.ship(NOW_MS) == 1
    with shipping(broker, store) as journal:
        assert journal.ship(NOW_MS) == 0
    store.close()

    assert journaled_groups(broker) == ["before", "after"]


def test_idle_watcher_writes_its_progress(broker, tmp_path):
    store = a_store(tmp_path, "s")
    keep(store, 0, 100, "long ago")
    with shipping(broker, store) as journal:
        journal.ship(NOW_MS)
        with reading(broker) as source:
            source.read()
            assert source.until_ms == NOW_MS
            assert is_stale(source, NOW_MS + 3_600_000)
        journal.heartbeat(NOW_MS + HEARTBEAT_MS - 1)
        journal.heartbeat(NOW_MS + HEARTBEAT_MS)
        journal.heartbeat(NOW_MS + HEARTBEAT_MS + 1)
    store.close()
    with reading(broker) as source:
        assert [one.group for one in source.read()] == ["long ago"]
        assert source.until_ms > NOW_MS + DAY_MS, "it was said by the clock of now"
    with kohort.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        place = kohort.TopicPartition(TOPIC, 0)
        assert consumer.end_offsets([place])[place] == 4, "two records, each with the marker of its transaction"


def test_journal_records_with_unknown_headers_are_ignored(broker, tmp_path):
    store = a_store(tmp_path, "s")
    keep(store, 0, 0, "a")
    with shipping(broker, store) as journal:
        journal.ship(NOW_MS)
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for name, value in (
            ("kohort-watch", b"x/y"),
            ("kohort-watch", b"\xff"),
            ("kohort-watch-progress", b"{"),
            ("kohort-watch", b"other/9"),
        ):
            rubbish = [(name, value), ("kohort-watch-progress", b'{"topic_id":"one","until":{"0":"x"}}')]
            producer.send(TOPIC, b"{}", partition=0, headers=rubbish)
    keep(store, 0, 1, "b")
    with shipping(broker, store) as journal:
        assert journal.ship(NOW_MS) >= 1
    store.close()
    assert journaled_groups(broker)[-1] == "b"


def test_watcher_does_not_write_to_a_broker_that_journals_itself(broker, tmp_path):
    store = a_store(tmp_path, "s")
    with (
        kohort.Producer(bootstrap_servers=broker.bootstrap, **PRODUCER_OPTIONS) as producer,
        reader(broker) as (admin, consumer),
        pytest.raises(UsageError, match="omit --to-topic"),
    ):
        TopicJournal(producer, store).open(admin, consumer, DAY_MS)
    store.close()
