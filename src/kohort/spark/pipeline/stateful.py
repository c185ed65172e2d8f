"""Pipelines whose rows meet rows of other micro-batches: windows, watermarks, joins of streams.

Their steps are one streaming plan, with Spark's state between the micro-batches, instead of a batch plan for each. So
what came in is counted in the plan (observed metrics), bad values are sent to the dead letters by the task that decodes
them, and the rows that come out are not the rows that went in: what is still held in state, and what came too late, is
part of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import KohortError
from kohort.spark.columns import REDELIVERED, TYPES
from kohort.spark.pipeline.batches import BatchRunner
from kohort.spark.pipeline.definition import Pipeline, Source
from kohort.spark.pipeline.frames import FAILED, RECORD_COLUMNS, SOURCE, counts_by, judge
from kohort.spark.pipeline.ledger import Count, Entry, Ledger, LedgerStore, total
from kohort.spark.pipeline.outputs import counted, write_rows
from kohort.spark.pipeline.source_options import STREAM_SCHEMA, stream_options
from kohort.spark.pipeline.steps import run_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ERROR: Final = "_error"
_ROWS: Final = "rows"
_BAD: Final = "undecoded"
_AGAIN: Final = "redelivered"


def stream_frame(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    """A source as a stream of its good rows, counted on the way, with its watermark."""
    from pyspark.sql import functions as f

    reader = spark.readStream.format("kohort").options(**stream_options(source))
    keeps = any(r.otherwise == "quarantine" for r in pipeline.rules)
    if source.decode.format == "raw":
        frame = reader.schema(STREAM_SCHEMA).load().withColumn(ERROR, f.lit(None).cast("string"))
        record = {name: f.col(name) for name in (*RECORD_COLUMNS, REDELIVERED)}
        again, extra = REDELIVERED, [REDELIVERED]
    else:
        again = f"_{REDELIVERED}"
        extra = [f"_{name}" for name in RECORD_COLUMNS if keeps] + [again]
        own = ", ".join(f"{name} {TYPES[name[1:]]}" for name in extra)
        schema = f"{source.decode.schema}, {ERROR} string, {own}"
        frame = reader.options(**_bad_records(pipeline)).schema(schema).load()
        record = {name.removeprefix("_"): f.col(name) for name in extra}
    if keeps:
        frame = frame.withColumn(SOURCE, f.struct(*(column.alias(name) for name, column in record.items())))
    counts = [f.count(f.lit(1)).alias(_ROWS), f.count(ERROR).alias(_BAD), f.count_if(again).alias(_AGAIN)]
    good = frame.observe(_metric(source), *counts).where(f"{ERROR} is null").drop(ERROR, *extra)
    return good.withWatermark(*source.watermark) if source.watermark else good


def _bad_records(pipeline: Pipeline) -> dict[str, str]:
    options = {"value.format": "json"}
    if pipeline.dead_letters is None:
        return options | {"badRecords": "fail"}
    return options | {"badRecords": "dlq", "deadLetterTopic": pipeline.dead_letters.topic}


def _metric(source: Source) -> str:
    return f"kohort_{source.name}"


def result_frame(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The streaming frame after all steps."""
    for source in pipeline.streams[1:]:
        stream_frame(spark, pipeline, source).createOrReplaceTempView(source.name)
    return run_steps(pipeline, stream_frame(spark, pipeline, pipeline.stream))


@dataclass(slots=True)
class Flow:
    """What went into the plan over some micro-batches, from Spark's progress: rows by source, rows too late, and rows
    that may have been delivered before."""

    rows: dict[str, int] = field(default_factory=dict)
    undecoded: dict[str, int] = field(default_factory=dict)
    late: int = 0
    redelivered: int = 0

    def add(self, pipeline: Pipeline, progress: Iterable[Any]) -> None:
        """Add Spark's progress events; a micro-batch that ran is in one of them."""
        for event in progress:
            for source in pipeline.streams:
                found = event.observedMetrics.get(_metric(source))
                if found is not None:
                    self.rows[source.name] = self.rows.get(source.name, 0) + found[_ROWS]
                    self.undecoded[source.name] = self.undecoded.get(source.name, 0) + found[_BAD]
                    self.redelivered += found[_AGAIN]
            self.late += sum(operator.numRowsDroppedByWatermark for operator in event.stateOperators)


class StatefulRunner(BatchRunner):
    """Handed to ``foreachBatch``: judges and writes the rows that came out of the steps."""

    def __init__(
        self, pipeline: Pipeline, store: LedgerStore, on_entry: Callable[[Entry], None], *, fresh: bool
    ) -> None:
        super().__init__(pipeline, store, on_entry)
        self._fresh = fresh
        self.stands_for: dict[str, int] = {}
        self.flow = Flow()

    def _run(self, raw: DataFrame, batch: int) -> Entry:
        # Persisted: the plan behind it keeps state, and must run once.
        judged = judge(raw, self._pipeline.rules).persist()
        entry = Entry(batch, marked=False)
        try:
            verdicts = counts_by(judged, FAILED)
            entry.rows_in = entry.stepped = _unmarked(sum(verdicts.values(), start=Count()))
            entry.passed = _unmarked(verdicts.pop("", Count()))
            self._set_aside(judged, verdicts, entry)
            passed = judged.where(f"{FAILED} is null").drop(FAILED, SOURCE)
            for sink in self._pipeline.sinks:
                entry.sinks[sink.name] = write_rows(
                    replace(sink, counts=""), passed, batch, self._folders.get(sink.name)
                )
                if sink.counts:
                    self.stands_for[sink.name] = self.stands_for.get(sink.name, 0) + counted(passed, sink.counts)
        finally:
            judged.unpersist()
        return entry

    def ledger(self) -> Ledger:
        """What came in, what came out, and what is between."""
        ledger = total(self.entries)
        ledger.rows_in, ledger.undecoded = sum(self.flow.rows.values()), sum(self.flow.undecoded.values())
        ledger.dead_letters += ledger.undecoded  # sent by the tasks that decoded, which fail where they cannot
        ledger.late, ledger.redelivered = self.flow.late, self.flow.redelivered
        ledger.sources = dict(self.flow.rows)
        if self._fresh and self._pipeline.mode == "append" and len(self._pipeline.streams) == 1:
            for name, rows in self.stands_for.items():
                held = ledger.rows_in - ledger.undecoded - ledger.late - rows
                ledger.held[name] = held
                if held < 0:
                    ledger.problems.append(f"sink {name} stands for {rows:,} rows, {-held:,} more than came in")
        return ledger


def _unmarked(count: Count) -> Count:
    return Count(count.rows)


def check_dead_letters(pipeline: Pipeline) -> None:
    """Raises KohortError where rows must be set aside after an aggregation, which no longer knows their records."""
    windows = [s for s in pipeline.steps if s.kind == "window"]
    rules = [r for r in pipeline.rules if r.otherwise == "quarantine"]
    if windows and rules:
        raise KohortError(
            f"{pipeline.file}, line {rules[0].line}: {rules[0].name}: an aggregated row is no record that could be "
            "quarantined: say else: drop or else: fail"
        )
