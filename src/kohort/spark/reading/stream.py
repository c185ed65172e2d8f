"""Streaming reader. It plans the micro-batches of a query and commits their offsets to the group.

Spark calls ``commit(end)`` one micro-batch late, and never for the last micro-batch. It calls
``latestOffset(start, ...)`` at every trigger; ``start`` is the end of the last completed micro-batch. So the reader
commits ``start`` in that call, and the lag reaches 0.
Spark calls ``initialOffset`` again if it retries micro-batch 0 after a restart; the log may have grown since the first
call. So the reader commits the first result to the group at once, with a mark in the commit metadata.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kohort.errors import KohortError
from kohort.spark.options.offsets import PartitionOffsets, as_json, plan_tasks, ranges_between
from kohort.spark.options.source import SourceOptions
from kohort.spark.reading import log_changes
from kohort.spark.reading.bounds import BatchLimits, resolve
from kohort.spark.reading.cluster import Connect, SourceCluster, connect, selected_partitions
from kohort.spark.reading.group_commits import GroupCommits, query_mark, query_of
from kohort.spark.reading.log_changes import LogChanges, TopicIds, hex_ids, recreated_topics
from kohort.spark.reading.ranges import ReadTask, read_ranges
from kohort.spark.values.row_builders import RowBuilder

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class KohortStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    """Reader of one query. The driver plans micro-batches; workers call ``read`` on unpickled copies."""

    def __init__(self, options: SourceOptions, builder: RowBuilder, connect: Connect = connect) -> None:
        self._options = options
        self._builder = builder
        self._connect = connect
        self._group = GroupCommits(options, lambda: self._cluster, query_mark(options.group_owner))
        self._limits = BatchLimits(options, time.monotonic, time.sleep)
        self._changes = LogChanges(fail=options.fail_on_data_loss)
        self._initial: PartitionOffsets | None = None
        self._started_at_latest: PartitionOffsets = {}
        self._heads: PartitionOffsets = {}
        self._available_now = False
        self._target: PartitionOffsets | None = None
        self._planned = False
        self._planned_end: Mapping[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_builder": self._builder, "_connect": self._connect}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_builder"], state["_connect"])  # type: ignore[misc]  # starts without the driver's state

    @property
    def _cluster(self) -> SourceCluster:
        return self._connect(self._options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:
            self._initial = self._resolve_initial()
        return log_changes.with_ids(as_json(self._initial), self._ids_now(self._initial))

    def _resolve_initial(self) -> PartitionOffsets:
        cluster, options = self._cluster, self._options
        partitions = selected_partitions(cluster, options)
        committed = self._group.committed(partitions)
        pinned = {tp: o.offset for tp, o in committed.items() if o.metadata == self._group.pin_metadata}
        missing = partitions - set(pinned)
        fresh = resolve(cluster, missing, options.stream_start, "startingOffsets", committed, options.group_fallback)
        initial = pinned | fresh
        self._group.pin(initial, fresh=bool(fresh))
        word = options.group_fallback if options.stream_start == "group" else options.stream_start
        if word == "latest":
            self._started_at_latest = {tp: offset for tp, offset in fresh.items() if tp not in committed}
        if not options.commits and options.stream_start == "latest":
            log.warning(
                "without group.id, startingOffsets=latest is resolved again if the first micro-batch is repeated "
                "after a restart; give a group.id, which pins the start"
            )
        return initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a micro-batch. Spark passes the limit to ``latestOffset``; Trigger.Once ignores it."""
        rows, size = self._options.max_offsets_per_trigger, self._options.max_bytes_per_trigger
        if rows is not None or self._options.min_offsets_per_trigger is not None:
            return ReadMaxRows(rows or 2**62)
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        # Only set a flag: Spark's Kafka connector crashed when it requested end offsets in this method (SPARK-53560).
        self._available_now = True

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begin = self._standalone_offsets(start)
        self._group.commit_completed(begin, planned=self._planned)
        heads = self._end_of_log(begin)
        begin |= self._starts_of_new(begin, heads)
        begin |= self._changes.starts_after_loss(self._cluster, begin, heads, log_changes.ids_of(start))
        if isinstance(limit, ReadAllAvailable):
            end = heads
        else:
            end = self._limits.end(self._cluster, begin, heads, finite=self._available_now)
        # A partition without a new end offset ends at its start offset. The micro-batch reads none of its records.
        ends = {tp: max(offset, end.get(tp, offset)) for tp, offset in begin.items()}
        self._planned_end = log_changes.with_ids(as_json(ends), log_changes.ids_of(start) | self._ids_now(ends))
        return self._planned_end

    def _ids_now(self, partitions: PartitionOffsets) -> TopicIds:
        return hex_ids(self._cluster.topic_ids({tp.topic for tp in partitions}))

    @staticmethod
    def _standalone_offsets(offsets: Mapping[str, Any]) -> PartitionOffsets:
        """Return the offsets in a checkpoint. Raises KohortError for a checkpoint of member mode."""
        if query_of(offsets) is not None:
            raise KohortError(
                "this checkpoint was made with group.mode=member: keep that mode, or start with a new checkpoint"
            )
        return log_changes.partitions_of(offsets)

    def _end_of_log(self, begin: PartitionOffsets) -> PartitionOffsets:
        if self._target is not None:
            return self._target
        self._heads = self._read_heads(begin)
        if self._available_now:
            self._target = self._heads
            self._warn_if_nothing_to_read(self._heads)
        elif all(begin.get(tp) == head for tp, head in self._heads.items()):
            self._cluster.wait_for_records(self._heads, self._options.idle_wait_ms)
            self._heads = self._read_heads(begin)
        return self._heads

    def _warn_if_nothing_to_read(self, target: PartitionOffsets) -> None:
        """Warn if a new query reads no existing records, because it starts at the log end offsets."""
        starts, self._started_at_latest = self._started_at_latest, {}
        if not starts or any(starts.get(tp) != head for tp, head in target.items()):
            return
        available = sum(starts.values()) - sum(self._cluster.earliest(starts).values())
        if available:
            options = self._options
            how = "groupFallback=earliest" if options.stream_start == "group" else "startingOffsets=earliest"
            what = f"group {options.group_id} has no offsets" if options.group_id else "no start is given"
            log.warning(
                "no records to read: %s, so the query starts at the end of its topics, after their %s records. To read "
                "them, set %s and use a new checkpoint",
                what,
                f"{available:,}",
                how,
            )

    def _read_heads(self, begin: PartitionOffsets) -> PartitionOffsets:
        cluster = self._cluster
        # Accept missing topics: if a topic is deleted during the query, LogChanges applies failOnDataLoss.
        return cluster.latest(selected_partitions(cluster, self._options, absent_ok=bool(begin)))

    def _starts_of_new(self, begin: PartitionOffsets, heads: PartitionOffsets) -> PartitionOffsets:
        new = set(heads) - set(begin)
        if new:
            log.info("new partitions, read from their beginning: %s", ", ".join(map(str, sorted(new))))
        return self._cluster.earliest(new) if new else {}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return as_json(self._heads) if self._heads else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
        begin, upto = self._standalone_offsets(start), log_changes.partitions_of(end)
        begin |= self._starts_of_new(begin, upto)
        begin |= self._starts_of_replaced(begin, start, end)
        if end == self._planned_end:
            return self._plan(begin, upto, again={})
        # An earlier process of this query planned the micro-batch and did not complete it.
        upto = self._without_recreated(upto, end)
        return self._plan({tp: begin[tp] for tp in upto}, upto, again=upto)

    def _starts_of_replaced(
        self, begin: PartitionOffsets, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> PartitionOffsets:
        replaced = recreated_topics(log_changes.ids_of(start), log_changes.ids_of(end))
        partitions = [tp for tp in begin if tp.topic in replaced]
        return self._cluster.earliest(partitions) if partitions else {}

    def _without_recreated(self, upto: PartitionOffsets, end: Mapping[str, Any]) -> PartitionOffsets:
        """Remove recreated topics from the end offsets of a repeated micro-batch.

        The next micro-batch reads these topics from their beginning. Raises DataLost if failOnDataLoss is true.
        """
        if not log_changes.ids_of(end):
            return upto
        selected_partitions(self._cluster, self._options, absent_ok=True)
        replaced = self._changes.check_recreated(self._cluster, log_changes.ids_of(end))
        return {tp: offset for tp, offset in upto.items() if tp.topic not in replaced}

    def _plan(self, begin: PartitionOffsets, upto: PartitionOffsets, again: PartitionOffsets) -> list[ReadTask]:
        """Plan the tasks of a micro-batch. ``again``: offsets below which rows may be redelivered."""
        options = self._options
        if not options.fail_on_data_loss:
            recreated = [tp for tp in upto if begin[tp] > upto[tp]]
            begin |= self._cluster.earliest(recreated) if recreated else {}
        backwards = [f"{tp} from {begin[tp]} to {upto[tp]}" for tp in sorted(upto) if begin[tp] > upto[tp]]
        if backwards:
            raise KohortError(
                f"Spark requests end offsets below the start offsets: {'; '.join(backwards)}. The first "
                "micro-batch of this checkpoint was planned with other start offsets. Set group.id: the query then "
                "commits its start offsets"
            )
        self._planned = True
        ranges = [r._replace(redelivered_below=again.get(r.tp, 0)) for r in ranges_between(begin, upto)]
        return [ReadTask(r) for r in plan_tasks(ranges, options.task_rows, options.min_partitions)]

    def read(self, partition: ReadTask) -> Iterator[pa.RecordBatch]:
        fail = self._options.fail_on_data_loss
        return read_ranges(self._cluster, partition.ranges, self._builder, fail_on_data_loss=fail)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: ``latestOffset`` commits, because Spark calls this method one micro-batch late."""

    def stop(self) -> None:
        self._cluster.close()
