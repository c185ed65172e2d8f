"""Sources of a pipeline as decoded rows: one decoder for runs, tables, tests and dry runs.

A run and a table decode in the task that reads (``value.format`` of ``format("kohort")``). A test and a dry run have
records and no topic; the same row builder decodes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.spark.options.source import SourceOptions
from kohort.spark.pipeline.definition import Decode
from kohort.spark.pipeline.frames import PROBLEM, RECORD_COLUMNS, SOURCE
from kohort.spark.values.columns import REDELIVERED, TYPES
from kohort.spark.values.row_builders import ERROR, row_builder_of
from kohort.spark.values.session_zone import SESSION_ZONE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

RAW_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
"""The columns of undecoded records, with the flag of a possible redelivery."""
_SOURCE_COLUMNS: Final = (*RECORD_COLUMNS, REDELIVERED)


def load_decoded(reader: Any, spark: SparkSession, how: Decode) -> DataFrame:
    """Load a source, by a reader of Spark's with its options set, as rows with ``_source`` and ``_problem``."""
    if how.format == "raw":
        return _raw_rows(reader.schema(RAW_SCHEMA).load())
    options = {**decode_options(spark, how), "badRecords": "null"}
    return _rows(reader.options(**options).schema(decoded_schema(how, _SOURCE_COLUMNS)).load(), how)


def decode_records(records: DataFrame, how: Decode) -> DataFrame:
    """Return the same rows for records that are in a frame."""
    if how.format == "raw":
        return _raw_rows(records)
    schema = decoded_schema(how, _SOURCE_COLUMNS)
    options = SourceOptions(
        "",
        value_format=how.format,
        value_separator=how.separator,
        time_zone=records.sparkSession.conf.get(SESSION_ZONE),
        tombstones=how.tombstones,
        avro_schema=how.avro_schema,
        avro_framing=how.framing,
        bad_records="null",
    )
    builder = row_builder_of(schema, options)

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield builder.build(batch)

    return _rows(records.withColumnRenamed("timestampType", "timestamp_type").mapInArrow(decoded, schema), how)


def decode_options(spark: SparkSession, how: Decode) -> dict[str, str]:
    """Return the options of ``format("kohort")`` that decode as ``how`` says."""
    return {**how.options, "value.timeZone": str(spark.conf.get(SESSION_ZONE))}


def decoded_schema(how: Decode, record_columns: Sequence[str]) -> StructType:
    """Return the columns of the value, ``_error``, and these columns of the record (``_topic``, ...).

    All columns of the value are nullable, as for ``from_json``: a value may lack any of them.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    columns = [StructField(f.name, _nullable(f.dataType)) for f in StructType.fromDDL(how.schema).fields]
    names = {column.name for column in columns}
    own = StructType.fromDDL(", ".join(f"_{name} {TYPES[name]}" for name in record_columns))
    more = [StructField(ERROR, StringType()), *own.fields]
    return StructType([*columns, *(field for field in more if field.name not in names)])


def _nullable(kind: Any) -> Any:
    """Return a type whose parts may all be NULL, with text of any length."""
    from pyspark.sql.types import ArrayType, CharType, MapType, StringType, StructField, StructType, VarcharType

    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType)) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return StringType() if isinstance(kind, CharType | VarcharType) else kind


def _rows(decoded: DataFrame, how: Decode) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    values = StructType.fromDDL(how.schema).fieldNames()
    source = f.struct(*(f.col(f"`_{name}`").alias(name) for name in _SOURCE_COLUMNS)).alias(SOURCE)
    return decoded.select(*(f"`{name}`" for name in values), source, f.col(ERROR).alias(PROBLEM))


def _raw_rows(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    source = f.struct(*_SOURCE_COLUMNS).alias(SOURCE)
    columns = [name for name in records.columns if name != REDELIVERED]
    return records.select(*columns, source, f.lit(None).cast("string").alias(PROBLEM))
