"""``format("kohort")`` as a sink, batch and stream: rows of key, value, headers, topic, partition to topics.

At least once. Brokers drop what an idempotent producer repeats; what Spark repeats (a task, or a micro-batch after a
restart) is sent again, under the headers of send.py, by which a reader can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kohort.config.options import unknown_option
from kohort.errors import ConfigError
from kohort.spark.options.sink import SinkOptions
from kohort.spark.sending.send import Origin, RowSender, add_headers, delivery_headers, send_by_topic

if TYPE_CHECKING:
    import pyarrow as pa

SINK_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns of the Kafka connector's sink, and the types of each."""
NOT_SENT: Final = ("offset", "timestamp", "timestampType", "redelivered")
"""Columns of the source that a sink does not send, as the Kafka connector's."""


def check_sink_schema(fields: Sequence[tuple[str, str]], options: SinkOptions) -> tuple[str, ...]:
    """Return the columns to send. The other columns of the source (offset, timestamp, ...) are not sent.

    Raises ConfigError for an unknown column and for a type that cannot be sent.
    """
    fields = [(name, kind) for name, kind in fields if name not in NOT_SENT]
    for name, kind in fields:
        if name not in SINK_TYPES:
            raise ConfigError(
                f"sink: {unknown_option(name, SINK_TYPES)}: a record has {', '.join(SINK_TYPES)}; "
                "kohort.spark.to_records(df, ...) makes such a frame of any other"
            )
        if kind not in SINK_TYPES[name]:
            raise ConfigError(f"sink: column {name!r} is {' or '.join(SINK_TYPES[name])}, not {kind}")
    names = [name for name, _ in fields]
    if "value" not in names:
        raise ConfigError("sink: there is no column 'value'")
    if not options.topic and "topic" not in names:
        raise ConfigError("sink: give the option 'topic', or a column 'topic'")
    return tuple(n for n in names if n != "headers" or options.include_headers)


@dataclass
class SentRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    """What one task sent."""

    rows: int


class _TaskWriter:
    """What both writers do in a task."""

    def __init__(self, options: SinkOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SentRows:
        origin = _origin() if self._options.delivery_headers else None
        sender = RowSender(self._options.client)
        try:
            for batch in iterator:
                if batch.num_rows:
                    prepared = self.prepared(batch, origin, sender.rows)
                    send_by_topic(sender, prepared, self._options.topic)
            return SentRows(sender.finish())
        except BaseException:
            sender.fail()
            raise

    def prepared(self, batch: pa.RecordBatch, origin: Origin | None, first_row: int) -> pa.RecordBatch:
        """Return the columns to send, with the headers that name the row."""
        chosen = batch.select(list(self._names))
        if origin is None:
            return chosen
        own = chosen.column("headers") if "headers" in self._names else None
        headers = add_headers(own, batch.num_rows, delivery_headers(origin, first_row, batch.num_rows))
        kept = [n for n in self._names if n != "headers"]
        arrays = [chosen.column(n) for n in kept]
        return type(batch).from_arrays([*arrays, headers], names=[*kept, "headers"])

    def commit(self, messages: list[Any], *_batch: int) -> None:
        """Do nothing: each task returned only once its rows were acknowledged."""

    def abort(self, messages: list[Any], *_batch: int) -> None:
        """Do nothing; what was sent stays: the sink is at least once."""


class KohortBatchWriter(_TaskWriter, DataSourceArrowWriter):  # type: ignore[misc]  # as above
    """``df.write.format("kohort").mode("append").save()``."""


class KohortStreamWriter(_TaskWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]  # as above
    """``df.writeStream.format("kohort").start()``, append, update or complete: each trigger's rows are sent."""


def _origin() -> Origin:
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return Origin("", "", 0)
    query = task.getLocalProperty("sql.streaming.queryId") or ""
    return Origin(query, task.getLocalProperty("streaming.sql.batchId") or "", task.partitionId())
