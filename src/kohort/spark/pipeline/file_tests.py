"""Runs a pipeline without a broker: the tests in a pipeline file, and a dry run of the steps on empty DataFrames."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row

from kohort.spark.pipeline import frames
from kohort.spark.pipeline.definition import FAILED, PROBLEM, SOURCE, Pipeline, PipelineTest, Source
from kohort.spark.pipeline.frames import RAW_SCHEMA
from kohort.spark.pipeline.sinks.dead_letters import quarantines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Cells = Mapping[str, Any]
_CLOSE: Final = 1e-9


def compare_rows(what: str, expected: Sequence[Cells], found: Sequence[Cells]) -> list[str]:
    """Describe the expected rows that are missing. If none is missing, describe the unexpected rows.

    A column that an expected row omits may have any value.
    """
    left = list(found)
    missing = []
    for row in expected:
        match = next((other for other in left if _agrees(row, other)), None)
        if match is None:
            missing.append(row)
        else:
            left.remove(match)
    problems = []
    for row in missing:
        near = max(left, key=partial(_equal_columns, row), default=None)
        hint = f"; nearest: {shown(near, row)}" if near is not None else ""
        problems.append(f"{what}: missing {shown(row)}{hint}")
    named = sorted({column for row in expected for column in row})
    return problems or [f"{what}: not expected {shown(row, named or None)}" for row in left]


def shown(row: Cells, only: Any = None) -> str:
    kept = {k: v for k, v in row.items() if only is None or k in only}
    return json.dumps(kept, default=lambda v: bytes(v).decode(errors="replace") if isinstance(v, bytes) else str(v))


def _agrees(expected: Cells, found: Cells) -> bool:
    return _equal_columns(expected, found) == len(expected)


def _equal_columns(row: Cells, other: Cells) -> int:
    return sum(column in other and same(value, other[column]) for column, value in row.items())


def same(expected: Any, found: Any) -> bool:
    """True if a value in a pipeline test equals a value from Spark.

    Times are compared as instants, structs field by field.
    """
    if isinstance(found, datetime) or isinstance(expected, datetime):
        return _instant(expected) == _instant(found)
    if isinstance(found, date) or isinstance(expected, date):
        return str(expected) == str(found)
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float | Decimal) and isinstance(found, int | float | Decimal):
        return math.isclose(expected, found, rel_tol=_CLOSE, abs_tol=_CLOSE)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return _agrees(expected, found)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(found, bytes | bytearray):
        return bool(expected == bytes(found).decode(errors="replace"))
    return bool(expected == found)


def _instant(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        return None
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def records_frame(spark: SparkSession, source: Source, records: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Convert the records of a pipeline test into undecoded rows.

    The rows are in partition 0 of the source's first topic, with offsets from 0.
    """
    rows = []
    for offset, record in enumerate(records):
        value = record["raw"] if "raw" in record else record["value"]
        headers = [(str(name), as_bytes(text)) for name, text in (record.get("headers") or {}).items()]
        at = record.get("timestamp") or datetime(1970, 1, 1, tzinfo=UTC)
        rows.append((as_bytes(record.get("key")), as_bytes(value), source.topics[0], 0, offset, at, 0, headers, False))
    return spark.createDataFrame(rows, RAW_SCHEMA)


def as_bytes(value: Any) -> bytearray | None:
    """Encode a value of a pipeline test as bytes: text unchanged, other values as JSON, None as a tombstone."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=_json_text)
    return bytearray(text.encode())


def _json_text(value: Any) -> str:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{value!r} cannot be converted to JSON")


def decoded_views(
    spark: SparkSession, pipeline: Pipeline, given: Mapping[str, Iterable[Mapping[str, Any]]]
) -> dict[str, DataFrame]:
    """Decode the test records of each source into a DataFrame. Its column ``_problem`` has the decoding errors.

    The decodable rows of each source become a SQL view, except those of the pipeline's first stream.
    """
    decoded = {
        s.name: frames.decode_records(records_frame(spark, s, given.get(s.name, ())), s.decode)
        for s in pipeline.sources
    }
    for source in pipeline.sources:
        if source.name != pipeline.stream.name:
            good_rows(decoded[source.name], table=source.table).createOrReplaceTempView(source.name)
    return decoded


def good_rows(decoded: DataFrame, *, table: bool = False) -> DataFrame:
    return decoded.where(f"{PROBLEM} is null").drop(PROBLEM, *((SOURCE,) if table else ()))


def run_test(pipeline: Pipeline, test: PipelineTest, spark: SparkSession) -> list[str]:
    """Run a pipeline test as one micro-batch. Write to no sink. Return the differences from the expected result."""
    problems = []
    decoded = decoded_views(spark, pipeline, test.given)
    letters: list[Mapping[str, Any]] = []
    for source in pipeline.sources:
        bad = decoded[source.name].where(frames.IS_UNDECODED)
        letters += [_letter("decode", row[PROBLEM], row) for row in bad.select(PROBLEM, SOURCE).collect()]
    judged = frames.judge(frames.run_steps(pipeline, good_rows(decoded[pipeline.stream.name])), pipeline.rules)
    passed, dropped = [], 0
    for row in judged.collect():
        verdict = row[FAILED]
        if verdict is None:
            passed.append({k: _value(v) for k, v in row.asDict().items() if k not in (FAILED, SOURCE)})
            continue
        failed = frames.failed_rules(verdict, pipeline.rules)
        fatal = next((rule for rule in failed if rule.otherwise == "fail"), None)
        if fatal is not None:
            problems.append(f"a row fails rule {fatal.name!r}, which would end the run: {fatal.reason}")
        elif quarantines(verdict, pipeline.rules):
            letters.append(_letter("expect", "; ".join(rule.reason for rule in failed), row))
        else:
            dropped += 1
    if test.rows is not None:
        problems += compare_rows("rows", test.rows, passed)
    problems += compare_rows("dlq", test.dead_letters, letters)
    if dropped != test.dropped:
        problems.append(f"dropped: {dropped} rows, expected {test.dropped}")
    return problems


def dry_run_frame(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """Run the steps on sources without records. Return the result: no rows, but all columns of the output.

    Raises StepFailed if Spark rejects a step.
    """
    decoded = decoded_views(spark, pipeline, {})
    judged = frames.judge(frames.run_steps(pipeline, good_rows(decoded[pipeline.stream.name])), pipeline.rules)
    return judged.drop(FAILED, SOURCE)


def _letter(stage: str, reason: str, row: Row) -> Mapping[str, Any]:
    source = row.asDict().get(SOURCE)
    where = {n: _value(source[n]) for n in ("topic", "partition", "offset", "key", "value")} if source else {}
    return {"stage": stage, "reason": reason, **where}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)  # Spark returns times in the local time zone
    if isinstance(value, Row):
        return {k: _value(v) for k, v in value.asDict().items()}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value
