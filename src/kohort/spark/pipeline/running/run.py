"""Runs a pipeline on a Spark session and reports what happened to every row.

The stream is read by one query. Tables are read whole when the run begins, up to their offsets at that time, and joined
as static DataFrames: each row of the stream meets the same table in every micro-batch, and a row without a match is
certain to have none. A stream-stream join would need a waiting time instead.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata
from kohort.spark.options.offsets import as_json
from kohort.spark.pipeline.check_whole import check_not_member
from kohort.spark.pipeline.definition import AVAILABLE_NOW, Pipeline, Source, Summary
from kohort.spark.pipeline.file_tests import dry_run_frame
from kohort.spark.pipeline.frames import load_decoded
from kohort.spark.pipeline.ledger import Entry, Ledger, LedgerStore, total
from kohort.spark.pipeline.metrics import Metrics, serve_metrics
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, claim_checkpoint
from kohort.spark.pipeline.running.batches import BatchRunner, keep_table
from kohort.spark.pipeline.running.process import StopRequest, exclusive_run
from kohort.spark.pipeline.running.stateful import StatefulRunner, check_dead_letters, check_streams, result_frame
from kohort.spark.pipeline.sinks.parquet import write_files
from kohort.spark.pipeline.sinks.parquet_folder import folder_of, rows_in
from kohort.spark.pipeline.sinks.registry import prepare_sinks
from kohort.spark.pipeline.sources import check_groups, source_cluster, stream_options, table_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

    from kohort.spark.pipeline.running.progress_events import ProgressEvents


class PipelineStopped(KohortError):
    pass


@dataclass(slots=True)
class TableRead:
    rows: int
    undecoded: int
    dead_letters: int
    upto: dict[str, dict[str, int]]


@dataclass(slots=True)
class RunReport:
    name: str
    ledger: Ledger
    tables: dict[str, TableRead] = field(default_factory=dict)
    summaries: dict[str, int] = field(default_factory=dict)
    lag: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        return self.ledger.balanced and not self.problems

    def as_json(self) -> dict[str, Any]:
        computed = {"balanced": self.balanced, "seconds": round(self.seconds, 3), "ledger": self.ledger.as_json()}
        return asdict(self) | computed


STARTS_MOST: Final = 4
POLL_S: Final = 1.0
LAST_EVENT_S: Final = 60.0
"""Maximum wait in seconds for Spark's progress event of a complete micro-batch; it usually takes milliseconds."""
WORKER_TOO_SLOW: Final = "Python worker failed to connect back"
"""Spark's error if a Python source needs over ten seconds to start; no option changes the limit."""


