"""The streaming reader: which offsets a micro-batch covers, and when they are committed to the group.

Two facts of Spark shape it. ``commit(end)`` comes one batch late, and never for the last batch; ``latestOffset(start,
...)`` comes at every trigger with the end of the last completed batch: so ``start`` is what is committed, there, and
the lag reaches 0. And ``initialOffset`` is asked again when batch 0 is retried after a restart, while the log goes on
growing: so what it first resolved to is pinned in the group at once, with a mark in the commit's metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.cluster import Cluster, Connect, connect, wanted_partitions
from kohort.spark.offsets import Range, as_json, by_partition, find_losses, plan_tasks, ranges_between, share_limit
from kohort.spark.options import SourceOptions
from kohort.spark.read import data_lost, read_ranges
from kohort.spark.starts import resolve_start

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Flat = dict[TopicPartition, int]


@dataclass
class Task(InputPartition):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    """What one Spark task reads."""

    ranges: list[Range]


class KohortStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # as above
    """One per query; the driver's copy lives as long as the query, ``read`` runs on copies in the workers."""

    def __init__(self, options: SourceOptions, names: tuple[str, ...], connect: Connect = connect) -> None:
        self._options = options
        self._names = names
        self._connect = connect
        self._initial: Flat | None = None
        self._heads: Flat = {}
        self._available_now = False
        self._target: Flat | None = None
        self._committed: Flat | None = None
        self._pinned = False
        self._planned = False

    @property
    def _cluster(self) -> Cluster:
        return self._connect(self._options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:
            self._initial = self._resolve_initial()
        return as_json(self._initial)

    def _resolve_initial(self) -> Flat:
        cluster, options = self._cluster, self._options
        partitions = wanted_partitions(cluster, options)
        held = cluster.committed(partitions) if options.group_id else {}
        pinned = {tp: o.offset for tp, o in held.items() if o.metadata == options.pin}
        missing = partitions - set(pinned)
        fresh = resolve_start(cluster, missing, options.stream_start, held, options.group_fallback)
        initial = pinned | fresh
        if options.commits:
            # Before batch 0 is planned: if this fails the query must not start, or a retry could skip records.
            if fresh:
                cluster.commit({tp: OffsetAndMetadata(o, options.pin) for tp, o in initial.items()})
            self._committed, self._pinned = dict(initial), True
        elif options.stream_start == "latest":
            log.warning(
                "without group.id, startingOffsets=latest is resolved anew if the first micro-batch has to be "
                "repeated after a restart; give a group.id, which keeps it"
            )
        return initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        rows = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        # Only a flag: resolving the target here crash-looped the Kafka connector (SPARK-53560).
        self._available_now = True

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begin = by_partition(start)
        self._commit_completed(begin)
        heads = self._end_of_log(begin)
        begin |= self._starts_of_new(begin, heads)
        self._check_losses(begin, heads)
        end = share_limit(begin, heads, limit.max_rows) if isinstance(limit, ReadMaxRows) else heads
        # A partition that is gone stays where it is.
        return as_json({tp: max(offset, end.get(tp, offset)) for tp, offset in begin.items()})

    def _end_of_log(self, begin: Flat) -> Flat:
        if self._target is not None:
            return self._target
        self._heads = self._read_heads()
        if self._available_now:
            self._target = self._heads
        elif all(begin.get(tp) == head for tp, head in self._heads.items()):
            self._cluster.wait_for_records(self._heads, self._options.idle_wait_ms)
            self._heads = self._read_heads()
        return self._heads

    def _read_heads(self) -> Flat:
        cluster = self._cluster
        return cluster.latest(wanted_partitions(cluster, self._options))

    def _starts_of_new(self, begin: Flat, heads: Flat) -> Flat:
        """A partition that was added after the query began is read from its beginning."""
        new = set(heads) - set(begin)
        if new:
            log.info("new partitions, read from their beginning: %s", ", ".join(map(str, sorted(new))))
        return self._cluster.earliest(new) if new else {}

    def _check_losses(self, begin: Flat, heads: Flat) -> None:
        """Raise for lost records, or go on: what was created anew is read from its beginning."""
        behind = {tp: offset for tp, offset in begin.items() if tp in heads and offset != heads[tp]}
        if not behind:
            return
        losses = find_losses(behind, self._cluster.earliest(behind), heads)
        if losses and self._options.fail_on_data_loss:
            raise data_lost(losses)
        for loss in losses:
            log.warning("%s (failOnDataLoss=false: going on)", loss)
            if loss.wanted > loss.latest:
                begin[loss.partition] = loss.earliest

    def _commit_completed(self, completed: Flat) -> None:
        """Commit the end of the last completed micro-batch; an error is for the next trigger, not for the query."""
        if not self._options.commits:
            return
        if completed == self._committed and not (self._pinned and self._planned):
            return
        try:
            self._cluster.commit({tp: OffsetAndMetadata(offset) for tp, offset in completed.items()})
        except KohortError as error:
            log.warning("group %s: offsets not committed, again at the next trigger: %s", self._options.group_id, error)
            return
        self._committed, self._pinned = dict(completed), False

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return as_json(self._heads) if self._heads else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Task]:
        begin, upto = by_partition(start), by_partition(end)
        begin |= self._starts_of_new(begin, upto)
        if not self._options.fail_on_data_loss:
            anew = [tp for tp in upto if begin[tp] > upto[tp]]
            begin |= self._cluster.earliest(anew) if anew else {}
        backwards = [f"{tp} from {begin[tp]} to {upto[tp]}" for tp in sorted(upto) if begin[tp] > upto[tp]]
        if backwards:
            raise KohortError(
                f"Spark asks for a range that ends before it starts: {'; '.join(backwards)}. The first micro-batch of "
                "this checkpoint was planned from other offsets; give the query a group.id, which keeps them"
            )
        self._planned = True
        return [Task(ranges) for ranges in plan_tasks(ranges_between(begin, upto), self._options.records_per_task)]

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        fail = self._options.fail_on_data_loss
        return read_ranges(self._cluster, partition.ranges, self._names, fail_on_data_loss=fail)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing: this comes one batch late; see latestOffset."""

    def stop(self) -> None:
        self._cluster.close()
