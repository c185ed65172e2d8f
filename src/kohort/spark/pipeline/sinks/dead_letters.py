"""Dead letters of a pipeline: source records, with headers that describe the error and the source offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kohort.spark.pipeline.definition import FAILED, PROBLEM, SOURCE, DeadLetters, Pipeline, RowRule
from kohort.spark.pipeline.frames import IS_UNDECODED, failed_rules
from kohort.spark.pipeline.sinks.parquet_folder import SinkRefused
from kohort.spark.pipeline.sinks.topic import deliver
from kohort.spark.records_frame import HEADERS_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame


def send_undecoded(rows: DataFrame, pipeline: Pipeline, batch: int) -> int:
    letters = _letters_of(pipeline)
    bad = rows.where(IS_UNDECODED)
    why = {"reason": f.col(PROBLEM), "rule": f.lit("decode"), "stage": f.lit("decode")}
    return deliver(_as_letters(bad, pipeline, batch, why), letters.client, letters=True)


def send_quarantined(rows: DataFrame, pipeline: Pipeline, batch: int, verdicts: Sequence[str]) -> int:
    """Send the source records of rows that failed rules as dead letters. Return the number of acknowledged letters.

    ``verdicts``: values of the column ``_failed`` of these rows.
    """
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
    """True if one of the failed rules is a quarantine rule; False if all are ``drop`` rules."""
    return any(r.otherwise == "quarantine" for r in failed_rules(verdict, rules))


def _letters_of(pipeline: Pipeline) -> DeadLetters:
    if pipeline.dead_letters is None:
        raise SinkRefused(
            f"{pipeline.file}: some rows cannot be decoded, and the pipeline has no dead-letter topic: "
            f"add dlq: {{topic: {pipeline.name}-dlq}}"
        )
    return pipeline.dead_letters


def _as_letters(rows: DataFrame, pipeline: Pipeline, batch: int, why: Mapping[str, Column]) -> DataFrame:
    if SOURCE not in rows.columns:
        raise SinkRefused(
            f"{pipeline.file}: the steps drop the column {SOURCE}, which dead letters need: select it in each step "
            "(select f.*, ... keeps it)"
        )

    error_headers = {
        **why,
        "pipeline": f.lit(pipeline.name),
        "batch": f.lit(str(batch)),
        "topic": f.col(f"{SOURCE}.topic"),
        "partition": f.col(f"{SOURCE}.partition").cast("string"),
        "offset": f.col(f"{SOURCE}.offset").cast("string"),
    }
    pairs = [
        f.struct(f.lit(f"kohort-error.{n}").alias("key"), c.cast("string").cast("binary").alias("value"))
        for n, c in error_headers.items()
    ]
    return rows.select(
        f.lit(_letters_of(pipeline).topic).alias("topic"),
        f.col(f"{SOURCE}.key").alias("key"),
        f.col(f"{SOURCE}.value").alias("value"),
        f.concat(f.coalesce(f.col(f"{SOURCE}.headers"), f.array().cast(HEADERS_TYPE)), f.array(*pairs)).alias(
            "headers"
        ),
    )
