"""``format("kohort")`` as a sink, batch and stream: writes rows with the columns key, value, headers, topic, partition.

Delivery is at least once. Brokers drop duplicates from the retries of an idempotent producer. If Spark repeats a task,
or repeats a micro-batch after a restart, the sink sends the rows again with the same headers (see send.py). Consumers
can drop these duplicates.
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
NOT_SENT: Final = ("offset", "timestamp", "timestampType", "redelivered")


def check_sink_schema(fields: Sequence[tuple[str, str]], options: SinkOptions) -> tuple[str, ...]:
    """Return the columns of a DataFrame that the sink sends.

    Raises ConfigError for an unknown column or a wrong type.
    """
    fields = [(name, kind) for name, kind in fields if name not in NOT_SENT]
    for name, kind in fields:
        if name not in SINK_TYPES:
            raise ConfigError(
                f"sink: {unknown_option(name, SINK_TYPES)}: the sink accepts {', '.join(SINK_TYPES)}; "
                "kohort.spark.to_records(df, ...) converts any DataFrame into these columns"
            )
        if kind not in SINK_TYPES[name]:
            raise ConfigError(f"sink: column {name!r} must be {' or '.join(SINK_TYPES[name])}, not {kind}")
    names = [name for name, _ in fields]
    if "value" not in names:
        raise ConfigError("sink: column 'value' is missing: add it, for example with kohort.spark.to_records")
    if not options.topic and "topic" not in names:
        raise ConfigError("sink: give the option 'topic', or a column 'topic'")
    return tuple(n for n in names if n != "headers" or options.include_headers)


@dataclass
class SentRows(WriterCommitMessage):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    rows: int


class _TaskWriter:
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
        chosen = batch.select(list(self._names))
        if origin is None:
            return chosen
        own = chosen.column("headers") if "headers" in self._names else None
        headers = add_headers(own, batch.num_rows, delivery_headers(origin, first_row, batch.num_rows))
        kept = [n for n in self._names if n != "headers"]
        arrays = [chosen.column(n) for n in kept]
        return type(batch).from_arrays([*arrays, headers], names=[*kept, "headers"])

    def commit(self, messages: list[Any], *_batch: int) -> None:
        """Do nothing: each task has already waited until Kafka acknowledged its rows."""

    def abort(self, messages: list[Any], *_batch: int) -> None:
        """Do nothing: acknowledged rows of a failed write stay in the topic (at least once)."""


class KohortBatchWriter(_TaskWriter, DataSourceArrowWriter):  # type: ignore[misc]  # as above
    pass


class KohortStreamWriter(_TaskWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]  # as above
    pass


def _origin() -> Origin:
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return Origin("", "", 0)
    query = task.getLocalProperty("sql.streaming.queryId") or ""
    return Origin(query, task.getLocalProperty("streaming.sql.batchId") or "", task.partitionId())
