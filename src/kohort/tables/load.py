"""Load topics into a table as a member of a group: buffer rows, commit them to the table, then to the group."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kohort.aio.consuming.consumer import Consumer
from kohort.aio.consuming.record_reader import TakenRange, layout_of
from kohort.aio.system import SystemClock
from kohort.errors import ApiTimeout, CommitFailed, CorruptRecord, TableError, UsageError, Wakeup
from kohort.model import SubscriptionPattern, TopicPartition, uuid_to_text
from kohort.tables.rows import BufferedRows, Limits, Transform
from kohort.tables.sink import Fenced, OffsetStep, TableSink, TopicLife

LOG: Final = logging.getLogger("kohort.tables")
POLL_MS: Final = 1000
POLL_AT_END_MS: Final = 100


@dataclass(slots=True)
class Loaded:
    """Result of ``load``: rows and commits in the table, and rows that a fenced commit dropped to read them again."""

    rows: int = 0
    commits: int = 0
    fenced_rows: int = 0


def load(
    consumer: Consumer,
    topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
    sink: TableSink,
    *,
    commit_rows: int = 1_000_000,
    commit_bytes: int = 256 << 20,
    commit_ms: int = 60_000,
    until_end: bool = False,
    transform: Transform | None = None,
    accept_recreated: Iterable[str] = (),
    **decoding: Any,
) -> Loaded:
    """Append the records of topics to a table, each exactly once, as a member of the consumer's group.

    The table holds the next offset of each partition, set in the commit that appends the rows; then the group's offsets
    are committed. A partition starts at the table's offset. If the table has none, it starts at the group's offset,
    else by ``auto.offset.reset``. The consumer must have ``enable_auto_commit=False``; ``load`` subscribes it, and
    unsubscribes it at the end.

    Commits after ``commit_rows`` rows, ``commit_bytes`` bytes in Arrow's format, or ``commit_ms`` milliseconds since
    the first row, whichever is first; also before partitions are revoked, and at the end. ``until_end`` ends at the end
    offsets at the time of the assignment; without it ``consumer.wakeup()`` ends the load after a last commit.
    ``transform`` converts a ``pyarrow.Table`` of records, and is first called with an empty one for its columns;
    ``decoding`` are the arguments of ``poll_arrow`` for columns and values: ``columns``, ``json``, ``avro`` and so on.
    ``accept_recreated`` names topics that may be deleted and created again.

    Returns the numbers of rows and commits. Raises TableError for rows that do not fit the table, for offsets of
    another group or of an earlier topic, and for a log that was truncated before the table's offset; UsageError for
    invalid arguments; errors as ``poll_arrow``. Rows before a corrupt record or undecodable value are committed first.

    Guide: docs/guides/tables.md.
    """
    if not isinstance(consumer, Consumer) or not isinstance(sink, TableSink):
        raise UsageError(f"load: expected a kohort.Consumer and a sink of kohort.tables, not {consumer!r} and {sink!r}")
    if consumer.config.enable_auto_commit:
        raise UsageError("load: the consumer needs enable_auto_commit=False: load commits after the table's commit")
    if consumer.config.group_id is None:
        raise UsageError("load: the consumer needs a group_id: the table's offsets belong to a group")
    limits = Limits.of(commit_rows=commit_rows, commit_bytes=commit_bytes, commit_ms=commit_ms)
    names = [accept_recreated] if isinstance(accept_recreated, str) else list(accept_recreated)
    rows = BufferedRows(layout_of(**{"schema": None, "columns": None, "json": None} | decoding).schema, transform)
    with sink.explained("open or create the table"):
        sink.open(rows.schema)
    return TableLoad(consumer, sink, rows, limits, accept_recreated=names, until_end=until_end).run(topics, decoding)


@dataclass(slots=True)
class OwnedPartition:
    """An assigned partition: the table's offset, the next offset behind the buffered rows, the offset to stop at."""

    source: TopicLife
    stored: int | None
    target: int | None
    sought: int | None = None
    """Offset at which reading began: the table's, or the log start behind it."""
    first: int | None = None
    """Offset of the first buffered record, to which a fenced member returns if the table has no offset."""
    end: int | None = None

    @property
    def has_progress(self) -> bool:
        return self.end is not None and self.end != self.stored


