"""Reads offset ranges in a Spark task, as Arrow batches with retries. The batch reader plans the tasks of a batch read.

In local mode Spark does not repeat failed tasks by default, so this module itself retries after retriable errors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.errors import ConfigError, KohortError
from kohort.model import TopicPartition
from kohort.spark.options.offsets import Loss, PartitionOffsets, Range, find_losses, plan_tasks, ranges_between
from kohort.spark.options.source import SourceOptions
from kohort.spark.reading.bounds import resolve
from kohort.spark.reading.cluster import Connect, RangeGone, SourceCluster, connect, selected_partitions
from kohort.spark.values.columns import REDELIVERED
from kohort.spark.values.row_builders import RowBuilder

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ATTEMPTS: Final = 5
_BACKOFF_S: Final = 0.2


@dataclass
class ReadTask(InputPartition):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    ranges: list[Range]


class DataLost(KohortError):
    """Error: records were deleted before the query read them, or the topic was recreated."""


def data_lost(losses: Sequence[Loss]) -> DataLost:
    lines = "; ".join(str(loss) for loss in losses)
    return DataLost(f"{lines}. To read the remaining records, set failOnDataLoss=false")


def read_ranges(
    cluster: SourceCluster, ranges: Sequence[Range], builder: RowBuilder, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for wanted in ranges:
        for batch in _read_range(cluster, wanted, builder.client_columns, fail_on_data_loss=fail_on_data_loss):
            if builder.marks_redelivered:
                batch = batch.append_column(REDELIVERED, pc.less(batch.column("offset"), wanted.redelivered_below))
            yield builder.build(batch)


def _read_range(
    cluster: SourceCluster, wanted: Range, columns: Sequence[str], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    at = wanted.start
    failures = 0
    while at < wanted.end:
        try:
            for batch in cluster.fetch(wanted._replace(start=at), columns):
                inside = rows_between(batch, at, wanted.end)
                if inside.num_rows:
                    at = inside.column("offset")[-1].as_py() + 1
                    failures = 0
                    yield inside
            at = wanted.end
        except RangeGone as deleted:
            at = _after_loss(cluster, wanted._replace(start=at), deleted, fail_on_data_loss=fail_on_data_loss)
        except KohortError as error:
            failures += 1
            if not error.retriable or failures >= ATTEMPTS:
                raise
            log.warning("%s: attempt %d failed, retrying from offset %d: %s", wanted, failures, at, error)
            time.sleep(_BACKOFF_S * 2 ** (failures - 1))


def rows_between(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Return the rows with offsets in [start, end).

    Offsets ascend within a batch and may have gaps.
    """
    low, high = batch.column("offset").to_numpy().searchsorted([start, end])
    return batch if high - low == batch.num_rows else batch.slice(low, high - low)


def _after_loss(cluster: SourceCluster, wanted: Range, deleted: RangeGone, *, fail_on_data_loss: bool) -> int:
    tp = TopicPartition(wanted.topic, wanted.partition)
    earliest, latest = cluster.earliest([tp])[tp], cluster.latest([tp])[tp]
    if fail_on_data_loss:
        if earliest <= wanted.start <= latest:
            raise deleted
        raise data_lost([Loss(tp, wanted.start, earliest, latest)]) from deleted
    if wanted.start < earliest < wanted.end:
        log.warning("%s: offsets below %d were deleted; continuing after them", wanted, earliest)
        return earliest
    log.warning("%s: all its records were deleted", wanted)
    return wanted.end


class KohortBatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    def __init__(self, options: SourceOptions, builder: RowBuilder, connect: Connect = connect) -> None:
        self._options = options
        self._builder = builder
        self._connect = connect

    def partitions(self) -> list[ReadTask]:
        options, cluster = self._options, self._connect(self._options)
        partitions = selected_partitions(cluster, options)
        committed = cluster.committed(partitions) if "group" in (options.batch_start, options.batch_end) else {}
        start = resolve(cluster, partitions, options.batch_start, "startingOffsets", committed, options.group_fallback)
        end = resolve(cluster, partitions, options.batch_end, "endingOffsets", committed)
        self._check_ends(cluster, end)
        behind = {tp: offset for tp, offset in start.items() if offset < end[tp]}
        losses = find_losses(behind, cluster.earliest(behind), end) if behind else []
        if losses and options.fail_on_data_loss:
            raise data_lost(losses)
        # Spark needs at least one input partition, even for a read without records.
        plan = plan_tasks(ranges_between(start, end), options.task_rows, options.min_partitions)
        return [ReadTask(r) for r in plan] or [ReadTask([])]

    def _check_ends(self, cluster: SourceCluster, end: PartitionOffsets) -> None:
        """Check that no offset in endingOffsets is after the log end. A task would wait there for records.

        Raises ConfigError for such an offset. With failOnDataLoss=false, replaces the offset by the log end offset.
        """
        if not isinstance(self._options.batch_end, dict):
            return
        heads = cluster.latest(end)
        beyond = [
            f"{tp}: {offset}, the log ends at {heads[tp]}" for tp, offset in sorted(end.items()) if offset > heads[tp]
        ]
        if not beyond:
            return
        if self._options.fail_on_data_loss:
            raise ConfigError(
                f"endingOffsets are after the log end: {'; '.join(beyond)}. Give latest (-1), or set "
                "failOnDataLoss=false to read up to the log end"
            )
        log.warning(
            "endingOffsets are after the log end, reading up to it: %s (failOnDataLoss=false)", "; ".join(beyond)
        )
        end |= {tp: min(offset, heads[tp]) for tp, offset in end.items()}

    def read(self, partition: ReadTask) -> Iterator[pa.RecordBatch]:
        fail = self._options.fail_on_data_loss
        cluster = self._connect(self._options)
        return read_ranges(cluster, partition.ranges, self._builder, fail_on_data_loss=fail)
