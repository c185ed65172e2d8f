"""Stateful pipelines, whose steps combine rows of different micro-batches: windows, watermarks, joins of streams.

All steps form one streaming plan with state in Spark, instead of a batch plan for each micro-batch. So Spark's observed
metrics count the input rows, and the decoding tasks send bad values as dead letters. The numbers of output rows and
input rows differ: the ledger includes rows in state and late rows.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from kohort.errors import KohortError
from kohort.spark.pipeline import frames
from kohort.spark.pipeline.definition import FAILED, RECORD_COLUMNS, SOURCE, Pipeline, Source, source_rows
from kohort.spark.pipeline.frames import RAW_SCHEMA, StepFailed
from kohort.spark.pipeline.ledger import Count, Entry, Ledger, rows_in_open_windows, total
from kohort.spark.pipeline.pipeline_owner import owner_of
from kohort.spark.pipeline.running.batches import BatchRunner
from kohort.spark.pipeline.sources import stream_options
from kohort.spark.values.columns import REDELIVERED
from kohort.spark.values.row_builders import ERROR, SKIPPED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS: Final = "rows"
_BAD: Final = "undecoded"
_SKIPPED: Final = "skipped"
_AGAIN: Final = "redelivered"
_COUNT: Final = re.compile(r"count\(\s*(\*|1)\s*\)", re.IGNORECASE)
_STATE_NAMES: Final = {"symmetricHashJoin": "join", "stateStoreSave": "windows", "dedupe": "duplicates"}


def stream_frame(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    """Return the decodable rows of a source as a stream, with the watermark of the source.

    Metrics in Spark's progress events count all rows of the source, also undecodable rows.
    """
    reader = spark.readStream.format("kohort").options(**stream_options(source, owner_of(pipeline)))
    keeps = any(r.otherwise == "quarantine" for r in pipeline.rules)
    if source.decode.format == "raw":
        frame = reader.schema(RAW_SCHEMA).load().withColumn(ERROR, f.lit(None).cast("string"))
        record = {name: f.col(name) for name in (*RECORD_COLUMNS, REDELIVERED)}
        again, extra = REDELIVERED, [REDELIVERED]
    else:
        again = f"_{REDELIVERED}"
        own = [*(RECORD_COLUMNS if keeps else ()), REDELIVERED]
        extra = [f"_{name}" for name in own]
        letters = pipeline.dead_letters
        bad = {"badRecords": "dlq", "deadLetterTopic": letters.topic} if letters else {"badRecords": "fail"}
        options = {**frames.decode_options(spark, source.decode), **bad}
        frame = reader.options(**options).schema(frames.decoded_schema(source.decode, own)).load()
        record = {name.removeprefix("_"): f.col(name) for name in extra}
    if keeps:
        frame = frame.withColumn(SOURCE, f.struct(*(column.alias(name) for name, column in record.items())))
    counts = [
        f.count(f.lit(1)).alias(_ROWS),
        f.count_if(f.col(ERROR) != SKIPPED).alias(_BAD),
        f.count_if(f.col(ERROR) == SKIPPED).alias(_SKIPPED),
        f.count_if(again).alias(_AGAIN),
    ]
    good = frame.observe(_metric(source), *counts).where(f"{ERROR} is null").drop(ERROR, *extra)
    return good.withWatermark(*source.watermark) if source.watermark else good


def _metric(source: Source) -> str:
    return f"kohort_{source.name}"


def result_frame(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    for source in pipeline.streams[1:]:
        stream_frame(spark, pipeline, source).createOrReplaceTempView(source.name)
    return frames.run_steps(pipeline, stream_frame(spark, pipeline, pipeline.stream))


def check_streams(frame: DataFrame, pipeline: Pipeline) -> None:
    """Raise StepFailed if Spark would reject the steps when the streaming query starts.

    The method of Spark that checks this has no public API.
    """
    jvm = frame.sparkSession._jvm
    mode = jvm.org.apache.spark.sql.streaming.OutputMode
    plan = frame._jdf.queryExecution().analyzed()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            plan, mode.Update() if pipeline.mode == "update" else mode.Append()
        )
    except PySparkException as error:
        message = str(error).partition(";\n")[0].strip()  # drop Spark's query plan, which follows the message
        raise StepFailed(f"{pipeline.file}: Spark cannot run these steps on streams: {message}") from None


class StatefulRunner(BatchRunner):
    """Applies rules to the rows that the steps return, and writes these rows to the sinks.

    Spark's progress event has the input row counts.
    """

    def _run(self, raw: DataFrame, batch: int) -> Entry:
        # Persist the rows: a second run of the plan would update Spark's state again.
        judged = frames.judge(raw, self._pipeline.rules).persist()
        entry = Entry(batch, marked=False, stateful=True)
        try:
            verdicts = frames.counts_by(judged, FAILED)
            entry.stepped = Count(sum(count.rows for count in verdicts.values()))
            entry.passed = Count(verdicts.pop("", Count()).rows)
            self._set_aside(judged, verdicts, entry)
            passed = judged.where(f"{FAILED} is null").drop(FAILED, SOURCE)
            for sink in self._pipeline.sinks:
                entry.sinks[sink.name] = self._write(replace(sink, counts=""), passed, entry)
                counts = sink.counts or counting_column(self._pipeline)
                if counts:
                    entry.stands_for[sink.name] = source_rows(passed, counts)
        finally:
            judged.unpersist()
        return entry

    def complete(self, progress: Any) -> None:
        entry = next((entry for entry in reversed(self.entries) if entry.batch == progress.batchId), None)
        if entry is not None and not entry.sources:
            add_progress(self._pipeline, entry, progress)
            self._store.write(entry)
            self._on_entry(entry)
        super().complete(progress)

    def ledger(self) -> Ledger:
        ledger = total(self.entries)
        unreported = [entry.batch for entry in self.entries if not entry.sources]
        if unreported:
            ledger.problems.append(f"Spark has not reported the input of micro-batches {unreported}")
        pipeline = self._pipeline
        if pipeline.mode == "append" and len(pipeline.streams) == 1 and not pipeline.filters:
            everything, mine = self._store.entries(), {entry.batch for entry in self.entries}
            ledger.waited = rows_in_open_windows(entry for entry in everything if entry.batch not in mine)
            ledger.held = rows_in_open_windows(everything)
        with_counts = {sink.name for sink in pipeline.sinks if sink.counts}
        for name, held in list(ledger.held.items()):
            if held >= 0:
                continue
            if name in with_counts:
                rows = ledger.stands_for.get(name, 0)
                ledger.problems.append(f"sink {name} counts {rows:,} rows, {-held:,} more than were read")
            else:  # a step may return several rows for one source row, so the counts cannot be compared
                del ledger.held[name]
                ledger.stands_for.pop(name, None)
                ledger.waited.pop(name, None)
        return ledger


def counting_column(pipeline: Pipeline) -> str:
    """Return the output column that counts source rows exactly; "" if no column does.

    Only a window with ``count(*)`` as the last step has such a column. Overlapping windows count a row several times.
    If a rule drops rows, the sink lacks these rows.
    """
    windows = [step.window for step in pipeline.steps if step.window is not None]
    last = pipeline.steps[-1].window if pipeline.steps else None
    if last is None or len(windows) > 1 or last.slide or len(pipeline.streams) > 1 or pipeline.mode != "append":
        return ""
    if any(rule.otherwise != "fail" for rule in pipeline.rules):
        return ""
    return next((name for name, sql in last.agg if _COUNT.fullmatch(sql.strip())), "")


def add_progress(pipeline: Pipeline, entry: Entry, progress: Any) -> None:
    for source in pipeline.streams:
        found = progress.observedMetrics.get(_metric(source))
        entry.sources[source.name] = found[_ROWS] if found is not None else 0
        if found is not None:
            entry.rows_in += Count(found[_ROWS])
            entry.undecoded += Count(found[_BAD])
            entry.skipped += Count(found[_SKIPPED])
            entry.redelivered += found[_AGAIN]
            # the tasks have sent these dead letters: otherwise the micro-batch would have failed
            entry.dead_letters += found[_BAD]
    entry.late = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
    for operator in progress.stateOperators:
        what = _STATE_NAMES.get(operator.operatorName, operator.operatorName)
        entry.state[what] = entry.state.get(what, 0) + operator.numRowsTotal


def check_dead_letters(pipeline: Pipeline) -> None:
    """Raise KohortError for a quarantine rule in a pipeline with windows: aggregated rows have no source record."""
    windows = [s for s in pipeline.steps if s.kind == "window"]
    rules = [r for r in pipeline.rules if r.otherwise == "quarantine"]
    if windows and rules:
        raise KohortError(
            f"{pipeline.file}, line {rules[0].line}: rule {rules[0].name!r}: aggregated rows have no source "
            "record to send as a dead letter. Use else: drop or else: fail"
        )
