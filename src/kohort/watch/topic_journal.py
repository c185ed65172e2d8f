"""Watcher's journal in the topic ``__kohort_journal`` of the cluster.

The watcher copies entries from its file to the topic, in order and in transactions. Keys and values are the same as in
a broker's journal. The headers of each record name the file and the entry. The last record of a transaction also has
the watcher's read progress in each partition of ``__consumer_offsets``. So a later watcher copies only missing entries,
even from another file. All watchers have the same transactional id, so a new watcher fences the previous one. Heartbeat
records without a value show that a watcher runs.
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
from kohort.watch.cluster_queries import ADMIN_MS
from kohort.watch.store import DIGITS_END, PlacedEntry, WatchStore

HEADER: Final = "kohort-watch"
"""Record header ``STORE/ID``: id of the watcher's file, and id of the journal entry in this file."""
PROGRESS_HEADER: Final = "kohort-watch-progress"
"""Record header with the watcher's read progress in ``__consumer_offsets``, as JSON.

The JSON has the topic id of ``__consumer_offsets``. For each partition of this topic, it has the offset of the last
record that was read, and the number of journal entries that came from this record.
"""
WHOLE: Final = 1 << 31
HEARTBEAT_MS: Final = 30_000
"""Interval of the watcher's heartbeat records in the journal topic, in ms."""
MESSAGE_BYTES: Final = 1 << 24
TOPIC_OPTIONS: Final = {"cleanup.policy": "delete", "max.message.bytes": str(MESSAGE_BYTES)}
PRODUCER_OPTIONS: Final[Mapping[str, Any]] = {
    "transactional.id": "kohort-watch",
    "max.request.size": MESSAGE_BYTES,
    "buffer.memory": 4 * MESSAGE_BYTES,
}
"""Producer options. All watchers have the same transactional id, so a new watcher fences the previous one."""
KOHORT_ONLY_OPTION: Final = "group.coordinator.max.bytes"
"""Broker config that only kohort's brokers have. These brokers write the journal themselves."""
SHIPPED_AT_ONCE: Final = 500
TAIL_OFFSETS: Final = 50
"""Number of offsets before the log end in which the last record is searched: transaction markers have offsets, too."""


class WatcherProgress(NamedTuple):
    """Progress of a watcher, as found in the headers of the last record in the journal topic."""

    store: str
    entry_id: int
    topic_id: str
    until: dict[int, tuple[int, int]]
    """For each partition of ``__consumer_offsets``: offset of the last record read, and its number of entries."""
    at_ms: int


class TopicJournal:
    """Copier of journal entries from a watcher's file to the journal topic. The caller closes the clients."""

    def __init__(self, producer: Producer, store: WatchStore, topic: str = TOPIC) -> None:
        self._producer, self._store, self._topic = producer, store, topic
        self._shipped, self._heartbeat_at = 0, 0
        self._name: str | None = None
        self._last: WatcherProgress | None = None
        self._until: dict[int, tuple[int, int]] = {}

    def open(self, admin: Admin, consumer: Consumer, retention_ms: int) -> None:
        """Create the journal topic, fence other watchers, and read the progress of the last watcher.

        Raises UsageError if the brokers are kohort's, because these write the journal themselves. Raises KohortError if
        the watcher has no permission to write to the topic.
        """
        if self._topic == TOPIC:
            _check_not_kept(admin)
        _make_topic(admin, self._topic, retention_ms)
        self._producer.init_transactions()
        last = last_record(consumer, self._topic)
        self._last = None if last is None else progress_of(last)

    def ship(self, now_ms: int) -> int:
        """Copy new journal entries from the watcher's file to the topic; return their number.

        Raises ProducerFenced if another watcher writes to the topic.
        """
        last = self._begun()
        count, is_all = 0, False
        while not is_all:
            found = self._store.entries_since(self._shipped, SHIPPED_AT_ONCE)
            is_all = len(found) < SHIPPED_AT_ONCE
            new = [(entry_id, one) for entry_id, one in found if not _is_shipped(one, last)]
            for _, one in new:
                self._advance(one.partition, (one.offset, one.nth + 1))
            for partition, at in self._store.positions().items() if is_all else ():
                self._advance(partition, (at - 1, WHOLE))
            if new:
                with self._producer.transaction():
                    for entry_id, one in new:
                        self._send(entry_id, one.entry, is_last=entry_id == new[-1][0])
                self._heartbeat_at = now_ms + HEARTBEAT_MS
            self._shipped = found[-1][0] if found else self._shipped
            count += len(new)
        return count

    def _advance(self, partition: int, place: tuple[int, int]) -> None:
        if partition >= 0:
            self._until[partition] = max(place, self._until.get(partition, place))

    def heartbeat(self, now_ms: int) -> None:
        """Write a heartbeat record to the journal topic if the watcher's last record is older than ``HEARTBEAT_MS``."""
        if now_ms < self._heartbeat_at or self.ship(now_ms):
            return
        with self._producer.transaction():
            self._producer.send(
                self._topic, None, None, partition=0, headers=self._headers(self._shipped, is_last=True)
            )
        self._heartbeat_at = now_ms + HEARTBEAT_MS

    def _begun(self) -> WatcherProgress | None:
        """Continue after the last copied entry. If another watcher copied it, return the progress of that watcher."""
        name, last = self._store.store_id, self._last
        is_same_topic = last is not None and last.topic_id == self._store.info("topic_id")
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
            progress = {"topic_id": self._store.info("topic_id"), "until": self._until}
            headers.append((PROGRESS_HEADER, json.dumps(progress, separators=(",", ":")).encode()))
        return headers


