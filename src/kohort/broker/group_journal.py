"""The topic ``__kohort_journal``: events of groups, readable by any consumer.

Each node writes the events of its groups, even if a different node leads the partition, and notifies that leader.
Events of quiet types are delayed: they are written with the next event of another type, when many of them wait, or
when a client reads the topic.

Record key: the group id. Record value: one event as JSON (kohort.coordinator.journal). The topic has one partition,
retained for seven days or a gibibyte. A failed write is logged and delays no group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.nodes import PartitionAppended
from kohort.broker.first_fetches import CommittedOf
from kohort.coordinator.journal import TOPIC, JournalEntry, build_entry
from kohort.coordinator.journal_events import held_bytes
from kohort.coordinator.records import moved_entry
from kohort.errors import KohortError
from kohort.log.topics import Topic
from kohort.notes import Note, warning
from kohort.wire.record_batch import NewRecord, build_batch

RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
BATCH_BYTES: Final = 1 << 19
MESSAGE_MAX_BYTES: Final = 1 << 24
WAITING_MOST: Final = 1_000
WAITING_MOST_BYTES: Final = 1 << 20
RETENTION_BYTES: Final = 1 << 30
SEGMENT_BYTES: Final = 64 << 20


class GroupJournal:
    name = TOPIC

    def __init__(self, cluster: Cluster, committed: CommittedOf) -> None:
        self._cluster = cluster
        self._committed = committed
        self._waiting: list[JournalEntry] = []
        self._waiting_bytes = 0
        self._unreported: list[Note] = []
        """Log lines about failed writes in ``ensure_flushed``, which the next ``append`` returns."""

    def ensure(self, now_ms: int) -> Topic:
        """Return the topic ``__kohort_journal``; create it if missing. Raises KohortError."""
        topic = self._cluster.topics.get(TOPIC)
        if topic is not None:
            return topic
        overrides = {
            "cleanup.policy": "delete",
            "retention.ms": str(RETENTION_MS),
            "retention.bytes": str(RETENTION_BYTES),
            "segment.bytes": str(SEGMENT_BYTES),
            "max.message.bytes": str(MESSAGE_MAX_BYTES),
        }
        return self._cluster.topics.create(TOPIC, 1, overrides, now_ms, internal=True)

    def append(self, entries: Sequence[JournalEntry], now_ms: int, *, last: bool = False) -> list[Note]:
        """Write group events to the topic ``__kohort_journal``; return log lines about failed writes.

        Events of quiet types are delayed, unless ``last`` or many of them wait.
        """
        self._cluster.first_fetches.follow(entries, self._committed)
        self._waiting += entries
        self._waiting_bytes += sum(map(held_bytes, entries))
        notes, self._unreported = self._unreported, []
        has_room = len(self._waiting) < WAITING_MOST and self._waiting_bytes < WAITING_MOST_BYTES
        if not last and all(entry.QUIET for entry in entries) and has_room:
            return notes
        return [*notes, *self.flush(now_ms)]

    def flush(self, now_ms: int) -> list[Note]:
        """Write the delayed group events to ``__kohort_journal``; return log lines about failed writes."""
        entries, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not entries:
            return []
        try:
            topic = self.ensure(now_ms)
            ahead_ms = self._cluster.wall.ahead_ms
            for records in _by_size([moved_entry(entry, ahead_ms) for entry in entries]):
                batch = build_batch(records)
                topic.partitions[0].append(batch, now_ms, from_client=False)
                leader = self._cluster.leader_of(topic, 0)
                self._cluster.notify_node(leader, PartitionAppended((topic.topic_id, 0), len(batch)))
        except KohortError as error:
            return [warning(f"{len(entries)} journal entries are lost: {error}", "journal")]
        return []

    def ensure_flushed(self, now_ms: int) -> Topic:
        """Write the delayed group events, then return the topic ``__kohort_journal``. Raises KohortError."""
        topic = self.ensure(now_ms)
        self._unreported += self.flush(now_ms)
        return topic


def _by_size(entries: Sequence[JournalEntry]) -> Iterator[list[NewRecord]]:
    """Build the records of group events for ``__kohort_journal``, in batches of limited size."""
    lot: list[NewRecord] = []
    size = 0
    for entry in entries:
        record = NewRecord(entry.group.encode("utf-8", "surrogatepass"), build_entry(entry), (), entry.at_ms)
        if lot and size + len(record.value or b"") > BATCH_BYTES:
            yield lot
            lot, size = [], 0
        lot.append(record)
        size += len(record.value or b"")
    if lot:
        yield lot