@dataclass(slots=True)
class TableLoad:
    """One run of ``load``. Its methods ``on_partitions_...`` are the consumer's rebalance listener."""

    consumer: Consumer
    sink: TableSink
    rows: BufferedRows
    limits: Limits
    accept_recreated: list[str]
    until_end: bool
    loaded: Loaded = field(default_factory=Loaded)
    owned: dict[TopicPartition, OwnedPartition] = field(default_factory=dict)
    clock: SystemClock = field(default_factory=SystemClock)
    is_assigned: bool = False
    is_over: bool = False

    def run(self, topics: Any, decoding: dict[str, Any]) -> Loaded:
        self.consumer.subscribe(topics, listener=self)
        try:
            while self._step(decoding):
                pass
        except Wakeup:  # raised by a poll, a listener or a group commit
            with suppress(Wakeup):
                self._commit()
        finally:
            self.is_over = True
            self.rows.clear()
            self.consumer.unsubscribe()
        return self.loaded

    def _step(self, decoding: dict[str, Any]) -> bool:
        """Commit if a commit is due, then poll. Return False at the end of the load."""
        if self.limits.are_reached(self.rows, self.clock.now_ms()):
            self._commit()
        if self._is_at_end() and self._commit():
            return False
        try:
            table = self.consumer.poll_arrow(self._wait_ms(), max_bytes=self.limits.poll_bytes, **decoding)
        except CorruptRecord:
            self._commit()
            raise
        self._take(table)
        return True

    def _take(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        for taken in self.consumer._reader.taken:
            self._advance(self.owned[taken.partition], taken)
        self.rows.add(table, self.clock.now_ms())

    def _advance(self, owned: OwnedPartition, taken: TakenRange) -> None:
        place, source = taken.partition, owned.source
        if taken.topic_id is not None and uuid_to_text(taken.topic_id) != source.topic_id:
            raise TableError(f"topic {place.topic!r} was deleted and created again during the load: load again")
        before = owned.sought if owned.end is None else owned.end
        if before is not None and taken.start < before:
            raise TableError(_truncated(place, before, taken.start))
        if before is not None and taken.start > before and self.consumer.config.auto_offset_reset != "earliest":
            self._refuse_reset(place, before, taken.start)
        owned.first = taken.start if owned.first is None else owned.first
        owned.end = taken.end

    def _refuse_reset(self, place: TopicPartition, before: int, start: int) -> None:
        """Raise TableError if the gap before ``start`` is a reset past records that the log still has.

        Control records leave gaps too, but the log start is then not behind ``before``.
        """
        self.is_over = True  # a wakeup during the request must not commit the gap
        if start > self.consumer.beginning_offsets([place])[place] > before:
            raise TableError(
                f"{place}: retention deleted records from offset {before} on during the load, and auto.offset.reset"
                f" moved it to {start}: load again, to continue at the log start; or set auto_offset_reset='earliest'"
            )
        self.is_over = False

    def _wait_ms(self) -> int:
        most_ms = POLL_AT_END_MS if self.until_end else POLL_MS
        return min(most_ms, self.limits.left_ms(self.rows, self.clock.now_ms()))

    def _is_at_end(self) -> bool:
        if not (self.until_end and self.is_assigned):
            return False
        return all(self._is_read(place, owned) for place, owned in self.owned.items())

    def _is_read(self, place: TopicPartition, owned: OwnedPartition) -> bool:
        target = owned.target or 0
        if owned.end is not None and owned.end >= target:
            return True
        try:
            return self.consumer.position(place, timeout_ms=0) >= target  # past control records, too
        except ApiTimeout:
            return False  # position request in flight

    def _commit(self) -> bool:
        """Commit the buffered rows to the table, then the positions to the group. Return False if fenced.

        A fenced member drops its rows and returns to the table's offsets: another member committed the rows.
        """
        count = 0 if self.is_over else self.rows.count
        if count:
            moved = {place: owned for place, owned in self.owned.items() if owned.has_progress}
            steps = [OffsetStep(o.source, place.partition, o.stored, o.end or 0) for place, o in moved.items()]
            try:
                with self.sink.explained("commit rows"):
                    self.sink.commit(self.rows.table(), steps, self.accept_recreated)
            except Fenced as fenced:
                LOG.warning("%s: %s; dropping %d rows, to read from there", self.sink.name, fenced, count)
                self.loaded.fenced_rows += count
                self._return_to_table()
                return False
            except BaseException:
                self.is_over = True  # the positions are past rows that may not be in the table: never commit them
                raise
            for owned in moved.values():
                owned.stored, owned.sought, owned.first = owned.end, owned.end, None
            self.loaded.rows += count
            self.loaded.commits += 1
            LOG.info("committed %d rows to %s", count, self.sink.name)
        self.rows.clear()
        if self.owned and not self.is_over:
            self._commit_group()
        return True

    def _commit_group(self, offsets: dict[TopicPartition, int] | None = None) -> None:
        """Commit offsets of the group (default: all positions). May fail, because the table's offsets count."""
        try:
            self.consumer.commit(offsets)
        except (CommitFailed, ApiTimeout) as error:
            LOG.warning("the group's offsets stay behind the table's until the next commit: %s", error)

    def _return_to_table(self) -> None:
        self.rows.clear()
        with self.sink.explained("read the offsets"):
            self.sink.refresh()
        for place, owned in self.owned.items():
            owned.stored = self.sink.offset(owned.source, place.partition)
            back_to = owned.first if owned.stored is None else owned.stored
            owned.first = owned.end = None
            owned.sought = back_to
            if back_to is not None:
                self.consumer.seek(place, back_to)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if self.is_over:
            return
        self.is_assigned = True
        if not partitions:
            return
        with self.sink.explained("read the offsets"):
            self.sink.refresh()
        starts = self.consumer.beginning_offsets(partitions)
        ends = self.consumer.end_offsets(partitions)
        for place in partitions:
            source = self._source(place.topic)
            self.sink.check(source, self.accept_recreated)
            stored = self.sink.offset(source, place.partition)
            sought = None if stored is None else self._start_at(place, stored, starts[place], ends[place])
            self.owned[place] = OwnedPartition(source, stored, ends[place] if self.until_end else None, sought)
        committed = self.consumer.committed(partitions)
        stored_offsets = {place: self.owned[place].stored for place in partitions}
        behind = {
            place: stored
            for place, stored in stored_offsets.items()
            if stored is not None and ((at := committed[place]) is None or at.offset < stored)
        }
        if behind:
            self._commit_group(behind)

    def _start_at(self, place: TopicPartition, stored: int, log_start: int, log_end: int) -> int:
        if stored > log_end:
            raise TableError(_truncated(place, stored, log_end))
        if stored < log_start and self.consumer.config.auto_offset_reset != "none":
            lost = log_start - stored
            LOG.warning("%s: retention deleted %d offsets before the table got them: %d on", place, lost, stored)
            stored = log_start
        self.consumer.seek(place, stored)
        return stored

    def _source(self, topic: str) -> TopicLife:
        config, waits, metadata = self.consumer.config, self.consumer._waits, self.consumer._machine.metadata
        self.consumer.partitions_for(topic)  # waits for the topic's metadata
        cluster_id = waits.wait(lambda: metadata.cluster_id, config.default_api_timeout_ms)
        if cluster_id is None:
            raise ApiTimeout("no broker returned the id of its cluster in time")
        topic_id = metadata.topic_id(topic)
        return TopicLife(config.group_id or "", cluster_id, topic, "" if topic_id is None else uuid_to_text(topic_id))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        try:
            if not self.is_over:
                self._commit()
        finally:
            self._forget(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        dropped = self.rows.count
        self._forget(partitions)
        if not self.is_over:
            if dropped:
                LOG.warning("the group removed this member: dropping %d rows of %s", dropped, self.sink.name)
                self.loaded.fenced_rows += dropped
            self._return_to_table()

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self.owned.pop(place, None)
        self.is_assigned = bool(self.owned)


def _truncated(place: TopicPartition, stored: int, found: int) -> str:
    return (
        f"{place}: the table has its records up to offset {stored}, but the log continues at {found}: it was truncated."
        " The table may hold records that the log lost; load the topic into another table"
    )
