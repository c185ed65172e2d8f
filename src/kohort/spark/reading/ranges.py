"""One task's reading: ranges of partitions as Arrow batches, with retries, stopping exactly at each end.

In local mode a task has one attempt unless the master says otherwise, so what a retry can mend is mended here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.spark.options.offsets import Loss, Range
from kohort.spark.reading.cluster import RangeGone, SourceCluster
from kohort.spark.values.columns import REDELIVERED
from kohort.spark.values.row_builders import RowBuilder

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ATTEMPTS: Final = 5
_BACKOFF_S: Final = 0.2


class DataLost(KohortError):
    """Records were deleted, or the topic created anew, before the query read them."""


def data_lost(losses: Sequence[Loss]) -> DataLost:
    """Return the error for records that are gone, with the way out."""
    lines = "; ".join(str(loss) for loss in losses)
    return DataLost(f"{lines}. To go on with what is left, set failOnDataLoss=false")


def read_ranges(
    cluster: SourceCluster, ranges: Sequence[Range], builder: RowBuilder, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    for wanted in ranges:
        for batch in _read_range(cluster, wanted, builder.client_columns, fail_on_data_loss=fail_on_data_loss):
            yield builder.build(_marked(batch, wanted.again_below) if builder.marks_redelivered else batch)


def _marked(batch: pa.RecordBatch, again_below: int) -> pa.RecordBatch:
    """Return the batch with a column that says which rows may have been delivered before."""
    import pyarrow.compute as pc

    return batch.append_column(REDELIVERED, pc.less(batch.column("offset"), again_below))


def _read_range(
    cluster: SourceCluster, wanted: Range, columns: Sequence[str], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    at = wanted.start
    failures = 0
    while at < wanted.end:
        try:
            for batch in cluster.fetch(wanted._replace(start=at), columns):
                inside = cut(batch, at, wanted.end)
                if inside.num_rows:
                    at = inside.column("offset")[-1].as_py() + 1
                    failures = 0
                    yield inside
            at = wanted.end
        except RangeGone as gone:
            at = _after_loss(cluster, wanted._replace(start=at), gone, fail_on_data_loss=fail_on_data_loss)
        except KohortError as error:
            failures += 1
            if not error.retriable or failures >= ATTEMPTS:
                raise
            log.warning("%s: attempt %d failed, again from offset %d: %s", wanted, failures, at, error)
            time.sleep(_BACKOFF_S * 2 ** (failures - 1))


def cut(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Return the rows whose offset lies in [start, end): offsets rise within a batch, and may have gaps."""
    offsets = batch.column("offset")
    if not len(offsets):
        return batch
    low = 0 if offsets[0].as_py() >= start else _first_at_least(offsets, start)
    high = len(offsets) if offsets[-1].as_py() < end else _first_at_least(offsets, end)
    return batch.slice(low, max(0, high - low))


def _first_at_least(offsets: pa.Array, bound: int) -> int:
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle].as_py() < bound:
            low = middle + 1
        else:
            high = middle
    return low


def _after_loss(cluster: SourceCluster, wanted: Range, gone: RangeGone, *, fail_on_data_loss: bool) -> int:
    tp = TopicPartition(wanted.topic, wanted.partition)
    earliest, latest = cluster.earliest([tp])[tp], cluster.latest([tp])[tp]
    if fail_on_data_loss:
        if earliest <= wanted.start <= latest:
            raise gone
        raise data_lost([Loss(tp, wanted.start, earliest, latest)]) from gone
    if wanted.start < earliest < wanted.end:
        log.warning("%s: offsets below %d are gone; reading on from there", wanted, earliest)
        return earliest
    log.warning("%s: no record of it is left", wanted)
    return wanted.end
