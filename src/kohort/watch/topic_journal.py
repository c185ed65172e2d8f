"""A watcher's journal on the cluster itself, in ``__kohort_journal``, where everybody's commands find it.

Its keys and values are those of a kohort broker's journal. What is kept in the watcher's file is shipped from there, in
order, in transactions. Each record says in a header of which file and which entry it is, and the last of a transaction
up to which record of each partition of ``__consumer_offsets`` all is told. So whoever goes on, with the same file after
a kill or with another one, ships what is missing and nothing twice; its transactional id shuts out whoever still
writes. Where nothing happens a record without a value says now and then that somebody watches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kohort.aio.admin import Admin
from kohort.aio.consuming.consumer import Consumer
from kohort.aio.producing.producer import Producer
from kohort.client.admin.model import ConfigResource, NewTopic
from kohort.coordinator.journal import TOPIC, JournalEntry, build_entry
from kohort.errors import ApiError, ApiTimeout, ErrorCode, KohortError, UsageError
from kohort.log.storage import MISFITS
from kohort.model import Record, TopicPartition
from kohort.watch.asking import ADMIN_MS
from kohort.watch.store import DIGITS_END, PlacedEntry, WatchStore

HEADER: Final = "kohort-watch"
"""Store and entry of a record: ``STORE/ID``."""
TOLD_HEADER: Final = "kohort-watch-told"
"""Says up to where all is told, as JSON: the id of ``__consumer_offsets``, and for each partition of it an offset and
how many of the entries of that record."""
WHOLE: Final = 1 << 31
BEAT_MS: Final = 30_000
"""Interval of heartbeat records."""
MESSAGE_BYTES: Final = 1 << 24
TOPIC_OPTIONS: Final = {"cleanup.policy": "delete", "max.message.bytes": str(MESSAGE_BYTES)}
PRODUCER_OPTIONS: Final[Mapping[str, Any]] = {
    "transactional.id": "kohort-watch",
    "max.request.size": MESSAGE_BYTES,
    "buffer.memory": 4 * MESSAGE_BYTES,
}
"""One transactional id for the cluster, since its journal has one writer."""
A_BROKERS_OWN: Final = "group.coordinator.max.bytes"
"""Option of kohort brokers only, which write their own journal."""
SHIPPED_AT_ONCE: Final = 500
LOOK_BACK: Final = 50
"""Offsets before the end to search for the last record, between transaction markers."""


class Told(NamedTuple):
    """Progress of a watcher, from the headers of the last record."""

    store: str
    entry_id: int
    topic_id: str
    until: dict[int, tuple[int, int]]
    """By partition: offset of the last record, and its number of entries."""
    at_ms: int


class TopicJournal:
    """Copies a store's entries to the topic. The caller closes the clients."""

    def __init__(self, producer: Producer, store: WatchStore, topic: str = TOPIC) -> None:
        self._producer, self._store, self._topic = producer, store, topic
        self._shipped, self._beat_at = 0, 0
        self._name: str | None = None
        self._last: Told | None = None
        self._until: dict[int, tuple[int, int]] = {}

    def open(self, admin: Admin, consumer: Consumer, retention_ms: int) -> None:
        """Create the topic, fence other writers, and find the progress.

        Raises UsageError on a kohort cluster, which writes its own journal, KohortError without the right to write.
        """
        if self._topic == TOPIC:
            _check_not_kept(admin)
        _make_topic(admin, self._topic, retention_ms)
        self._producer.init_transactions()
        last = last_record(consumer, self._topic)
        self._last = None if last is None else told_by(last)

    def ship(self, now_ms: int) -> int:
        """Write the new entries of the store; return how many. Raises ProducerFenced for a second watcher."""
        last = self._begun()
        count, is_all = 0, False
        while not is_all:
            found = self._store.entries_since(self._shipped, SHIPPED_AT_ONCE)
            is_all = len(found) < SHIPPED_AT_ONCE
            new = [(entry_id, one) for entry_id, one in found if not _is_told(one, last)]
            for _, one in new:
                self._tell_until(one.partition, (one.offset, one.nth + 1))
            for partition, at in self._store.positions().items() if is_all else ():
                self._tell_until(partition, (at - 1, WHOLE))
            if new:
                with self._producer.transaction():
                    for entry_id, one in new:
                        self._send(entry_id, one.entry, is_last=entry_id == new[-1][0])
                self._beat_at = now_ms + BEAT_MS
            self._shipped = found[-1][0] if found else self._shipped
            count += len(new)
        return count

    def _tell_until(self, partition: int, place: tuple[int, int]) -> None:
        if partition >= 0:
            self._until[partition] = max(place, self._until.get(partition, place))

    def beat(self, now_ms: int) -> None:
        """Write a heartbeat record after a silence."""
        if now_ms < self._beat_at or self.ship(now_ms):
            return
        with self._producer.transaction():
            self._producer.send(
                self._topic, None, None, partition=0, headers=self._headers(self._shipped, is_last=True)
            )
        self._beat_at = now_ms + BEAT_MS

    def _begun(self) -> Told | None:
        """Find the start, for a new or restarted store; return the progress of another watcher."""
        name, last = self._store.store_id, self._last
        is_same_topic = last is not None and last.topic_id == self._store.about("topic_id")
        if name != self._name:
            self._name = name
            is_ours = last is not None and last.store == name
            self._shipped = last.entry_id if is_ours and last is not None else 0
            self._until = dict(last.until) if is_same_topic and last is not None else {}
        return last if is_same_topic and last is not None and last.store != name else None

    def _send(self, entry_id: int, entry: JournalEntry, *, is_last: bool) -> None:
        self._producer.send(
            self._topic,
            build_entry(entry),
            entry.group.encode("utf-8", "surrogatepass"),
            partition=0,
            headers=self._headers(entry_id, is_last=is_last),
            timestamp_ms=max(0, entry.at_ms),
        )

    def _headers(self, entry_id: int, *, is_last: bool) -> list[tuple[str, bytes]]:
        headers = [(HEADER, f"{self._name}/{entry_id}".encode())]
        if is_last:
            told = {"topic_id": self._store.about("topic_id"), "until": self._until}
            headers.append((TOLD_HEADER, json.dumps(told, separators=(",", ":")).encode()))
        return headers


