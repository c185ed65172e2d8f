"""What consumer groups leave behind, as tables: ``__consumer_offsets`` record by record, and the journal by rebalance.

``group_records`` is a step for pipelines (``python: kohort.spark.group_tables:group_records``) over the raw records of
``__consumer_offsets``, kohort's or Apache Kafka's: one row for each record, with what it says, or with ``kind`` other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.journal import TOPIC
from kohort.coordinator.records import GroupWritten, OffsetCommitted, parse_record
from kohort.errors import CorruptLog
from kohort.insight.journal_reader import JournalReader
from kohort.insight.rebalances import rebalances
from kohort.insight.why import explain

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "kind string, group string, topic string, partition int, committed bigint, metadata string, at timestamp, "
    "generation int, protocol string, leader string, members int, removed boolean"
)
"""``kind``: commit, group or other. ``removed``: a tombstone, which says that the group no longer holds this."""
_SOURCE: Final = "_source"


def group_records(rows: DataFrame) -> DataFrame:
    """Return raw records of ``__consumer_offsets`` as the columns COLUMNS, one row each; ``_source`` is kept."""
    from pyspark.sql.types import StructType

    kept = [field for field in rows.schema.fields if field.name == _SOURCE]
    schema = StructType.fromDDL(COLUMNS)
    for field in kept:
        schema = schema.add(field)

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            table = parse_batch(batch.column("key").to_pylist(), batch.column("value").to_pylist())
            arrays, names = list(table.columns), list(table.schema.names)
            if _SOURCE in batch.schema.names:
                arrays.append(batch.column(_SOURCE))
                names.append(_SOURCE)
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    wanted = ["key", "value", *(field.name for field in kept)]
    return rows.select(*wanted).mapInArrow(parse, schema)


def parse_batch(keys: list[bytes | None], values: list[bytes | None]) -> pa.RecordBatch:
    """Return records as an Arrow batch of COLUMNS."""
    import pyarrow as pa

    at = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        [
            ("kind", pa.string()), ("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
            ("committed", pa.int64()), ("metadata", pa.string()), ("at", at), ("generation", pa.int32()),
            ("protocol", pa.string()), ("leader", pa.string()), ("members", pa.int32()), ("removed", pa.bool_()),
        ]
    )  # fmt: skip
    rows = [_row(key, value) for key, value in zip(keys, values, strict=True)]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    try:
        record = None if key is None else parse_record(bytes(key), None if value is None else bytes(value))
    except CorruptLog:
        record = None
    if isinstance(record, OffsetCommitted):
        row = {"kind": "commit", "group": record.group_id, "topic": record.topic, "partition": record.partition}
        offset = record.value
        if offset is None:
            return row | {"removed": True}
        at = _time(offset.commit_timestamp)
        return row | {"committed": offset.offset, "metadata": offset.metadata, "at": at, "removed": False}
    if isinstance(record, GroupWritten):
        row = {"kind": "group", "group": record.group_id}
        written = record.value
        if written is None:
            return row | {"removed": True}
        said = {"generation": written.generation, "protocol": written.protocol, "leader": written.leader}
        at = _time(written.current_state_timestamp)
        return row | said | {"members": len(written.members), "at": at, "removed": False}
    return {"kind": "other"}


def _time(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds >= 0 else None


REBALANCES: Final = (
    "group string, began timestamp, settled timestamp, took_ms bigint, from_generation int, generation int, "
    "members int, moved int, end string, cause string, sentence string, advice string"
)


def rebalance_table(
    spark: SparkSession, brokers: str = "", *, profile: str = "", options: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """Return every rebalance that the journal of a kohort broker tells, with its cause, its cost and its sentence.

    The cluster is at ``brokers``, or is that of a ``profile``, of the file that Spark's processes see; ``options`` are
    more of the source's, such as ``{"kafka.security.protocol": "SSL"}``. Who asks needs READ on the journal's topic.
    Raises AnalysisException, with a sentence, for options that are none and for who is not let in.
    """
    frame = (
        spark.read.format("kohort")
        .options(**source_options(brokers, profile, options))
        .load()
        .select("partition", "offset", "value")
    )
    records = sorted(frame.collect())
    return spark.createDataFrame(rebalance_rows([row["value"] for row in records]), REBALANCES)


def source_options(brokers: str, profile: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the source for the journal of a cluster."""
    where = {"kafka.bootstrap.servers": brokers, "profile": profile}
    return {**options, **{name: value for name, value in where.items() if value}, "subscribe": TOPIC}


def rebalance_rows(values: list[bytes | None]) -> list[tuple[Any, ...]]:
    """Return rows of REBALANCES from the journal's values, in order. Entries of a kind yet unknown are passed over."""
    reader = JournalReader()
    for value in values:
        reader.add(None, None if value is None else bytes(value))
    rows = []
    for this in rebalances(reader.entries):
        ended = this.settled_at_ms or this.assigned_at_ms or this.closed_at_ms
        told = explain(this)
        rows.append(
            (
                this.group,
                _time(this.opened_at_ms),
                None if ended is None else _time(ended),
                None if ended is None else ended - this.opened_at_ms,
                this.from_generation,
                this.generation,
                len(this.members_after),
                len(this.moves),
                str(this.end),
                told.cause,
                told.sentence,
                told.advice,
            )
        )
    return rows
