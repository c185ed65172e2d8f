"""The shape of rows on their way: decoded columns, where each row came from, and which rules it fails.

``_source`` is one struct with the record as it was (topic, partition, offset, timestamp, key, value, headers), and with
``redelivered``: whether the row may have been delivered before. Steps that select ``*`` keep it; with it, a row set
aside becomes a dead letter with its original bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kohort.spark.pipeline.definition import Decode, RowRule
from kohort.spark.pipeline.ledger import Count
from kohort.spark.values.columns import REDELIVERED

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row

SOURCE: Final = "_source"
PROBLEM: Final = "_problem"
FAILED: Final = "_failed"
_CORRUPT: Final = "_corrupt_record"
RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def decode(raw: DataFrame, how: Decode) -> DataFrame:
    """Return the columns of the value, with ``_source``, and in ``_problem`` why a value could not be decoded."""
    from pyspark.sql import functions as f

    again = f.col(REDELIVERED) if REDELIVERED in raw.columns else f.lit(False)
    source = f.struct(*RECORD_COLUMNS, again.alias(REDELIVERED)).alias(SOURCE)
    if how.format == "raw":
        columns = [name for name in raw.columns if name != REDELIVERED]
        return raw.select(*columns, source, f.lit(None).cast("string").alias(PROBLEM))
    if how.format != "json":
        return _decoded_by_workers(raw.select(source), how)
    schema = f"{how.schema}, {_CORRUPT} string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = raw.select(source, f.from_json(f.col("value").cast("string"), schema, options).alias("row"))
    problem = (
        f.when(f.col(f"{SOURCE}.value").isNull(), f.lit("the record has no value"))
        .when(f.col(f"row.{_CORRUPT}").isNotNull(), f.lit(f"not JSON of the schema {how.schema}"))
        .alias(PROBLEM)
    )
    return parsed.select("row.*", SOURCE, problem).drop(_CORRUPT)


def _decoded_by_workers(sources: DataFrame, how: Decode) -> DataFrame:
    """Decode as ``decode`` does, for formats that ``format("kohort")`` decodes and the JVM does not, or not alike."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    from kohort.spark.values.value_format import ValueFormat

    columns = StructType.fromDDL(how.schema)
    fields = to_arrow_schema(columns, timezone="UTC").empty_table().schema
    value = ValueFormat(how.format, fields, how.separator, avro=how.avro_schema, framing=how.framing)

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            records = batch.column(SOURCE)
            found = value.decode(pc.struct_field(records, "value"))
            why = pa.array([found.problems.get(row) for row in range(len(records))], pa.string())
            names = [*value.schema.names, SOURCE, PROBLEM]
            yield pa.RecordBatch.from_arrays([*found.columns, records, why], names)

    schema = StructType([*columns.fields, *sources.schema.fields, StructField(PROBLEM, StringType())])
    return sources.mapInArrow(decoded, schema)


def counts_by(frame: DataFrame, column: str) -> dict[str, Count]:
    """Return the rows of each value of a column, and their mark, from the data; where it is null, under the empty text.

    Without ``_source`` the mark is 0.
    """
    return _counts(_grouped(frame, column))


def counts_of_source(decoded: DataFrame) -> tuple[dict[str, Count], int]:
    """Return what ``counts_by`` says of ``_problem``, and how many of all the rows may have been delivered before."""
    from pyspark.sql import functions as f

    again = f.count_if(f.col(f"{SOURCE}.{REDELIVERED}"))
    rows = _grouped(decoded, PROBLEM, again.alias("again"))
    return _counts(rows), sum(row["again"] for row in rows)


def _grouped(frame: DataFrame, column: str, *more: Column) -> list[Row]:
    from pyspark.sql import functions as f

    mark: Column = f.lit(0).cast("long")
    if SOURCE in frame.columns:
        mark = f.bit_xor(f.xxhash64(f"{SOURCE}.topic", f"{SOURCE}.partition", f"{SOURCE}.offset"))
    else:
        mark = f.max(mark)
    totals = (f.count(f.lit(1)).alias("n"), mark.alias("mark"), *more)
    found: list[Row] = frame.groupBy(f.col(column).alias("k")).agg(*totals).collect()
    return found


def _counts(rows: Iterable[Row]) -> dict[str, Count]:
    return {row["k"] or "": Count(row["n"], row["mark"] or 0) for row in rows}


def judge(frame: DataFrame, rules: Sequence[RowRule]) -> DataFrame:
    """Add ``_failed``: the numbers of the rules that a row fails, in their order, as text such as ``0,2``; else null.

    A rule whose condition is null for a row is not satisfied by it.
    """
    from pyspark.sql import functions as f

    if not rules:
        return frame.withColumn(FAILED, f.lit(None).cast("string"))
    failed = [f.when(~f.coalesce(f.expr(rule.condition), f.lit(False)), f.lit(str(i))) for i, rule in enumerate(rules)]
    return frame.withColumn(FAILED, f.nullif(f.concat_ws(",", *failed), f.lit("")))


def failed_rules(verdict: str, rules: Sequence[RowRule]) -> list[RowRule]:
    """Return the rules behind a value of ``_failed``."""
    return [rules[int(i)] for i in verdict.split(",")]