def _is_told(one: PlacedEntry, last: Told | None) -> bool:
    """Tell whether another watcher has written the entries of this record."""
    if last is None:
        return False
    if one.partition < 0:  # it is of no record
        return one.entry.at_ms <= last.at_ms
    return (one.offset, one.nth) < last.until.get(one.partition, (-1, 0))


def told_by(record: Record) -> Told | None:
    """Return the progress in a record's headers; None for a record of no watcher."""
    headers = dict(record.headers)
    store, slash, entry_id = (headers.get(HEADER) or b"").decode("ascii", "replace").partition("/")
    if not slash or not entry_id.isdecimal() or len(entry_id) >= DIGITS_END:
        return None
    topic_id, until = "", {}
    try:
        said = json.loads(headers.get(TOLD_HEADER) or b"{}")
        topic_id = str(said["topic_id"])
        until = {int(partition): (int(at), int(nth)) for partition, (at, nth) in said["until"].items()}
    except MISFITS:
        pass  # it says nothing that can be gone by
    return Told(store, int(entry_id), topic_id, until, record.timestamp_ms)


def _check_not_kept(admin: Admin) -> None:
    node = ConfigResource("broker", str(admin.describe_cluster(timeout_ms=ADMIN_MS).controller_id))
    options = admin.describe_configs([node], timeout_ms=ADMIN_MS)
    if node not in options.errors and A_BROKERS_OWN in options[node]:
        raise UsageError(f"the brokers of this cluster are kohort's and keep {TOPIC} themselves: leave --to-topic out")


def _make_topic(admin: Admin, name: str, retention_ms: int) -> None:
    topic = NewTopic(name, 1, -1, {**TOPIC_OPTIONS, "retention.ms": str(retention_ms)})
    error = admin.create_topics([topic], check=False, timeout_ms=ADMIN_MS).errors.get(name)
    if error is not None and not (isinstance(error, ApiError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KohortError(f"{name} cannot be made: {error}") from error
    deadline = time.monotonic() + ADMIN_MS / 1000
    while name in admin.describe_topics([name], timeout_ms=ADMIN_MS).errors:
        if time.monotonic() > deadline:
            raise ApiTimeout(f"{name} was made, but no broker led it within {ADMIN_MS // 1000} s")
        time.sleep(0.1)


def last_record(consumer: Consumer, topic: str) -> Record | None:
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    begin = consumer.beginning_offsets([place], timeout_ms=ADMIN_MS)[place]
    end = consumer.end_offsets([place], timeout_ms=ADMIN_MS)[place]
    reach, last = LOOK_BACK, None
    while last is None and end > begin:
        at = max(begin, end - reach)
        consumer.seek(place, at)
        deadline = time.monotonic() + ADMIN_MS / 1000
        while consumer.position(place, timeout_ms=ADMIN_MS) < end:
            last = next(reversed(consumer.poll(500)), last)
            if time.monotonic() > deadline:
                raise ApiTimeout(f"{topic} could not be read to its end within {ADMIN_MS // 1000} s")
        if at == begin:
            break
        reach *= 10
    return last
