"""Spark tables about consumer groups.

The records of ``__consumer_offsets`` make one table. The rebalances in kohort's group journal make another table.

``group_records`` is a pipeline step (``python: kohort.spark.group_tables:group_records``). It converts each raw record
of ``__consumer_offsets`` into one row, whether kohort or Apache Kafka wrote the record. A record of an unknown type
becomes a row whose ``kind`` is ``other``.
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
"""Columns of the table that ``group_records`` returns.

``kind`` is commit, group or other. ``removed`` is true for a tombstone: a record that deletes an offset or a group.
"""
_SOURCE: Final = "_source"


def group_records(rows: DataFrame) -> DataFrame:
    """Parse raw records of ``__consumer_offsets`` into a table.

    The constant ``COLUMNS`` lists the columns of the table. If ``rows`` has a column ``_source``, the table has it too.
    """
    from pyspark.sql.types import StructType

    kept = [field for field in rows.schema.fields if field.name == _SOURCE]
    schema = StructType([*StructType.fromDDL(COLUMNS).fields, *kept])

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parsed = parse_batch(batch.column("key").to_pylist(), batch.column("value").to_pylist())
            yield parsed.append_column(_SOURCE, batch.column(_SOURCE)) if kept else parsed

    columns = ["key", "value", *(field.name for field in kept)]
    return rows.select(*columns).mapInArrow(parse, schema)


def parse_batch(keys: list[bytes | None], values: list[bytes | None]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
    types["timestamp"] = pa.timestamp("us", tz="UTC")
    schema = pa.schema([(name, types[kind]) for name, kind in (column.split() for column in COLUMNS.split(", "))])
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
        group = record.value
        if group is None:
            return row | {"removed": True}
        state = {"generation": group.generation, "protocol": group.protocol, "leader": group.leader}
        at = _time(group.current_state_timestamp)
        return row | state | {"members": len(group.members), "at": at, "removed": False}
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
    """Return a table of the rebalances in the group journal of a kohort cluster, with the cause of each rebalance.

    Give ``brokers``, or the ``profile`` of a cluster in clusters.toml. ``options``: further options of the source, such
    as ``{"kafka.security.protocol": "SSL"}``. The principal needs the permission READ on the topic
    ``__kohort_journal``. Raises AnalysisException for an unknown option and for a missing permission.
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
    where = {"kafka.bootstrap.servers": brokers, "profile": profile}
    return {**options, **{name: value for name, value in where.items() if value}, "subscribe": TOPIC}


def rebalance_rows(values: list[bytes | None]) -> list[tuple[Any, ...]]:
    """Convert records of the group journal into rows of the table of rebalances. Skip records of unknown kinds."""
    reader = JournalReader()
    for value in values:
        reader.add(None, None if value is None else bytes(value))
    rows = []
    for rebalance in rebalances(reader.entries):
        ended = rebalance.settled_at_ms or rebalance.assigned_at_ms or rebalance.closed_at_ms
        why = explain(rebalance)
        rows.append(
            (
                rebalance.group,
                _time(rebalance.opened_at_ms),
                None if ended is None else _time(ended),
                None if ended is None else ended - rebalance.opened_at_ms,
                rebalance.from_generation,
                rebalance.generation,
                len(rebalance.members_after),
                len(rebalance.moves),
                str(rebalance.end),
                why.cause,
                why.sentence,
                why.advice,
            )
        )
    return rows