def _is_shipped(one: PlacedEntry, last: WatcherProgress | None) -> bool:
    if last is None:
        return False
    if one.partition < 0:  # the journal entry has no record in ``__consumer_offsets``
        return one.entry.at_ms <= last.at_ms
    return (one.offset, one.nth) < last.until.get(one.partition, (-1, 0))


def progress_of(record: Record) -> WatcherProgress | None:
    """Return a watcher's progress from the headers of a journal record; None if no watcher wrote the record."""
    headers = dict(record.headers)
    store, slash, entry_id = (headers.get(HEADER) or b"").decode("ascii", "replace").partition("/")
    if not slash or not entry_id.isdecimal() or len(entry_id) >= DIGITS_END:
        return None
    topic_id, until = "", {}
    try:
        progress = json.loads(headers.get(PROGRESS_HEADER) or b"{}")
        topic_id = str(progress["topic_id"])
        until = {int(partition): (int(at), int(nth)) for partition, (at, nth) in progress["until"].items()}
    except MISFITS:
        pass  # if the journal record has no valid progress header, the watcher's read offsets are unknown
    return WatcherProgress(store, int(entry_id), topic_id, until, record.timestamp_ms)


def _check_not_kept(admin: Admin) -> None:
    node = ConfigResource("broker", str(admin.describe_cluster(timeout_ms=ADMIN_MS).controller_id))
    options = admin.describe_configs([node], timeout_ms=ADMIN_MS)
    if node not in options.errors and KOHORT_ONLY_OPTION in options[node]:
        raise UsageError(f"the brokers of this cluster are kohort's and write {TOPIC} themselves: omit --to-topic")


def _make_topic(admin: Admin, name: str, retention_ms: int) -> None:
    topic = NewTopic(name, 1, -1, {**TOPIC_OPTIONS, "retention.ms": str(retention_ms)})
    error = admin.create_topics([topic], check=False, timeout_ms=ADMIN_MS).errors.get(name)
    if error is not None and not (isinstance(error, ApiError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KohortError(f"cannot create the journal topic {name}: {error}") from error
    deadline = time.monotonic() + ADMIN_MS / 1000
    while name in admin.describe_topics([name], timeout_ms=ADMIN_MS).errors:
        if time.monotonic() > deadline:
            raise ApiTimeout(f"created the journal topic {name}, but it has no leader after {ADMIN_MS // 1000} s")
        time.sleep(0.1)


def last_record(consumer: Consumer, topic: str) -> Record | None:
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    begin = consumer.beginning_offsets([place], timeout_ms=ADMIN_MS)[place]
    end = consumer.end_offsets([place], timeout_ms=ADMIN_MS)[place]
    reach, last = TAIL_OFFSETS, None
    while last is None and end > begin:
        at = max(begin, end - reach)
        consumer.seek(place, at)
        deadline = time.monotonic() + ADMIN_MS / 1000
        while consumer.position(place, timeout_ms=ADMIN_MS) < end:
            last = next(reversed(consumer.poll(500)), last)
            if time.monotonic() > deadline:
                raise ApiTimeout(f"cannot read the journal topic {topic} to its end within {ADMIN_MS // 1000} s")
        if at == begin:
            break
        reach *= 10
    return last
