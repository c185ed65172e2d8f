"""The sinks: each writes the rows of one micro-batch and says how many rows it then holds, counted from what it wrote.

Parquet gets a folder for each micro-batch (``batch=7``), replaced if Spark repeats the batch: so its rows are there
exactly once. A topic is at least once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kohort.errors import KohortError
from kohort.spark.pipeline.definition import DeadLetters, Pipeline, Rule, Sink
from kohort.spark.pipeline.deliver import deliver, ensure_topic
from kohort.spark.pipeline.frames import FAILED, PROBLEM, SOURCE, failed_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession


class SinkRefused(KohortError):
    """A sink that cannot take this run's rows without mixing or losing some."""


def prepare_sinks(pipeline: Pipeline, *, fresh: bool) -> None:
    """Create topics; refuse a Parquet folder that holds another checkpoint's rows."""
    for sink in pipeline.sinks:
        if sink.kind == "topic":
            ensure_topic(sink.brokers, sink.topic)
        if sink.kind == "parquet" and sink.path and fresh and any(sink.path.glob("batch=*")):
            raise SinkRefused(
                f"sink {sink.name}: {sink.path} holds rows, and {pipeline.state} is a new checkpoint, which would mix "
                "them with its own: remove the folder, or give another path"
            )
    if pipeline.dead_letters:
        letters = pipeline.dead_letters
        ensure_topic(letters.brokers, letters.topic, letters.partitions)


def write_rows(sink: Sink, rows: DataFrame, batch: int) -> int:
    """Write one micro-batch and return its rows, counted from what the sink holds (or was acknowledged)."""
    if sink.kind == "parquet" and sink.path is not None:
        target = _batch_folder(sink.path, batch)
        writer = rows.write.mode("overwrite")
        (writer.partitionBy(*sink.partition_by) if sink.partition_by else writer).parquet(target)
        return counted(rows.sparkSession.read.schema(rows.schema).parquet(target), sink.counts)
    if sink.kind == "topic":
        expected = counted(rows, sink.counts)
        sent = deliver(_as_records(rows, sink), sink.brokers)
        if not sink.counts:
            return sent
        return expected
    if sink.kind == "console":
        rows.show(sink.rows, truncate=False)
    else:
        rows.write.format("noop").mode("overwrite").save()
    return counted(rows, sink.counts)


def counted(rows: DataFrame, counts: str) -> int:
    """How many rows of the source a frame stands for: its rows, or the sum of the column that says so."""
    if not counts:
        return int(rows.count())
    from pyspark.sql import functions as f

    return int(rows.agg(f.sum(counts)).collect()[0][0] or 0)


def read_sink(spark: SparkSession, sink: Sink) -> DataFrame:
    """Everything that a Parquet sink holds."""
    return spark.read.option("basePath", str(sink.path)).parquet(str(sink.path)).drop("batch")


def _batch_folder(path: Path, batch: int) -> str:
    return str(path / f"batch={batch}")


def _as_records(rows: DataFrame, sink: Sink) -> DataFrame:
    from pyspark.sql import functions as f

    key = f.col(sink.key).cast("string") if sink.key else f.lit(None)
    return rows.select(
        f.lit(sink.topic).alias("topic"),
        key.cast("binary").alias("key"),
        f.to_json(f.struct("*")).cast("binary").alias("value"),
        f.array().cast("array<struct<key:string,value:binary>>").alias("headers"),
    )


def send_undecoded(rows: DataFrame, pipeline: Pipeline, batch: int) -> int:
    """Set aside rows that could not be decoded; return how many the dead-letter topic acknowledged."""
    from pyspark.sql import functions as f

    letters = _letters_of(pipeline)
    bad = rows.where(f"{PROBLEM} is not null")
    return deliver(
        _as_letters(bad, letters, pipeline, batch, "decode", f.lit("decode"), f.col(PROBLEM)), letters.brokers
    )


def send_quarantined(rows: DataFrame, pipeline: Pipeline, batch: int, verdicts: Sequence[str]) -> int:
    """Set aside rows with these verdicts, with every reason; return how many were acknowledged."""
    from pyspark.sql import functions as f

    letters = _letters_of(pipeline)
    names, reasons = f.lit(None).cast("string"), f.lit(None).cast("string")
    for verdict in verdicts:
        failed = failed_rules(verdict, pipeline.rules)
        names = f.when(f.col(FAILED) == verdict, f.lit("; ".join(r.name for r in failed))).otherwise(names)
        reasons = f.when(f.col(FAILED) == verdict, f.lit("; ".join(r.reason for r in failed))).otherwise(reasons)
    bad = rows.where(f.col(FAILED).isin(list(verdicts)))
    return deliver(_as_letters(bad, letters, pipeline, batch, "expect", names, reasons), letters.brokers)


def quarantines(verdict: str, rules: Sequence[Rule]) -> bool:
    """Whether a row with this verdict is set aside; a row that only fails ``drop`` rules is dropped."""
    return any(r.otherwise == "quarantine" for r in failed_rules(verdict, rules))


def _letters_of(pipeline: Pipeline) -> DeadLetters:
    if pipeline.dead_letters is None:
        raise SinkRefused(
            f"{pipeline.file}: rows cannot be decoded and there is no dlq: give dlq: {{topic: {pipeline.name}-dlq}}"
        )
    return pipeline.dead_letters


def _as_letters(
    rows: DataFrame, letters: DeadLetters, pipeline: Pipeline, batch: int, stage: str, rule: Column, reason: Column
) -> DataFrame:
    """The original key, value and headers, and headers ``kohort-error.*`` that say why and from where."""
    from pyspark.sql import functions as f

    if SOURCE not in rows.columns:
        raise SinkRefused(
            f"{pipeline.file}: the steps leave out the column {SOURCE}, without which a row cannot become a dead "
            "letter: select it in each step (select f.*, ... keeps it)"
        )

    said = {
        "reason": reason,
        "rule": rule,
        "stage": f.lit(stage),
        "pipeline": f.lit(pipeline.name),
        "batch": f.lit(str(batch)),
        "topic": f.col(f"{SOURCE}.topic"),
        "partition": f.col(f"{SOURCE}.partition").cast("string"),
        "offset": f.col(f"{SOURCE}.offset").cast("string"),
    }
    pairs = [
        f.struct(f.lit(f"kohort-error.{n}").alias("key"), c.cast("string").cast("binary").alias("value"))
        for n, c in said.items()
    ]
    return rows.select(
        f.lit(letters.topic).alias("topic"),
        f.col(f"{SOURCE}.key").alias("key"),
        f.col(f"{SOURCE}.value").alias("value"),
        f.concat(
            f.coalesce(f.col(f"{SOURCE}.headers"), f.array().cast("array<struct<key:string,value:binary>>")),
            f.array(*pairs),
        ).alias("headers"),
    )
