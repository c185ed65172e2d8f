"""Readers of a cluster's journal, for all commands and pages.

The journal is the topic ``__kohort_journal``, to which brokers or a watcher write. If the topic does not exist, the
journal is the file of a watcher on this machine. A reader returns the existing entries first, then new entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.coordinator.journal import TOPIC, JournalEntry
from kohort.errors import ApiError, ApiTimeout, ConfigError, ErrorCode
from kohort.insight.journal_reader import JOURNAL_OPTIONS, JournalReader
from kohort.model import TopicPartition
from kohort.watch.cluster_queries import ADMIN_MS
from kohort.watch.store import StoreReader, store_path
from kohort.watch.topic_journal import TAIL_OFFSETS, progress_of

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer

POLL_MS: Final = 500
OPTIONS: Final[Mapping[str, Any]] = {**JOURNAL_OPTIONS, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 200}
FILE_POLL_S: Final = 0.2
SLACK_MS: Final = 60_000
"""Assumed maximum time between an event and its journal entry, including clock differences, in ms."""
STALE_MS: Final = 120_000
"""Time in ms without contact to the cluster, after which a watcher counts as stopped."""


class JournalSource(Protocol):
    """Open journal of one group, or of all groups."""

    @property
    def until_ms(self) -> int | None:
        """Time of the watcher's last contact with the cluster, in ms since 1970; None if brokers write the entries."""

    @property
    def unread(self) -> int:
        """Number of unreadable journal records."""

    def read(self, within_s: float | None = None) -> list[JournalEntry]:
        """Return the entries up to the current end of the journal. Raises ApiTimeout after ``within_s`` seconds."""

    def wait(self, for_ms: int) -> list[JournalEntry]:
        """Wait for new journal entries for up to ``for_ms``; return an empty list if none arrive."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class JournalAccess:
    """Clients and settings for opening a journal. If given, the journal file ``store`` is read, not the topic."""

    consumer_with: Callable[[Mapping[str, Any]], Consumer]
    admin: Admin
    environ: Mapping[str, str]
    store: Path | None = None
    warn: Callable[[str], object] = lambda _: None
    topic: str = TOPIC


def open_journal(access: JournalAccess, group: str | None, since_ms: int | None = 0) -> JournalSource | None:
    """Open the journal of one group, or of all groups if ``group`` is None.

    The journal returns entries from about ``since_ms`` on, or only new entries if ``since_ms`` is None. Returns None if
    no journal is readable. Raises ConfigError if the file belongs to another cluster, StorageError if the file is
    unreadable.
    """
    if access.store is None:
        source = _on_the_cluster(access, group, since_ms)
        if source is not None:
            return source
    cluster_id = access.admin.describe_cluster(timeout_ms=ADMIN_MS).cluster_id
    path = access.store or store_path(cluster_id, access.environ)
    if access.store is None and not path.exists():
        return None
    reader = StoreReader(path)
    try:
        _check_cluster(reader, cluster_id)
        return _File(reader, group, since_ms)
    except BaseException:
        reader.close()
        raise


def _check_cluster(reader: StoreReader, cluster_id: str) -> None:
    stored_id = reader.info("cluster")
    if stored_id not in (None, cluster_id):
        raise ConfigError(
            f"{reader.path} is the journal of cluster {stored_id}, not of {cluster_id}: give another --store"
        )


def is_stale(source: JournalSource, now_ms: float) -> bool:
    """Return True if the journal comes from a watcher, and this watcher counts as stopped."""
    return source.until_ms is not None and now_ms - source.until_ms > STALE_MS


def _on_the_cluster(access: JournalAccess, group: str | None, since_ms: int | None) -> JournalSource | None:
    topic = access.topic
    topics = access.admin.describe_topics([topic], timeout_ms=ADMIN_MS)
    try:
        partitions = [TopicPartition(topic, one.partition) for one in topics[topic].partitions]
        consumer = access.consumer_with(OPTIONS)
        try:
            return _Topic(consumer, partitions, group, since_ms)
        except BaseException:
            consumer.close()
            raise
    except ApiError as error:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            access.warn(f"no permission to read the topic {topic}, if it exists ({error})")
        elif error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None


class _Topic:
    def __init__(
        self, consumer: Consumer, partitions: list[TopicPartition], group: str | None, since_ms: int | None
    ) -> None:
        self._consumer, self._partitions = consumer, partitions
        self._reader = JournalReader(group)
        self.until_ms: int | None = None
        # query log ends before the first fetch: a waiting fetch would delay the response on the same connection
        self._ends: dict[TopicPartition, int] | None = consumer.end_offsets(partitions, timeout_ms=ADMIN_MS)
        begins = consumer.beginning_offsets(partitions, timeout_ms=ADMIN_MS)
        self._from = self._start_offsets(since_ms, begins, self._ends)
        consumer.assign(partitions)
        for place, begin in begins.items():
            # the last records of each partition show whether brokers or a watcher write the journal
            consumer.seek(place, max(begin, min(self._from[place], self._ends[place] - TAIL_OFFSETS)))
        self._probe(self._ends)

    def _start_offsets(
        self, since_ms: int | None, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if since_ms is None:
            return ends
        if since_ms <= SLACK_MS:
            return begins
        at = dict.fromkeys(self._partitions, since_ms - SLACK_MS)
        found = self._consumer.offsets_for_times(at, timeout_ms=ADMIN_MS)
        first = {place: one.offset for place, one in found.items() if one is not None}
        return {place: first.get(place, end) for place, end in ends.items()}

    def _probe(self, ends: dict[TopicPartition, int]) -> None:
        deadline_s = time.monotonic() + ADMIN_MS / 1000
        while self._is_before(ends) and not self._poll(POLL_MS) and time.monotonic() < deadline_s:
            pass

    def _is_before(self, ends: dict[TopicPartition, int]) -> bool:
        return any(self._consumer.position(p, timeout_ms=ADMIN_MS) < end for p, end in ends.items())

    @property
    def unread(self) -> int:
        return self._reader.unread

    def read(self, within_s: float | None = None) -> list[JournalEntry]:
        ends, self._ends = self._ends, None
        if ends is None:
            ends = self._consumer.end_offsets(self._partitions, timeout_ms=ADMIN_MS)
        now_s = time.monotonic()
        last_s = None if within_s is None else now_s + within_s
        deadline_s = last_s or now_s + ADMIN_MS / 1000
        while self._is_before(ends):
            if self._poll(POLL_MS) and last_s is None:
                deadline_s = time.monotonic() + ADMIN_MS / 1000
            elif time.monotonic() > deadline_s:
                raise ApiTimeout(f"cannot read the journal topic to its end within {within_s or ADMIN_MS / 1000:g} s")
        return self._taken()

    def wait(self, for_ms: int) -> list[JournalEntry]:
        self._poll(for_ms)
        return self._taken()

    def _poll(self, for_ms: int) -> bool:
        records = self._consumer.poll(for_ms)
        for record in records:
            if record.offset >= self._from[TopicPartition(record.topic, record.partition)]:
                self._reader.add(record.key, record.value)
            self.until_ms = record.timestamp_ms if progress_of(record) is not None else None
        return bool(records)

    def _taken(self) -> list[JournalEntry]:
        entries, self._reader.entries = self._reader.entries, []
        return entries

    def close(self) -> None:
        self._consumer.close()


class _File:
    unread = 0

    def __init__(self, reader: StoreReader, group: str | None, since_ms: int | None) -> None:
        self._reader, self._group = reader, group
        self._last_id = reader.last_id() if since_ms is None else 0 if since_ms == 0 else reader.last_id(since_ms)

    @property
    def until_ms(self) -> int | None:
        return self._reader.until_ms or 0

    def read(self, within_s: float | None = None) -> list[JournalEntry]:  # noqa: ARG002 - reading a file needs no timeout
        found, self._last_id = self._reader.entries(self._group, self._last_id)
        return found

    def wait(self, for_ms: int) -> list[JournalEntry]:
        deadline_s = time.monotonic() + for_ms / 1000
        while not (found := self.read()) and time.monotonic() < deadline_s:
            time.sleep(min(FILE_POLL_S, max(0.0, deadline_s - time.monotonic())))
        return found

    def close(self) -> None:
        self._reader.close()
