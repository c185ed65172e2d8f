"""The batch reader: a fixed range of every partition, planned once, read by as many tasks as its size asks for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from kohort.errors import ConfigError
from kohort.spark.options.offsets import PartitionOffsets, find_losses, plan_tasks, ranges_between
from kohort.spark.options.source import SourceOptions
from kohort.spark.reading.bounds import resolve_end, resolve_start
from kohort.spark.reading.cluster import Connect, SourceCluster, connect, wanted_partitions
from kohort.spark.reading.ranges import data_lost, read_ranges
from kohort.spark.reading.stream import ReadTask
from kohort.spark.values.row_builders import RowBuilder

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger(__name__)


class KohortBatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    """Reads from startingOffsets to endingOffsets; commits nothing."""

    def __init__(self, options: SourceOptions, builder: RowBuilder, connect: Connect = connect) -> None:
        self._options = options
        self._builder = builder
        self._connect = connect

    def partitions(self) -> list[ReadTask]:
        options, cluster = self._options, self._connect(self._options)
        partitions = wanted_partitions(cluster, options)
        by_group = "group" in (options.batch_start, options.batch_end)
        held = cluster.committed(partitions) if by_group else {}
        start = resolve_start(cluster, partitions, options.batch_start, held, options.group_fallback)
        end = resolve_end(cluster, partitions, options.batch_end, held)
        self._check_ends(cluster, end)
        behind = {tp: offset for tp, offset in start.items() if offset < end[tp]}
        losses = find_losses(behind, cluster.earliest(behind), end) if behind else []
        if losses and options.fail_on_data_loss:
            raise data_lost(losses)
        # With nothing to read Spark still wants a partition to run.
        plan = plan_tasks(ranges_between(start, end), options.task_rows, options.min_partitions)
        return [ReadTask(r) for r in plan] or [ReadTask([])]

    def _check_ends(self, cluster: SourceCluster, end: PartitionOffsets) -> None:
        """Refuse given ends behind the log, whose records a task would wait for. Raises ConfigError."""
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
                f"endingOffsets are behind the log: {'; '.join(beyond)}. Give latest (-1), or failOnDataLoss=false to "
                "read what is there"
            )
        log.warning("endingOffsets are behind the log, read to its end: %s (failOnDataLoss=false)", "; ".join(beyond))
        end |= {tp: min(offset, heads[tp]) for tp, offset in end.items()}

    def read(self, partition: ReadTask) -> Iterator[pa.RecordBatch]:
        fail = self._options.fail_on_data_loss
        cluster = self._connect(self._options)
        return read_ranges(cluster, partition.ranges, self._builder, fail_on_data_loss=fail)
