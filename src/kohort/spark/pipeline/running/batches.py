"""One micro-batch of a pipeline: decoding, steps, rules, sinks, dead letters, and the ledger entry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import KohortError
from kohort.spark.pipeline import frames
from kohort.spark.pipeline.definition import FAILED, PROBLEM, SOURCE, Pipeline, Sink
from kohort.spark.pipeline.ledger import Count, Entry, Ledger, LedgerStore, total
from kohort.spark.pipeline.sinks.dead_letters import quarantines, send_quarantined, send_undecoded
from kohort.spark.values.row_builders import SKIPPED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXAMPLES: Final = 3


class ExpectationFailed(KohortError):
    pass


class RunStopping(KohortError):
    """Error: Spark began a micro-batch after a stop request. The micro-batch writes nothing."""


class BatchRunner:
    """Function for Spark's ``foreachBatch``. ``error`` is the Python error of a failed micro-batch."""

    def __init__(
        self, pipeline: Pipeline, store: LedgerStore, on_entry: Callable[[Entry], None] = lambda _: None
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._on_entry = on_entry
        self._writers = {sink.name: sink.open(pipeline) for sink in pipeline.sinks}
        self.entries: list[Entry] = []
        self.error: Exception | None = None
        self._batch_lock = threading.Lock()
        self._stopping = False
        self._complete = threading.Condition()
        self._complete_upto = -1

    def __call__(self, raw: DataFrame, batch: int) -> None:
        with self._batch_lock:
            if self._stopping:
                raise RunStopping("the pipeline run is stopping, so this micro-batch writes nothing")
            try:
                for writer in self._writers.values():
                    writer.begin(batch)
                entry = self._run(raw, batch)
                self._store.write(entry)
            except Exception as error:
                self.error = error
                raise
            if self.entries and self.entries[-1].batch == batch:
                self.entries.pop()  # Spark repeated this micro-batch: replace its ledger entry
            self.entries.append(entry)
            if not entry.stateful:
                self._on_entry(entry)

    @property
    def has_types(self) -> bool:
        return any(writer.has_types for writer in self._writers.values())

    def check_types(self, rows: DataFrame) -> None:
        schema = rows.drop(FAILED, SOURCE).schema
        for writer in self._writers.values():
            writer.check(schema)

    def ledger(self) -> Ledger:
        return total(self.entries, filters=self._pipeline.filters)

    def complete(self, progress: Any) -> None:
        with self._complete:
            self._complete_upto = max(self._complete_upto, progress.batchId)
            self._complete.notify_all()

    def end(self, timeout_s: float) -> None:
        """Reject further micro-batches. Wait until Spark records the current micro-batch as complete.

        If Spark does not record it within ``timeout_s``, the next run repeats the micro-batch.
        """
        self._stopping = True
        with self._batch_lock:
            last = self.entries[-1].batch if self.entries else -1
        with self._complete:
            self._complete.wait_for(lambda: self._complete_upto >= last, timeout_s)

    def _run(self, raw: DataFrame, batch: int) -> Entry:
        # Persist the decoded rows: otherwise each sink and each count would fetch and decode the records again.
        decoded = raw.persist()
        try:
            by_problem, again = frames.counts_of_source(decoded)
            rows_in = sum(by_problem.values(), start=Count())
            entry = Entry(batch, rows_in=rows_in, redelivered=again)
            if not rows_in.rows:
                return entry
            good = by_problem.pop("", Count())
            entry.skipped = by_problem.pop(SKIPPED, Count())
            entry.undecoded = sum(by_problem.values(), start=Count())
            if by_problem:
                entry.dead_letters += send_undecoded(decoded, self._pipeline, batch)
            if good.rows:
                self._run_good(decoded.where(f"{PROBLEM} is null").drop(PROBLEM), entry)
        finally:
            decoded.unpersist()
        return entry

    def _run_good(self, good: DataFrame, entry: Entry) -> None:
        pipeline = self._pipeline
        stepped = frames.run_steps(pipeline, good)
        self.check_types(stepped)
        judged = frames.judge(stepped, pipeline.rules).persist()
        try:
            verdicts = frames.counts_by(judged, FAILED)
            entry.marked = SOURCE in judged.columns
            entry.stepped = sum(verdicts.values(), start=Count())
            entry.passed = verdicts.pop("", Count())
            self._set_aside(judged, verdicts, entry)
            passed = judged.where(f"{FAILED} is null").drop(FAILED)
            if any(s.counts for s in pipeline.sinks):
                # Output rows are aggregates. The sum of ``counts`` must equal the number of decoded source rows.
                entry.stepped = entry.passed = entry.decoded
                entry.marked = False
            for sink in pipeline.sinks:
                rows = passed if sink.needs_source else passed.drop(SOURCE)
                entry.sinks[sink.name] = self._write(sink, rows, entry)
        finally:
            judged.unpersist()

    def _set_aside(self, judged: DataFrame, verdicts: Mapping[str, Count], entry: Entry) -> None:
        rules = self._pipeline.rules
        self._refuse_failures(judged, verdicts)
        aside = [v for v in verdicts if quarantines(v, rules)]
        for verdict, count in verdicts.items():
            reason = "; ".join(r.reason for r in frames.failed_rules(verdict, rules))
            into = entry.quarantined if verdict in aside else entry.dropped
            into[reason] = into.get(reason, Count()) + count
        if aside:
            entry.dead_letters += send_quarantined(judged, self._pipeline, entry.batch, aside)

    def _write(self, sink: Sink, passed: DataFrame, entry: Entry) -> int:
        return self._writers[sink.name].write(passed, entry.batch, passed=entry.passed.rows, counts=sink.counts)

    def _refuse_failures(self, judged: DataFrame, verdicts: Mapping[str, Count]) -> None:
        rules = self._pipeline.rules
        for verdict, count in verdicts.items():
            fatal = [r for r in frames.failed_rules(verdict, rules) if r.otherwise == "fail"]
            if not fatal:
                continue
            where = "select _source in each step to see them here"
            if SOURCE in judged.columns:
                rows = judged.where(judged[FAILED] == verdict).select(f"{SOURCE}.*").limit(_EXAMPLES).collect()
                where = ", ".join(f"{r['topic']}-{r['partition']} offset {r['offset']}" for r in rows)
            raise ExpectationFailed(
                f"{self._pipeline.file}, line {fatal[0].line}: {count.rows:,} rows fail the rule "
                f"{fatal[0].name!r} ({fatal[0].reason}), for example {where}"
            )
