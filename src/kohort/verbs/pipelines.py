"""State of a Spark pipeline: lag of its sources, last micro-batches, last run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kohort.errors import KohortError
from kohort.results.pipelines import PipelineBatch, PipelineSource, PipelineStatus, RunningPipeline

if TYPE_CHECKING:
    from kohort.spark.pipeline.definition import Pipeline

_SHOWN: Final = 5


def pipeline_status(file: Path) -> PipelineStatus:
    from kohort.spark.pipeline.ledger import last_run
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.running.process import current_run
    from kohort.spark.pipeline.sources import source_lag

    found = load_pipeline(file)
    now, problem, sources = current_run(found), None, []
    try:
        sources = [source_lag(source).as_json() for source in found.sources]
    except KohortError as error:
        problem = str(error)
    return PipelineStatus(
        name=found.name,
        sources=msgspec.convert(sources, list[PipelineSource]),
        last_run=last_run(found),
        running=RunningPipeline(host=now.host, pid=now.pid, since_ms=now.since_ms) if now else None,
        batches=msgspec.convert(batches_of(found), list[PipelineBatch]),
        problem=problem,
    )


def batches_of(pipeline: Pipeline) -> list[dict[str, Any]]:
    from kohort.spark.pipeline.ledger import read_entry

    files = sorted((pipeline.state / "ledger").glob("*.json"))[-_SHOWN:]
    shown = []
    for path in files:
        entry = read_entry(path)
        done = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        counts = {"rows": entry.rows_in.rows, "redelivered": entry.redelivered, "dead_letters": entry.dead_letters}
        shown.append({"batch": entry.batch, "done": done, **counts, "late": entry.late, "sinks": entry.sinks})
    return shown
