"""Runs a pipeline on a Spark session and reports the row counts of sources, sinks and dead letters.

One Spark query reads the streams. A run reads each table only at its beginning, up to the log end offsets at that time,
and joins the table as a static DataFrame. All micro-batches join the same table: a row without a match gets no match
later in the run. A join of two streams, in contrast, waits for matching rows, up to the watermarks.
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
from kohort.spark.pipeline.definition import AVAILABLE_NOW, PROBLEM, SOURCE, Pipeline, Source, Summary
from kohort.spark.pipeline.file_tests import dry_run_frame
from kohort.spark.pipeline.frames import counts_by, load_decoded
from kohort.spark.pipeline.ledger import Count, Entry, Ledger, LedgerStore, total
from kohort.spark.pipeline.metrics import Metrics, serve_metrics
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, claim_checkpoint
from kohort.spark.pipeline.running.batches import BatchRunner
from kohort.spark.pipeline.running.process import StopRequest, exclusive_run
from kohort.spark.pipeline.running.stateful import StatefulRunner, check_dead_letters, check_streams, result_frame
from kohort.spark.pipeline.sinks.dead_letters import send_undecoded
from kohort.spark.pipeline.sinks.parquet import write_files
from kohort.spark.pipeline.sinks.parquet_folder import folder_of, rows_in
from kohort.spark.pipeline.sinks.registry import prepare_sinks
from kohort.spark.pipeline.sources import check_groups, source_cluster, stream_options, table_options
from kohort.spark.values.row_builders import SKIPPED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


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
"""Maximum wait in seconds for Spark's progress event of a micro-batch. It usually arrives within milliseconds."""
WORKER_TOO_SLOW: Final = "Python worker failed to connect back"
"""Part of Spark's error message if a Python process of Spark takes more than ten seconds to start.

No option changes this limit.
"""


