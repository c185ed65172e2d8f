"""Frames without a broker: records given in a test, or none at all, in the shape that the source would give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from kohort.spark.pipeline.decoding import RAW_SCHEMA, decode_records
from kohort.spark.pipeline.definition import Pipeline, Source
from kohort.spark.pipeline.frames import PROBLEM, SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def raw_frame(spark: SparkSession, source: Source, records: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return the records as the source gives them: all in partition 0 of its first topic, offsets from 0 on."""
    rows = []
    for offset, record in enumerate(records):
        value = record["raw"] if "raw" in record else record["value"]
        headers = [(str(name), as_bytes(text)) for name, text in (record.get("headers") or {}).items()]
        at = record.get("timestamp") or datetime(1970, 1, 1, tzinfo=UTC)
        rows.append((as_bytes(record.get("key")), as_bytes(value), source.topics[0], 0, offset, at, 0, headers, False))
    return spark.createDataFrame(rows, RAW_SCHEMA)


def as_bytes(value: Any) -> bytearray | None:
    """Return a value as a producer of JSON would send it: objects as JSON, text as it is, nothing as a tombstone."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=_json_text)
    return bytearray(text.encode())


def _json_text(value: Any) -> str:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{value!r} has no JSON form")


def decoded_views(
    spark: SparkSession, pipeline: Pipeline, given: Mapping[str, Iterable[Mapping[str, Any]]]
) -> dict[str, DataFrame]:
    """Decode every source, with its problems; all but the first stream are views of their good rows already."""
    frames = {s.name: decode_records(raw_frame(spark, s, given.get(s.name, ())), s.decode) for s in pipeline.sources}
    for source in pipeline.sources:
        if source.name != pipeline.stream.name:
            good_rows(frames[source.name], table=source.table).createOrReplaceTempView(source.name)
    return frames


def good_rows(decoded: DataFrame, *, table: bool = False) -> DataFrame:
    """Return the rows that could be decoded, as steps see them; a table's do not say where they came from."""
    return decoded.where(f"{PROBLEM} is null").drop(PROBLEM, *((SOURCE,) if table else ()))
