"""State of a Spark pipeline: the lag of its sources, its last micro-batches, its last run."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from kohort.errors import KohortError
from kohort.results.pipelines import PipelineBatch, PipelineSource, PipelineStatus, RunningPipeline

if TYPE_CHECKING:
    from pathlib import Path

    from kohort.spark.pipeline.definition import Pipeline

_SHOWN: Final = 5


def pipeline_status(pipeline: Pipeline) -> PipelineStatus:
    from kohort.spark.pipeline.ledger import last_run
    from kohort.spark.pipeline.running.process import current_run
    from kohort.spark.pipeline.sources import source_lag

    now, problem, sources = current_run(pipeline), None, []
    try:
        sources = [asdict(source_lag(source)) for source in pipeline.sources]
    except KohortError as error:
        problem = str(error)
    return PipelineStatus(
        name=pipeline.name,
        sources=msgspec.convert(sources, list[PipelineSource]),
        last_run=last_run(pipeline),
        running=RunningPipeline(host=now.host, pid=now.pid, since_ms=now.since_ms) if now else None,
        batches=[_batch(path) for path in sorted((pipeline.state / "ledger").glob("*.json"))[-_SHOWN:]],
        problem=problem,
    )


def _batch(path: Path) -> PipelineBatch:
    from kohort.spark.pipeline.ledger import read_entry

    entry = read_entry(path)
    return PipelineBatch(
        batch=entry.batch,
        done=datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds"),
        rows=entry.rows_in.rows,
        redelivered=entry.redelivered,
        dead_letters=entry.dead_letters,
        late=entry.late,
        sinks=entry.sinks,
    )