class PipelineRun:
    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        once: bool,
        on_entry: Callable[[Entry], None] = lambda _: None,
        every: str = "",
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._once = once or (pipeline.every == AVAILABLE_NOW and not every)
        self._every = every if pipeline.every == AVAILABLE_NOW else pipeline.every
        self._store = LedgerStore(pipeline.state / "ledger")
        self._on_entry = on_entry
        self._tables: dict[str, TableRead] = {}
        self._began = time.monotonic()
        self._runner: BatchRunner | None = None
        self.query: StreamingQuery | None = None
        self._writer: DataStreamWriter | None = None
        self._events: ProgressEvents | None = None

    def start(self) -> None:
        pipeline = self._pipeline
        if self._once:
            check_not_member(pipeline)
        if pipeline.stateful:
            check_dead_letters(pipeline)
        owner = claim(pipeline)
        self._runner = (StatefulRunner if pipeline.stateful else BatchRunner)(pipeline, self._store, self._on_entry)
        if self._runner.has_types and not any(step.kind in ("python", "function") for step in pipeline.steps):
            # check sinks' column types before the run, except with Python steps: they are called only when rows arrive
            self._runner.check_types(dry_run_frame(pipeline, self._spark))
        for source in pipeline.tables:
            self._read_table(source).createOrReplaceTempView(source.name)
        if pipeline.stateful:
            stream = result_frame(self._spark, pipeline)
            check_streams(stream, pipeline)
        else:
            reader = self._spark.readStream.format("kohort").options(**stream_options(pipeline.stream, owner))
            stream = load_decoded(reader, self._spark, pipeline.stream.decode)
        writer = stream.writeStream.queryName(pipeline.name).outputMode(pipeline.mode).foreachBatch(self._runner)
        trigger = {"availableNow": True} if self._once else {"processingTime": self._every}
        self._writer = writer.option("checkpointLocation", str(pipeline.state / "spark")).trigger(**trigger)
        from kohort.spark.pipeline.running.progress_events import ProgressEvents

        self._events = ProgressEvents(pipeline.name, self._runner.complete)
        self._spark.streams.addListener(self._events)
        self.query = self._writer.start()

    def wait(self, stop: threading.Event | None = None) -> None:
        """Wait until the pipeline's query ends, or ``stop`` is set.
        Raises PipelineStopped for an error of Spark's; raises an error of a step or sink as it was first raised.
        """
        if self.query is None or self._runner is None or self._writer is None:
            raise PipelineStopped("the pipeline run was not started")
        for attempt in range(1, STARTS_MOST + 1):
            try:
                while not self.query.awaitTermination(POLL_S):
                    if stop is not None and stop.is_set():
                        self.stop()
                        return
            except Exception as error:
                if self._runner.error is not None:
                    raise without_stack_trace(self._runner.error) from None
                if WORKER_TOO_SLOW not in str(error) or attempt == STARTS_MOST:
                    raise PipelineStopped(_last_line(str(error))) from error
                self.query = self._writer.start()  # start a new query: it continues at the position in the checkpoint
            else:
                return

    def stop(self) -> None:
        if self.query is not None and self.query.isActive and self._runner is not None:
            self._runner.end(LAST_EVENT_S)
            with suppress(Exception):  # a micro-batch begun after the stop request has written nothing
                self.query.stop()
            if self._runner.error is not None:
                raise without_stack_trace(self._runner.error) from None

    def close(self) -> None:
        with suppress(Exception):  # Spark may already have ended
            if self.query is not None and self.query.isActive:
                self.query.stop()
            if self._events is not None:
                self._spark.streams.removeListener(self._events)

    def finish(self) -> RunReport:
        pipeline = self._pipeline
        entries = self._runner.entries if self._runner else []
        if self._events is not None and self.query is not None:
            self._events.wait_ended(str(self.query.runId), LAST_EVENT_S)
        stateful = self._runner.ledger() if isinstance(self._runner, StatefulRunner) else None
        report = RunReport(pipeline.name, stateful or total(entries, filters=pipeline.filters), self._tables)
        for name, table in self._tables.items():
            if table.dead_letters != table.undecoded:
                report.problems.append(
                    f"table {name}: {table.undecoded} undecodable rows, but {table.dead_letters} dead letters sent"
                )
        everything = total(self._store.entries(), filters=pipeline.filters)
        for summary in pipeline.summaries:
            report.summaries[summary.name] = self._summarise(summary, everything, report.problems)
        for source in pipeline.sources:
            if source.group:
                report.lag[source.name] = self._lag(source)
        report.seconds = time.monotonic() - self._began
        pipeline.state.mkdir(parents=True, exist_ok=True)
        (pipeline.state / "last-run.json").write_text(json.dumps(report.as_json(), indent=1))
        return report

    def _read_table(self, source: Source) -> DataFrame:
        """Read a table source up to its end offsets at this time, which are committed after the run."""
        with source_cluster(source) as (cluster, partitions):
            upto = as_json(cluster.latest(partitions))
        given = table_options(source) | {"endingOffsets": json.dumps(upto)}
        decoded = load_decoded(self._spark.read.format("kohort").options(**given), self._spark, source.decode)
        frame, rows, undecoded, sent = keep_table(decoded, self._pipeline)
        self._tables[source.name] = TableRead(rows.rows, undecoded.rows, sent, upto)
        return frame

    def _summarise(self, summary: Summary, ledger: Ledger, problems: list[str]) -> int:
        pipeline = self._pipeline
        stored = {s.name: s.open(pipeline) for s in pipeline.sinks if s.stores_rows}
        sinks = {name: sink for name, sink in stored.items() if sink.has_rows}
        if not sinks:
            return 0
        for name, sink in sinks.items():
            sink.read(self._spark).createOrReplaceTempView(name)
        folder = folder_of(pipeline, summary)
        folder.begin(0)
        written = write_files(self._spark.sql(summary.sql).coalesce(1), folder, 0)
        if summary.counts:
            of = summary.of or next(iter(sinks))
            stands_for, held = rows_in(written, summary.counts), ledger.sinks.get(of, 0)
            if stands_for != held:
                problems.append(f"summary {summary.name} counts {stands_for:,} rows, but sink {of} has {held:,}")
        return rows_in(written)

    def _lag(self, source: Source) -> int:
        with source_cluster(source) as (cluster, partitions):
            if source.table:
                upto = self._tables[source.name].upto
                cluster.commit({tp: OffsetAndMetadata(upto[tp.topic][str(tp.partition)]) for tp in partitions})
            heads, committed = cluster.latest(partitions), cluster.committed(partitions)
            return sum(head - (committed[tp].offset if tp in committed else 0) for tp, head in heads.items())


def claim(pipeline: Pipeline) -> PipelineOwner:
    """Claim checkpoint, groups and output folders for a pipeline, and create its topics; does not start Spark.
    Raises KohortError if one of them belongs to another pipeline.
    """
    owner = claim_checkpoint(pipeline)
    check_groups(pipeline, owner)
    prepare_sinks(pipeline)
    return owner


def run_pipeline(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    once: bool,
    on_entry: Callable[[Entry], None] = lambda _: None,
    every: str = "",
    locked: bool = False,
) -> RunReport:
    """Run a pipeline to the current end of its topics (``once``), or until Ctrl-C; then report.

    Arguments: ``on_entry``: called after each micro-batch; ``every``: trigger interval of a continuous run if the
    pipeline's trigger is available-now; ``locked``: the caller has the lock (``exclusive_run``) already. A second
    Ctrl-C raises KeyboardInterrupt.
    Raises KohortError if another process runs the pipeline, PipelineStopped for an error of Spark's.
    """
    with nullcontext() if locked else exclusive_run(pipeline), ExitStack() as stack:
        if pipeline.metrics:
            metrics, report = Metrics(pipeline.name), on_entry
            stack.enter_context(serve_metrics(metrics, pipeline.metrics))

            def on_entry(entry: Entry) -> None:
                metrics.entry_done(entry)
                report(entry)

        run = PipelineRun(pipeline, spark, once=once, on_entry=on_entry, every=every)
        stop = stack.enter_context(StopRequest("stopping after the micro-batch in flight; Ctrl-C again stops at once"))
        stack.callback(run.close)
        run.start()
        run.wait(stop.requested)
        return run.finish()


def without_stack_trace(error: Exception) -> Exception:
    """Convert an error of Spark's into one message without stack traces; return other errors unchanged."""
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return PipelineStopped(str(error).partition("JVM stacktrace")[0].strip())
    return PipelineStopped(_last_line(str(error))) if type(error).__module__.startswith("py4j.") else error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("kohort.", "KohortError", "Caused by"))]
    return (causes or lines or ["the query failed"])[0 if not causes else -1]