class PipelineRun:
    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, *, once: bool, on_entry: Callable[[Entry], None], every: str
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        once = once or (pipeline.every == AVAILABLE_NOW and not every)
        self._store = LedgerStore(pipeline.state / "ledger")
        self._tables: dict[str, TableRead] = {}
        self._began = time.monotonic()
        if once:
            check_not_member(pipeline)
        if pipeline.stateful:
            check_dead_letters(pipeline)
        owner = claim(pipeline)
        self._runner = (StatefulRunner if pipeline.stateful else BatchRunner)(pipeline, self._store, on_entry)
        if self._runner.has_types and not any(step.kind in ("python", "function") for step in pipeline.steps):
            # Check column types before the run, but not with Python steps: the check would call these steps.
            self._runner.check_types(dry_run_frame(pipeline, spark))
        for source in pipeline.tables:
            self._read_table(source).createOrReplaceTempView(source.name)
        if pipeline.stateful:
            stream = result_frame(spark, pipeline)
            check_streams(stream, pipeline)
        else:
            reader = spark.readStream.format("kohort").options(**stream_options(pipeline.stream, owner))
            stream = load_decoded(reader, spark, pipeline.stream.decode)
        writer = stream.writeStream.queryName(pipeline.name).outputMode(pipeline.mode).foreachBatch(self._runner)
        interval = every if pipeline.every == AVAILABLE_NOW else pipeline.every
        trigger = {"availableNow": True} if once else {"processingTime": interval}
        self._writer = writer.option("checkpointLocation", str(pipeline.state / "spark")).trigger(**trigger)

    def run(self, stop: threading.Event) -> None:
        """Run the query until it ends, or until ``stop`` is set.

        Raises PipelineStopped for an error of Spark. Raises an error of a step or a sink without Spark's wrapper.
        """
        from kohort.spark.pipeline.running.progress_events import ProgressEvents

        query, events = None, ProgressEvents(self._pipeline.name, self._runner.complete)
        self._spark.streams.addListener(events)
        try:
            for attempt in range(1, STARTS_MOST + 1):
                query = self._writer.start()  # the query continues at the offsets in its checkpoint
                try:
                    while not query.awaitTermination(POLL_S):
                        if stop.is_set():
                            self._stop(query)
                            break
                except Exception as error:
                    if self._runner.error is not None:
                        raise without_stack_trace(self._runner.error) from None
                    if WORKER_TOO_SLOW not in str(error) or attempt == STARTS_MOST:
                        raise PipelineStopped(_last_line(str(error))) from error
                else:
                    events.wait_ended(str(query.runId), LAST_EVENT_S)
                    return
        finally:
            with suppress(Exception):  # Spark may have ended already
                if query is not None and query.isActive:
                    query.stop()
                self._spark.streams.removeListener(events)

    def _stop(self, query: StreamingQuery) -> None:
        if query.isActive:
            self._runner.end(LAST_EVENT_S)
            # stop() fails if Spark began one more micro-batch. That micro-batch wrote nothing.
            with suppress(Exception):
                query.stop()
            if self._runner.error is not None:
                raise without_stack_trace(self._runner.error) from None

    def finish(self) -> RunReport:
        pipeline = self._pipeline
        report = RunReport(pipeline.name, self._runner.ledger(), self._tables)
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
        (pipeline.state / "last-run.json").write_text(json.dumps(report.as_json(), indent=1))
        return report

    def _read_table(self, source: Source) -> DataFrame:
        """Read a table source up to the current log end offsets. The run commits these offsets when it finishes."""
        with source_cluster(source) as (cluster, partitions):
            upto = as_json(cluster.latest(partitions))
        given = table_options(source) | {"endingOffsets": json.dumps(upto)}
        reader = self._spark.read.format("kohort").options(**given)
        decoded = load_decoded(reader, self._spark, source.decode).persist()
        counts = counts_by(decoded, PROBLEM)
        rows = sum(count.rows for count in counts.values())
        undecoded = rows - counts.get("", Count()).rows - counts.get(SKIPPED, Count()).rows
        sent = send_undecoded(decoded, self._pipeline, -1) if undecoded else 0
        self._tables[source.name] = TableRead(rows, undecoded, sent, upto)
        return decoded.where(f"{PROBLEM} is null").drop(PROBLEM, SOURCE)

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
    """Claim the checkpoint, groups and output folders of a pipeline, and create its topics.

    Does not need Spark. Raises KohortError if the checkpoint, a group or a folder belongs to another pipeline.
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
    """Run a pipeline. Return its row counts and its lag.

    ``once``: True to stop at the current log end offsets, False to run until Ctrl-C. ``on_entry``: called after each
    micro-batch. ``every``: trigger interval of a continuous run, if the pipeline's own trigger is available-now.
    ``locked``: True if the caller has locked the pipeline (``exclusive_run``). Raises KohortError if another process
    runs the pipeline, PipelineStopped for an error of Spark, KeyboardInterrupt for a second Ctrl-C.
    """
    with nullcontext() if locked else exclusive_run(pipeline), ExitStack() as stack:
        if pipeline.metrics:
            metrics, report = Metrics(pipeline.name), on_entry
            stack.enter_context(serve_metrics(metrics, pipeline.metrics))

            def on_entry(entry: Entry) -> None:
                metrics.entry_done(entry)
                report(entry)

        stop = stack.enter_context(StopRequest("stopping after the micro-batch in flight; Ctrl-C again stops at once"))
        run = PipelineRun(pipeline, spark, once=once, on_entry=on_entry, every=every)
        run.run(stop.requested)
        return run.finish()


def without_stack_trace(error: Exception) -> Exception:
    """Convert an error of Spark into one message without stack traces. Return any other error unchanged."""
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return PipelineStopped(str(error).partition("JVM stacktrace")[0].strip())
    return PipelineStopped(_last_line(str(error))) if type(error).__module__.startswith("py4j.") else error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("kohort.", "KohortError", "Caused by"))]
    return (causes or lines or ["the query failed"])[0 if not causes else -1]
