"""Builds the DataFrames of a pipeline. Adds the source record and the failed rules to each row.

``_source`` is a struct with the source record of a row (topic, partition, offset, timestamp, key, value, headers), and
with ``redelivered``: True if the record may have been delivered before. Steps that select ``*`` keep the column. Its
key, value and headers are the original bytes, which dead letters need.

In a run, the tasks that read a topic also decode the records (``value.format`` of ``format("kohort")``). Tests and dry
runs have no topic: the same row builder decodes the test records.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, CharType, MapType, StringType, StructField, StructType, VarcharType

from kohort.errors import KohortError
from kohort.spark.options.source import SourceOptions
from kohort.spark.options.table import BY_LOWER_NAME, parse_values
from kohort.spark.pipeline.definition import FAILED, PROBLEM, RECORD_COLUMNS, SOURCE
from kohort.spark.pipeline.ledger import Count
from kohort.spark.values.columns import REDELIVERED, TYPES
from kohort.spark.values.row_builders import ERROR, SESSION_ZONE, SKIPPED, row_builder_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from kohort.spark.pipeline.definition import Decode, Pipeline, RowRule, Step, Window


def counts_by(frame: DataFrame, column: str) -> dict[str, Count]:
    """Return a Count for each value of a column: the number of rows, and the XOR of the hashes of their source records.

    The key "" is for rows with NULL in the column.
    """
    return _counts(_grouped(frame, column))


def counts_of_source(decoded: DataFrame) -> tuple[dict[str, Count], int]:
    """Return a Count for each decoding error of a source (column ``_problem``), and the number of redelivered rows.

    Rows that may have been delivered before count as redelivered. The key "" is for rows without a decoding error.
    """
    again = f.count_if(f.col(f"{SOURCE}.{REDELIVERED}"))
    rows = _grouped(decoded, PROBLEM, again.alias("again"))
    return _counts(rows), sum(row["again"] for row in rows)


def _grouped(frame: DataFrame, column: str, *more: Column) -> list[Row]:
    if SOURCE in frame.columns:
        mark = f.bit_xor(f.xxhash64(*(f"{SOURCE}.{n}" for n in ("topic", "partition", "offset"))))
    else:
        mark = f.max(f.lit(0).cast("long"))
    totals = (f.count(f.lit(1)).alias("n"), mark.alias("mark"), *more)
    found: list[Row] = frame.groupBy(f.col(column).alias("k")).agg(*totals).collect()
    return found


def _counts(rows: Iterable[Row]) -> dict[str, Count]:
    return {row["k"] or "": Count(row["n"], row["mark"] or 0) for row in rows}


def judge(frame: DataFrame, rules: Sequence[RowRule]) -> DataFrame:
    """Add the column ``_failed``: the indexes of the rules that a row fails, such as ``0,2``, or NULL.

    A row fails a rule whose condition is NULL for the row.
    """
    if not rules:
        return frame.withColumn(FAILED, f.lit(None).cast("string"))
    failed = [f.when(~f.coalesce(f.expr(rule.condition), f.lit(False)), f.lit(str(i))) for i, rule in enumerate(rules)]
    return frame.withColumn(FAILED, f.nullif(f.concat_ws(",", *failed), f.lit("")))


def failed_rules(verdict: str, rules: Sequence[RowRule]) -> list[RowRule]:
    return [rules[int(i)] for i in verdict.split(",")]


IS_UNDECODED: Final = f"{PROBLEM} is not null and {PROBLEM} <> '{SKIPPED}'"
"""SQL condition for rows with a decoding error. Skipped rows have none."""
RAW_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
_SOURCE_COLUMNS: Final = (*RECORD_COLUMNS, REDELIVERED)


def load_decoded(reader: Any, spark: SparkSession, decode: Decode) -> DataFrame:
    if decode.format == "raw":
        return _raw_rows(reader.schema(RAW_SCHEMA).load())
    options = {**decode_options(spark, decode), "badRecords": "null"}
    return _rows(reader.options(**options).schema(decoded_schema(decode, _SOURCE_COLUMNS)).load(), decode)


def decode_records(records: DataFrame, decode: Decode) -> DataFrame:
    if decode.format == "raw":
        return _raw_rows(records)
    schema = decoded_schema(decode, _SOURCE_COLUMNS)
    given = {**decode_options(records.sparkSession, decode), "badRecords": "null"}
    builder = row_builder_of(schema, SourceOptions("", **parse_values(given, BY_LOWER_NAME, {}, ())[0]))

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield builder.build(batch)

    return _rows(records.withColumnRenamed("timestampType", "timestamp_type").mapInArrow(decoded, schema), decode)


def decode_options(spark: SparkSession, decode: Decode) -> dict[str, str]:
    return {**decode.options, "value.timeZone": str(spark.conf.get(SESSION_ZONE))}


def decoded_schema(decode: Decode, record_columns: Sequence[str]) -> StructType:
    """Return the schema of decoded rows: columns of the value, ``_error``, and columns of the record (``_topic``, ...).

    Columns of the value are nullable since a value may lack any of the columns, as in ``from_json``.
    """
    columns = [StructField(f.name, nullable(f.dataType)) for f in StructType.fromDDL(decode.columns).fields]
    names = {column.name for column in columns}
    own = StructType.fromDDL(", ".join(f"_{name} {TYPES[name]}" for name in record_columns))
    more = [StructField(ERROR, StringType()), *own.fields]
    return StructType([*columns, *(field for field in more if field.name not in names)])


def nullable(kind: Any) -> Any:
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, nullable(f.dataType)) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType))
    return StringType() if isinstance(kind, CharType | VarcharType) else kind


def _rows(decoded: DataFrame, decode: Decode) -> DataFrame:
    values = StructType.fromDDL(decode.columns).fieldNames()
    source = f.struct(*(f.col(f"`_{name}`").alias(name) for name in _SOURCE_COLUMNS)).alias(SOURCE)
    return decoded.select(*(f"`{name}`" for name in values), source, f.col(ERROR).alias(PROBLEM))


def _raw_rows(records: DataFrame) -> DataFrame:
    source = f.struct(*_SOURCE_COLUMNS).alias(SOURCE)
    columns = [name for name in records.columns if name != REDELIVERED]
    return records.select(*columns, source, f.lit(None).cast("string").alias(PROBLEM))


_WATERMARK: Final = "spark.watermarkDelayMs"
"""Key that Spark sets in the metadata of a column that has a watermark."""


class StepFailed(KohortError):
    pass


def run_steps(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """Run all steps. The first step reads ``rows``. Each further step reads the result of the previous step.

    Steps read these rows from the view ``input``.

    The other sources must be views before the query starts: micro-batches see only the views of that time.
    """
    rows.createOrReplaceTempView(pipeline.stream.name)
    current = rows
    for step in pipeline.steps:
        current.createOrReplaceTempView("input")
        try:
            if step.kind == "sql":
                current = current.sparkSession.sql(step.text)
            elif step.window is not None:
                current = aggregate(current, pipeline, step, step.window)
            else:
                current = (step.function or load_function(pipeline, step))(current)
        except AnalysisException as error:
            raise StepFailed(f"{pipeline.file}, line {step.line}: {error}") from error
        reserved = {PROBLEM, FAILED} & set(current.columns)
        if reserved:
            raise StepFailed(
                f"{pipeline.file}, line {step.line}: the column name {reserved.pop()} is reserved for the pipeline"
            )
    return current


def aggregate(rows: DataFrame, pipeline: Pipeline, step: Step, window: Window) -> DataFrame:
    """Aggregate rows in windows. Return ``window_start``, ``window_end``, the group columns, and the aggregates.

    Spark rejects a second watermark, so the rows of a stream keep the watermark of their source or previous window. The
    first window sets the watermark if no source has one.
    """
    frame = rows
    if rows.isStreaming:
        first = next(s for s in pipeline.steps if s.window is not None)
        if step is first and not any(s.watermark for s in pipeline.streams):
            frame = rows.withWatermark(window.time, window.late or "0 seconds")
        elif window.time in rows.columns and _WATERMARK not in rows.schema[window.time].metadata:
            have = [field.name for field in rows.schema.fields if _WATERMARK in field.metadata]
            raise StepFailed(
                f"{pipeline.file}, line {step.line}: the column {window.time} has no watermark, so Spark "
                f"could never complete a window. Columns with a watermark: {', '.join(have) or 'none'}"
            )
    slots = f.window(window.time, window.size, window.slide or None)
    totals = [f.expr(sql).alias(name) for name, sql in window.agg]
    grouped = frame.groupBy(slots.alias("window"), *window.by).agg(*totals)
    bounds = [f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end")]
    return grouped.select(*bounds, *window.by, *(name for name, _ in window.agg))


def load_function(pipeline: Pipeline, step: Step) -> Callable[[DataFrame], DataFrame]:
    file, _, name = step.text.rpartition(":")
    if file.endswith(".py"):
        path = pipeline.file.parent / file
        spec = importlib.util.spec_from_file_location(f"kohort_step_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise StepFailed(f"{pipeline.file}, line {step.line}: {path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(file)
    function: Callable[[DataFrame], DataFrame] = getattr(module, name)
    return function
