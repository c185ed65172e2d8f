"""The sinks: each writes the rows of one micro-batch and says how many rows it then holds, counted from what it wrote.

Parquet gets files whose names begin with the micro-batch, replaced if Spark repeats it (see parquet_folder.py): so its
rows are there exactly once. A topic is at least once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kohort.spark.pipeline.definition import DeadLetters, Pipeline, RowRule, Sink
from kohort.spark.pipeline.frames import FAILED, PROBLEM, SOURCE, failed_rules
from kohort.spark.pipeline.outputs.deliver import deliver, ensure_topic
from kohort.spark.pipeline.outputs.folder_claim import claim_sink, claim_summary
from kohort.spark.pipeline.outputs.parquet_folder import ParquetFolder, SinkRefused, rows_in
from kohort.spark.records_frame import json_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession


_TIMES: Final = "spark.sql.parquet.outputTimestampType"


def prepare_sinks(pipeline: Pipeline) -> None:
    """Claim the folders of Parquet sinks and summaries, then create topics. Raises SinkRefused before anything is
    written."""
    for sink in pipeline.sinks:
        if sink.kind == "parquet":
            claim_sink(pipeline, sink)
    for summary in pipeline.summaries:
        claim_summary(pipeline, summary)
    for sink in pipeline.sinks:
        if sink.kind == "topic":
            ensure_topic(sink.client, sink.topic)
    if pipeline.dead_letters:
        letters = pipeline.dead_letters
        ensure_topic(letters.client, letters.topic, letters.partitions)


def write_rows(sink: Sink, rows: DataFrame, batch: int, folder: ParquetFolder | None) -> int:
    """Write one micro-batch and return its rows, counted from what the sink holds (or was acknowledged). ``folder``: of
    a Parquet sink, where the micro-batch is begun."""
    if folder is not None:
        return rows_in(write_files(rows, folder, batch, sink.partition_by), sink.counts)
    if sink.kind == "topic":
        expected = counted(rows, sink.counts)
        sent = deliver(_as_records(rows, sink), sink.client)
        if not sink.counts:
            return sent
        return expected
    if sink.kind == "console":
        rows.show(sink.rows, truncate=False)
    else:
        rows.write.format("noop").mode("overwrite").save()
    return counted(rows, sink.counts)


def write_files(rows: DataFrame, folder: ParquetFolder, batch: int, partition_by: Sequence[str] = ()) -> list[Path]:
    """Write rows to a folder, as the files of a micro-batch that was begun there, and return the files."""
    conf = rows.sparkSession.conf
    before = conf.get(_TIMES)
    # The type that all readers know; Spark's default is one that Parquet has given up (INT96).
    conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        writer = rows.write.mode("overwrite")
        (writer.partitionBy(*partition_by) if partition_by else writer).parquet(str(folder.staging))
    finally:
        conf.set(_TIMES, before)
    return folder.publish(batch)


def counted(rows: DataFrame, counts: str) -> int:
    """Return how many rows of the source a frame stands for: its rows, or the sum of the column that says so."""
    if not counts:
        return int(rows.count())
    from pyspark.sql import functions as f

    return int(rows.agg(f.sum(counts)).collect()[0][0] or 0)


def read_sink(spark: SparkSession, folder: ParquetFolder) -> DataFrame:
    """Return all rows that the owner has written to the folder of a Parquet sink."""
    return spark.read.option("pathGlobFilter", f"*-{folder.owner.id}.parquet").parquet(str(folder.path))


def _as_records(rows: DataFrame, sink: Sink) -> DataFrame:
    from pyspark.sql import functions as f

    key = f.col(sink.key).cast("string") if sink.key else f.lit(None)
    return rows.select(
        f.lit(sink.topic).alias("topic"),
        key.cast("binary").alias("key"),
        json_bytes(["*"]).alias("value"),
        f.array().cast("array<struct<key:string,value:binary>>").alias("headers"),
    )


def send_undecoded(rows: DataFrame, pipeline: Pipeline, batch: int) -> int:
    """Set aside rows that could not be decoded; return how many the dead-letter topic acknowledged."""
    from pyspark.sql import functions as f

    letters = _letters_of(pipeline)
    bad = rows.where(f"{PROBLEM} is not null")
    why = {"reason": f.col(PROBLEM), "rule": f.lit("decode"), "stage": f.lit("decode")}
    return deliver(_as_letters(bad, pipeline, batch, why), letters.client, letters=True)


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
    why = {"reason": reasons, "rule": names, "stage": f.lit("expect")}
    return deliver(_as_letters(bad, pipeline, batch, why), letters.client, letters=True)


def quarantines(verdict: str, rules: Sequence[RowRule]) -> bool:
    """Tell whether a row with this verdict is set aside; a row that only fails ``drop`` rules is dropped."""
    return any(r.otherwise == "quarantine" for r in failed_rules(verdict, rules))


def _letters_of(pipeline: Pipeline) -> DeadLetters:
    if pipeline.dead_letters is None:
        raise SinkRefused(
            f"{pipeline.file}: rows cannot be decoded and there is no dlq: give dlq: {{topic: {pipeline.name}-dlq}}"
        )
    return pipeline.dead_letters


def _as_letters(rows: DataFrame, pipeline: Pipeline, batch: int, why: Mapping[str, Column]) -> DataFrame:
    """Return the original key, value and headers, and headers ``kohort-error.*`` that say ``why`` and from where."""
    from pyspark.sql import functions as f

    if SOURCE not in rows.columns:
        raise SinkRefused(
            f"{pipeline.file}: the steps leave out the column {SOURCE}, without which a row cannot become a dead "
            "letter: select it in each step (select f.*, ... keeps it)"
        )

    said = {
        **why,
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
        f.lit(_letters_of(pipeline).topic).alias("topic"),
        f.col(f"{SOURCE}.key").alias("key"),
        f.col(f"{SOURCE}.value").alias("value"),
        f.concat(
            f.coalesce(f.col(f"{SOURCE}.headers"), f.array().cast("array<struct<key:string,value:binary>>")),
            f.array(*pairs),
        ).alias("headers"),
    )
