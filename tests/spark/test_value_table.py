"""Comparison of decoded values with the expected results in a value table, for the readers of kohort and of Spark.

The readers of kohort are a batch read with ``format("kohort")``, a table source of a pipeline, a pipeline run without
a window, a pipeline run with a window, and a test in the pipeline file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.spark.pipeline.definition import Decode, Pipeline
from kohort.spark.pipeline.file_tests import records_frame
from kohort.spark.pipeline.frames import PROBLEM, decode_records, load_decoded
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.stateful import stream_frame
from kohort.spark.pipeline.sources import stream_options, table_options
from kohort.spark.records_frame import to_records
from support.spark.finite_query import run_to_end
from support.values.csv_values import CSV_PAIRS, CSV_VALUES, PAIR
from support.values.json_times import JSON_TIMES
from support.values.json_values import JSON_VALUES
from support.values.plain import plain
from support.values.value import BAD, Value

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

ZONE = "America/New_York"
JSON = tuple(value for value in (*JSON_VALUES, *JSON_TIMES) if value.type != "time")
TIMES_OF_DAY = tuple(value for value in JSON_TIMES if value.type == "time")
TYPES = list(dict.fromkeys(value.type for value in JSON))
CSV_TYPES = list(dict.fromkeys(value.type for value in CSV_VALUES))
PIPELINE = """\
name: values
source: {brokers: "${BROKERS}", topics: ["${TOPIC}"], group: "${TOPIC}", start: earliest}
decode: {format: "${FORMAT}", schema: "${SCHEMA}"}
steps: [{sql: select * from input}]
sinks: [{noop: }]
dlq: {topic: "${TOPIC}-dead"}
checkpoint: state
"""
NAME = re.compile(rb"""(["'])(?:v|\\u0076)(["'])""")
Rows = dict[int, Any]
"""Dict from the index of a value in the value table to its result: a decoded value, a tuple of columns, or BAD."""


@pytest.fixture
def new_york(spark: Any) -> Iterator[Any]:
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def wide(values: tuple[Value, ...]) -> tuple[str, list[bytes | None], list[list[int]]]:
    """Return a schema with one column for each type, records with its column names, and the columns of each record."""
    schema = ", ".join(f"c{i} {kind}" for i, kind in enumerate(TYPES))
    renamed, columns = [], []
    for value in values:
        column = TYPES.index(value.type)
        own = value.value
        renamed.append(None if own is None else NAME.sub(rb"\g<1>c%d\g<2>" % column, own))
        columns.append([column])
    return schema, renamed, columns


class Readers:
    """The readers of kohort on one topic."""

    def __init__(self, spark: Any, cluster: Any, folder: Path, kind: str, schema: str, records: list[Any]) -> None:
        self.spark = spark
        self.topic = cluster.new_topic(partitions=1)
        cluster.produce(self.topic, [(b"k", record) for record in records])
        self.how = Decode(kind, schema)
        self.records = records
        environ = {"BROKERS": cluster.bootstrap, "TOPIC": self.topic, "FORMAT": kind, "SCHEMA": schema}
        self.pipeline: Pipeline = parse_pipeline(PIPELINE, folder / "values.yaml", environ)
        self.folder = folder / self.topic

    def batch(self) -> Any:
        """Return rows of ``format("kohort")``. The time zone is that of the Spark session, not an option."""
        options = {**table_options(self.pipeline.stream), "value.format": self.how.format, "badRecords": "null"}
        schema = f"{self.how.schema}, _error string, _offset bigint"
        frame = self.spark.read.format("kohort").options(**options).schema(schema).load()
        return frame.withColumnRenamed("_offset", "at").withColumnRenamed("_error", PROBLEM)

    def table(self) -> Any:
        reader = self.spark.read.format("kohort").options(**table_options(self.pipeline.stream))
        return load_decoded(reader, self.spark, self.how).withColumn("at", self._offset())

    def test(self) -> Any:
        null_rows = [{"key": "k", "value": None} for _ in self.records]
        frame = records_frame(self.spark, self.pipeline.stream, null_rows)
        rows = [
            (*row[:1], record and bytearray(record), *row[2:])
            for row, record in zip(frame.collect(), self.records, strict=True)
        ]
        records = self.spark.createDataFrame(rows, frame.schema)
        return decode_records(records, self.how).withColumn("at", self._offset())

    def run(self) -> Any:
        reader = self.spark.readStream.format("kohort").options(**stream_options(self.pipeline.stream))
        frame = load_decoded(reader, self.spark, self.how).withColumn("at", self._offset())
        return self._written(frame, "run")

    def window(self) -> Any:
        """Return the good rows that a stream passes to a window. Bad values become dead letters."""
        rules = "expect: [{check: 1 = 1, else: quarantine, reason: keeps the source}]\n"
        environ = {"BROKERS": self.pipeline.stream.brokers, "TOPIC": self.topic}
        text = PIPELINE.replace("sinks:", f"{rules}sinks:")
        environ |= {"FORMAT": self.how.format, "SCHEMA": self.how.schema}
        pipeline = parse_pipeline(text, self.folder.with_suffix(".yaml"), environ)
        frame = stream_frame(self.spark, pipeline, pipeline.stream).withColumn("at", self._offset())
        return self._written(frame, "window")

    @staticmethod
    def _offset() -> Any:
        from pyspark.sql import functions as f

        return f.col("_source.offset")

    def _written(self, frame: Any, name: str) -> Any:
        """Run a stream to its end and return its rows."""
        found: list[Any] = []
        writer = frame.drop("_source").writeStream.foreachBatch(lambda rows, _: found.append(rows.toArrow()))
        writer = writer.option("checkpointLocation", str(self.folder / name)).trigger(availableNow=True)
        run_to_end(writer.start)
        return found


def results(read: Any, columns: list[list[int]]) -> Rows:
    """Return the result for each value. ``read``: a DataFrame, or the Arrow tables of a stream."""
    tables = read if isinstance(read, list) else [read.drop("_source").toArrow()]
    rows: Rows = {}
    for table in tables:
        places = table.column("at").to_pylist()
        problems = table.column(PROBLEM).to_pylist() if PROBLEM in table.column_names else [None] * len(places)
        values = [plain(table.column(i).combine_chunks()) for i in range(1 + max(max(c) for c in columns))]
        for row, (place, problem) in enumerate(zip(places, problems, strict=True)):
            own = [values[i][row] for i in columns[place]]
            rows[place] = BAD if problem else own[0] if len(own) == 1 else tuple(own)
    return rows


def of_spark(spark: Any, reader: Callable[..., Any], schema: str, records: list[Any], columns: Any) -> Rows:
    """Return the result of ``from_json`` or ``from_csv`` for each value."""
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"}
    rows = [(i, record and bytearray(record)) for i, record in enumerate(records)]
    frame = spark.createDataFrame(rows, "at long, value binary").coalesce(1)
    read = reader(f.col("value").cast("string"), f"{schema}, _bad string", options).alias("row")
    problem = f.when(f.col("row._bad").isNotNull(), "bad").alias(PROBLEM)
    return results(frame.select("at", read).select("row.*", "at", problem).drop("_bad"), columns)


def check(table: tuple[Value, ...], readers: Readers, own: Callable[..., Any], columns: list[list[int]]) -> None:
    """Compare the results of each reader, and of Spark's own reader, with the value table."""
    kohort = {place: value.kohort for place, value in enumerate(table)}
    for read in (readers.batch, readers.table, readers.test, readers.run):
        assert (read.__name__, differences(table, results(read(), columns), kohort)) == (read.__name__, [])
    good = {place: result for place, result in kohort.items() if result is not BAD}
    found = results(readers.window(), columns)
    assert found.keys() == good.keys()
    assert differences(table, found, good) == []
    theirs = of_spark(readers.spark, own, readers.how.schema, readers.records, columns)
    assert differences(table, theirs, {place: value.of_spark for place, value in enumerate(table)}) == []


def differences(table: tuple[Value, ...], found: Rows, expected: Rows) -> list[tuple[Any, ...]]:
    """Return type, value, actual result and expected result of each value whose results differ."""
    return [
        (table[place].type, table[place].value, found.get(place, "no row"), result)
        for place, result in expected.items()
        if place not in found or found[place] != result
    ]


def test_json_values_are_decoded_as_the_value_table_expects_in_each_kind_of_read(
    new_york: Any, cluster: Any, tmp_path: Path
) -> None:
    from pyspark.sql.functions import from_json

    schema, records, columns = wide(JSON)
    readers = Readers(new_york, cluster, tmp_path, "json", schema, records)

    check(JSON, readers, from_json, columns)


def test_json_times_of_day_are_decoded_as_the_value_table_expects(new_york: Any, cluster: Any, tmp_path: Path) -> None:
    from pyspark.sql.functions import from_json

    readers = Readers(new_york, cluster, tmp_path, "json", "v time", [value.value for value in TIMES_OF_DAY])
    columns = [[0]] * len(TIMES_OF_DAY)
    expected = {place: value.kohort for place, value in enumerate(TIMES_OF_DAY)}

    for read in (readers.batch, readers.table, readers.test):
        assert differences(TIMES_OF_DAY, results(read(), columns), expected) == []
    theirs = of_spark(new_york, from_json, "v time", readers.records, columns)
    assert differences(TIMES_OF_DAY, theirs, expected) == []


def test_to_records_keeps_microseconds_and_null_fields(new_york: Any) -> None:
    frame = new_york.sql("select 1 as id, timestamp'2024-01-15T10:20:30.123456Z' as at, cast(null as string) as name")

    (row,) = to_records(frame).selectExpr("cast(value as string) as value").collect()

    assert json.loads(row["value"]) == {"id": 1, "at": "2024-01-15T05:20:30.123456-05:00", "name": None}


def test_csv_values_are_decoded_as_the_value_table_expects_in_each_kind_of_read(
    new_york: Any, cluster: Any, tmp_path: Path
) -> None:
    from pyspark.sql.functions import from_csv

    values = tuple(value for value in CSV_VALUES if value.value)  # the test of value pairs covers the empty record
    schema = "first int, " + ", ".join(f"c{i} {kind}" for i, kind in enumerate(CSV_TYPES))
    places = [1 + CSV_TYPES.index(value.type) for value in values]
    records = [
        b"1" + b"," * place + (value.value or b"") + b"," * (len(CSV_TYPES) - place)
        for place, value in zip(places, values, strict=True)
    ]
    columns = [[place] for place in places]
    check(values, Readers(new_york, cluster, tmp_path, "csv", schema, records), from_csv, columns)

    pairs = [value.value for value in CSV_PAIRS]
    readers = Readers(new_york, cluster, tmp_path, "csv", PAIR, pairs)
    check(CSV_PAIRS, readers, from_csv, [[0, 1]] * len(pairs))
