"""Avro values of the value table, read by Apache Spark: by ``from_avro``, and from a file with a given schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.spark.packages import spark_with_packages
from support.values.avro_values import AVRO_VALUES, AvroValue
from support.values.plain import plain
from support.values.value import BAD

pytestmark = [
    pytest.mark.interop,
    pytest.mark.toolchain,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
SYNC = bytes(range(16))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_with_packages() as session:
        session.sparkContext.setLogLevel("OFF")
        yield session


def read_by_schema(spark: Any, value: AvroValue, folder: Path) -> Any:
    """Write an Avro file with one value, and return Spark's result for a column of the type in the value table."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    file = folder / "value.avro"
    file.write_bytes(container_of(value))
    try:
        read = spark.read.format("avro").schema(f"v {value.type}").load(str(file)).toArrow()
    except (Py4JJavaError, PySparkException):
        return BAD
    return plain(read.column("v").combine_chunks())[0]


def read_by_from_avro(spark: Any, value: AvroValue) -> tuple[str, Any]:
    """Return type and value of the field as ``from_avro`` reads it."""
    from pyspark.sql.avro.functions import from_avro

    frame = spark.createDataFrame([(bytearray(value.value),)], "value binary")
    read = frame.select(from_avro("value", value.schema).alias("row")).select("row.v")
    return read.schema[0].dataType.simpleString(), plain(read.toArrow().column("v").combine_chunks())[0]


def container_of(value: AvroValue) -> bytes:
    """Return an Avro object container file with one record."""
    head = b"Obj\x01" + varint(1) + sized(b"avro.schema") + sized(value.schema.encode()) + varint(0) + SYNC
    return head + varint(1) + sized(value.value) + SYNC


def sized(content: bytes) -> bytes:
    return varint(len(content)) + content


def varint(number: int) -> bytes:
    remaining, found = number << 1, b""
    while remaining > 0x7F:
        found, remaining = found + bytes([remaining & 0x7F | 0x80]), remaining >> 7
    return found + bytes([remaining])


def test_spark_reads_avro_values_as_the_value_table_expects(spark: Any, tmp_path: Path) -> None:
    found = [(value, read_by_schema(spark, value, tmp_path)) for value in AVRO_VALUES]

    assert [(value.written, value.type, of, value.of_spark) for value, of in found if of != value.of_spark] == []


def test_from_avro_results_match_table_for_equal_column_types(spark: Any) -> None:
    found = [(value, *read_by_from_avro(spark, value)) for value in AVRO_VALUES]
    same = [(value, result) for value, kind, result in found if kind == value.type]

    assert len(same) >= 20
    assert [(value.written, result, value.kohort) for value, result in same if result != value.kohort] == []
