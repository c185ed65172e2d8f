"""Watcher of a cluster's groups: reads ``__consumer_offsets``, polls group states, writes the journal file.

A watcher works on every cluster with Apache Kafka's protocol. It needs the READ permission on ``__consumer_offsets``.
It joins no group. It writes to the cluster only for ``kohort watch --to-topic``, and only to the journal topic.
One thread calls ``step`` repeatedly. Entries that ``step`` returns are already saved.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kohort.aio.admin import Admin
from kohort.aio.consuming.consumer import Consumer
from kohort.client.admin.model import TopicDescription
from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.records import partition_of
from kohort.errors import ApiError, ApiTimeout, ErrorCode, KohortError
from kohort.insight.observed.watching import ObservedGroups, WatchLimits
from kohort.model import Record, TopicPartition
from kohort.watch.cluster_queries import ADMIN_MS, WatcherQueries
from kohort.watch.sampling import list_all_groups
from kohort.watch.store import PlacedEntry, WatchStore

WINDOW_MS: Final = 300_000


@dataclass(slots=True)
class _Least:
    since_ms: int
    now: int
    earlier: int | None = None


class Lateness:
    """Shortest delay from a record's timestamp to its arrival, for each partition, in the last two time windows."""

    def __init__(self) -> None:
        self._found: dict[int, _Least] = {}

    def add(self, partition: int, written_ms: int, read_ms: int) -> None:
        if written_ms < 0:
            return
        late_ms, known = read_ms - written_ms, self._found.get(partition)
        if known is None:
            self._found[partition] = _Least(read_ms, late_ms)
        elif not 0 <= read_ms - known.since_ms < WINDOW_MS:
            known.since_ms, known.earlier, known.now = read_ms, known.now, late_ms
        elif late_ms < known.now:
            known.now = late_ms

    def of(self, partition: int) -> int | None:
        known = self._found.get(partition)
        if known is None:
            return None
        return known.now if known.earlier is None else min(known.now, known.earlier)


OFFSETS_TOPIC: Final = "__consumer_offsets"
FETCH_WAIT_MS: Final = 500
"""Longest time that a broker waits for records before it answers a fetch, in ms."""
CONSUMER_OPTIONS: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
    "max.poll.records": 5_000,
    "fetch.min.bytes": 65_536,
    "fetch.max.wait.ms": FETCH_WAIT_MS,
    "fetch.max.bytes": 4 << 20,
    "max.partition.fetch.bytes": 256 << 10,
}
DESCRIBED_AT_ONCE: Final = 200
POLL_AGAIN_MS: Final = 10_000
"""Delay from a failed poll of group states to the next poll, in ms."""
OUTAGE_MS: Final = 3_000
"""Shortest poll of group states, in ms, that counts as an outage: the client retried until a broker responded."""
CONTACT_POLL_MS: Final = 30_000
"""Longest poll interval, in ms, at which polls of group states alone show whether the cluster is reachable."""
PRUNE_MS: Final = 60_000
REPORT_AGAIN_MS: Final = 3_600_000
"""Interval between two messages about ignored or unreadable records, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    poll_ms: int = 2_000
    """Interval in ms between polls of group states; 0 means no polls. The polls show how long rebalances take."""
    save_ms: int = 5_000
    """Maximum time between two saves of the watcher's state, in ms."""
    limits: WatchLimits = field(default_factory=WatchLimits)


class GroupWatcher:
    """Watcher of one cluster. It has a consumer with ``CONSUMER_OPTIONS``, an admin client and a store.

    The caller closes all three.
    """

    def __init__(
        self, consumer: Consumer, admin: Admin, store: WatchStore, options: WatchOptions | None = None
    ) -> None:
        self._consumer, self._admin, self._store = consumer, admin, store
        self._options = options or WatchOptions()
        self.groups = ObservedGroups(self._options.limits)
        self.is_caught_up = False
        self.queries = WatcherQueries(admin, self.groups)
        self.notes = self.queries.notes
        """Messages about failed queries, which did not stop the watcher."""
        self.records = 0
        self._ends: dict[TopicPartition, int] = {}
        self._next: dict[int, int] = {}
        self._unsaved: list[PlacedEntry] = []
        self._late = Lateness()
        self._losses: tuple[int, int] = (0, 0)
        self._losses_at = self._poll_failed_at = 0
        self.contact_ms = _now_ms()
        """Time of the watcher's last contact with the cluster, in ms since 1970."""
        self._poll_at = self._save_at = self._prune_at = 0
        self._is_whole = False
        """True if entries, group states and offsets in memory match; nothing is saved after an interrupted step."""

    def open(self) -> bool:
        """Continue reading ``__consumer_offsets`` at the saved offsets; return False if the topic does not exist yet.

        Raises KohortError if the permission to read the topic is missing, StorageError if the file is unusable.
        """
        info = _describe_offsets_topic(self._admin)
        if info is None:
            return False
        if self._store.info("topic_id") not in (None, info.topic_id.hex()):
            self._store.forget()
            self.notes.append(f"{OFFSETS_TOPIC} was recreated: the journal restarts")
        self._store.set_info("topic_id", info.topic_id.hex())
        if self._store.info("since_ms") is None:
            self._store.set_info("since_ms", str(_now_ms()))
        self._restore()
        self.queries.node_id = info.partitions[0].leader_id
        partitions = [TopicPartition(OFFSETS_TOPIC, p.partition) for p in info.partitions]
        self._consumer.assign(partitions)
        known = self._store.positions()
        for partition in partitions:
            if partition.partition in known:
                self._consumer.seek(partition, known[partition.partition])
            else:
                self._consumer.seek_to_beginning([partition])
        self._ends = self._consumer.end_offsets(partitions, timeout_ms=ADMIN_MS)
        self._is_whole = True
        return True

    def _restore(self) -> None:
        try:
            self.groups.restore(self._store.groups(), self._store.commits())
        except ValueError:
            self.groups = self.queries.groups = ObservedGroups(self._options.limits)
            self._store.forget_positions()
            self.notes.append("persisted state is of another version of kohort: all records are read again")

    def step(self, timeout_ms: int = 500) -> list[JournalEntry]:
        """Read ``__consumer_offsets`` for up to ``timeout_ms``, poll group states if due, and save new entries.

        Returns the new journal entries, which are already saved. Raises KohortError if a broker rejects a request,
        StorageError if the file is unusable.
        """
        records = self._consumer.poll(timeout_ms)
        now_ms, self._is_whole = _now_ms(), False
        new = self._process(records, now_ms)
        self._is_whole = True
        return new

    def _process(self, records: list[Record], now_ms: int) -> list[JournalEntry]:
        self._take_records(records, now_ms)
        if not self.is_caught_up and self._is_at_the_ends():
            self.is_caught_up = True
            settled = self.groups.caught_up(now_ms)
            self._unsaved += [PlacedEntry(entry, -1, -1, i) for i, entry in enumerate(settled)]
        if self.is_caught_up and self._options.poll_ms and now_ms >= self._poll_at:
            self._poll_at = now_ms + self._options.poll_ms
            self._poll_states(now_ms)
        self._report_losses(now_ms)
        return self._save(now_ms) if self._unsaved or now_ms >= self._save_at else []

    def finish(self) -> None:
        """Save the watcher's state. After an interrupted step nothing is saved; the next watcher repeats the step."""
        if self._is_whole:
            self._is_whole = False
            self._save(_now_ms())

    def _take_records(self, records: list[Record], now_ms: int) -> None:
        self.records += len(records)
        if records or not 0 < self._options.poll_ms <= CONTACT_POLL_MS:
            self.contact_ms = now_ms
        self.queries.learn_names(records, now_ms)
        self.queries.learn_session_timeouts(records, now_ms)
        if self.is_caught_up:
            for record in records:
                self._late.add(record.partition, record.timestamp_ms, now_ms)
        for record in records:
            late_ms = self._late.of(record.partition)
            found = self.groups.take(record.key, record.value, record.timestamp_ms, record.leader_epoch, late_ms)
            self._next[record.partition] = record.offset + 1
            if found:
                self._unsaved += [PlacedEntry(e, record.partition, record.offset, i) for i, e in enumerate(found)]

    def _is_at_the_ends(self) -> bool:
        left = {p: end for p, end in self._ends.items() if self._consumer.position(p, timeout_ms=ADMIN_MS) < end}
        self._ends = left
        return not left

    def _report_losses(self, now_ms: int) -> None:
        lost = self.groups.left_out, self.groups.unread
        if lost == self._losses or now_ms < self._losses_at:
            return
        (left_out, unread), before = lost, self._losses
        self._losses, self._losses_at = lost, now_ms + REPORT_AGAIN_MS
        if left_out > before[0]:
            most = self._options.limits
            self.notes.append(
                f"skipped {left_out} records beyond the limits ({most.groups} groups, {most.commits} partitions): "
                "raise --max-groups or --max-partitions"
            )
        if unread > before[1]:
            self.notes.append(f"skipped {unread} records of {OFFSETS_TOPIC} of an unknown type")

    def _save(self, now_ms: int) -> list[JournalEntry]:
        unsaved, self._unsaved = self._unsaved, []
        self._store.save(unsaved, self._next, self.groups.take_changed(), self.contact_ms)
        self._next = {}
        self._save_at = now_ms + self._options.save_ms
        if now_ms >= self._prune_at:
            self._prune_at = now_ms + PRUNE_MS
            self._store.prune(now_ms)
        return [one.entry for one in unsaved]

    def _poll_states(self, now_ms: int) -> None:
        try:
            from_ms = _now_ms()
            states = {g.group_id: g.state for g in list_all_groups(self._admin, ADMIN_MS).groups}
            until_ms = _now_ms()
            if self._poll_failed_at or until_ms - from_ms >= OUTAGE_MS:
                self.groups.note_outage(until_ms)
            begun = self.groups.take_states(states, from_ms, until_ms + FETCH_WAIT_MS)
            self.contact_ms, self._poll_failed_at = now_ms, 0
            if not begun:
                return
            described = self._admin.describe_groups(begun[:DESCRIBED_AT_ONCE], timeout_ms=ADMIN_MS)
        except KohortError as error:
            self._poll_at = now_ms + POLL_AGAIN_MS
            if now_ms - self._poll_failed_at >= REPORT_AGAIN_MS:
                self._poll_failed_at = now_ms
                self.notes.append(f"cannot poll group states, so durations of rebalances are unknown: {error}")
            return
        for name in described:
            if name not in described.errors:
                info = described[name]
                ids = [member.member_id for member in info.members]
                self.groups.take_members(name, info.state, ids, _now_ms() + FETCH_WAIT_MS)


def _describe_offsets_topic(admin: Admin) -> TopicDescription | None:
    """Describe ``__consumer_offsets``; None if it does not exist. Raises ApiError if READ is not granted."""
    found = admin.describe_topics([OFFSETS_TOPIC], timeout_ms=ADMIN_MS)
    error = found.errors.get(OFFSETS_TOPIC)
    if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if isinstance(error, ApiError) and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise ApiError(
            error.code,
            f"watching groups needs the READ permission on the topic {OFFSETS_TOPIC},"
            f" which some services never grant ({error})",
        ) from error
    return found[OFFSETS_TOPIC]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


POLL_MS: Final = 500


class GroupHistory(NamedTuple):
    """Journal entries of a group, time of its oldest record (None: no record), and messages about failed queries."""

    entries: list[JournalEntry]
    since_ms: int | None
    notes: list[str]


def read_group_history(consumer: Consumer, admin: Admin, group: str) -> GroupHistory | None:
    """Read the journal entries of one group from ``__consumer_offsets``; None if that topic does not exist yet.

    The consumer needs ``CONSUMER_OPTIONS``. Raises ApiError if the permission to read is missing, ApiTimeout if the
    read does not reach the log end in time.
    """
    info = _describe_offsets_topic(admin)
    if info is None:
        return None
    groups = ObservedGroups()
    queries = WatcherQueries(admin, groups)
    queries.node_id = info.partitions[0].leader_id
    partition = TopicPartition(OFFSETS_TOPIC, partition_of(group, len(info.partitions)))
    consumer.assign([partition])
    consumer.seek_to_beginning([partition])
    end = consumer.end_offsets([partition], timeout_ms=ADMIN_MS)[partition]
    entries: list[JournalEntry] = []
    since_ms: int | None = None
    now_ms = _now_ms()
    deadline = time.monotonic() + ADMIN_MS / 1000
    while consumer.position(partition, timeout_ms=ADMIN_MS) < end:
        records = consumer.poll(POLL_MS)
        queries.learn_names(records, now_ms)
        queries.learn_session_timeouts(records, now_ms)
        for record in records:
            new = groups.take(record.key, record.value, record.timestamp_ms, record.leader_epoch)
            entries += (entry for entry in new if entry.group == group)
            if since_ms is None and groups.knows(group):
                since_ms = record.timestamp_ms
        if records:
            deadline = time.monotonic() + ADMIN_MS / 1000
        elif time.monotonic() > deadline:
            raise ApiTimeout(f"cannot read {partition} to its end within {ADMIN_MS // 1000} s")
    entries += (entry for entry in groups.caught_up(now_ms) if entry.group == group)
    return GroupHistory(entries, since_ms, queries.notes)
