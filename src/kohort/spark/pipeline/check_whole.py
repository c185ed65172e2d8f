"""What no section of a pipeline file can see alone."""

from __future__ import annotations

from pathlib import Path

from kohort.spark.pipeline.definition import AVAILABLE_NOW, Pipeline
from kohort.spark.pipeline.parse_steps import time_ms
from kohort.spark.pipeline.sections import PipelineError, YamlSection
from kohort.spark.pipeline.sinks.registry import KINDS


def check_whole(pipeline: Pipeline, top: YamlSection) -> None:
    """Raise PipelineError where the parts of a pipeline do not fit each other."""
    if not pipeline.streams:
        raise top.error("no source is a stream: leave read: table out of the one that drives the pipeline")
    if not pipeline.sinks:
        raise top.error(f"sinks is empty: expected one of {', '.join(KINDS)}")
    names = [s.name for s in pipeline.sinks]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise top.error(f"two sinks are called {twice[0]!r}: give each a name")
    _check_paths(pipeline, top)
    _check_rules(pipeline, top)
    _check_state(pipeline, top)
    _check_watermarks(pipeline, top)
    _check_members(pipeline)
    stored = [s.name for s in pipeline.sinks if s.stores_rows]
    for summary in pipeline.summaries:
        if not stored or (summary.of and summary.of not in stored):
            raise top.error(f"summary {summary.name!r} reads Parquet sinks; there is {', '.join(stored) or 'none'}")


def _check_paths(pipeline: Pipeline, top: YamlSection) -> None:
    """Refuse two outputs in one folder: readers of one would see rows of both. Raises PipelineError."""
    seen: list[Path] = []
    outputs = [*(s.folder for s in pipeline.sinks if s.folder), *(s.path for s in pipeline.summaries)]
    for path in (output.absolute() for output in outputs):
        if any(path == other or path in other.parents or other in path.parents for other in seen):
            raise top.error(
                f"two Parquet sinks or summaries write to {path}, or one within the other: give each a folder"
            )
        seen.append(path)


def _check_rules(pipeline: Pipeline, top: YamlSection) -> None:
    quarantines = [r for r in pipeline.rules if r.otherwise == "quarantine"]
    if quarantines and pipeline.dead_letters is None:
        raise PipelineError(top.file, quarantines[0].line, f"{quarantines[0].name}: quarantine needs a dlq")
    judged = [r for r in pipeline.rules if r.otherwise != "fail"]
    if judged and any(s.counts for s in pipeline.sinks):
        raise PipelineError(
            top.file,
            judged[0].line,
            f"{judged[0].name}: a sink with counts takes aggregated rows, which cannot be set aside: say else: fail",
        )


def _check_state(pipeline: Pipeline, top: YamlSection) -> None:
    """Refuse windows and joins of streams of which Spark would not know how long to wait for a row. Raises
    PipelineError."""
    if not pipeline.stateful:
        if pipeline.mode != "append":
            raise top.error("mode: update is for windows and joins of streams; without them each row is written once")
        return
    groups = [s.group for s in pipeline.streams if s.group]
    twice = sorted({g for g in groups if groups.count(g) > 1})
    overlap = len({t for s in pipeline.streams for t in s.topics}) < sum(len(s.topics) for s in pipeline.streams)
    if twice and overlap:
        raise top.error(f"two streams read one topic as group {twice[0]}: give each its own group")
    if len(pipeline.streams) > 1:
        for source in pipeline.streams:
            if source.watermark is None:
                raise top.error(
                    f"source {source.name!r} is joined with another stream: give it a watermark "
                    "{column: ..., delay: 10 minutes}, after which rows of the other side no longer wait for it"
                )
    if pipeline.mode == "update" and any(s.stores_rows for s in pipeline.sinks):
        raise top.error("mode: update writes a window anew with each change, which Parquet cannot replace: say append")
    if pipeline.summaries:
        raise top.error("summaries are for pipelines without windows and joins of streams")


def _check_watermarks(pipeline: Pipeline, top: YamlSection) -> None:
    """Refuse two watermarks on the way of a row: the source has one, or the first window. Raises PipelineError."""
    sources = {s.name: s.watermark for s in pipeline.streams if s.watermark}
    windows = [(step.line, step.window) for step in pipeline.steps if step.window is not None]
    for line, window in windows[:1]:
        if not window.late or not sources:
            continue
        same = [delay for column, delay in sources.values() if column == window.time]
        if not any(time_ms(delay) == time_ms(window.late) for delay in same):
            told = ", ".join(f"{name} has {column} with {delay}" for name, (column, delay) in sources.items())
            raise PipelineError(
                top.file,
                line,
                f"watermark: {window.late}, of {window.time}: Spark takes one watermark for a row, and its source "
                f"has one already ({told}): leave it out here, or there",
            )
    for line, window in windows[1:]:
        if window.late:
            raise PipelineError(
                top.file, line, "watermark: a window over windows has that of the first: leave it out here"
            )


def _check_members(pipeline: Pipeline) -> None:
    """Refuse what members cannot have: their partitions come and go while the pipeline runs. Raises PipelineError."""
    if pipeline.every == AVAILABLE_NOW:
        check_goes_on(pipeline)
    members = [s for s in pipeline.streams if s.member]
    if members and pipeline.stateful:
        raise PipelineError(
            str(pipeline.file),
            members[0].member_line,
            "group_mode: member is not for windows and joins of streams: when a partition goes to another member, "
            "their state stays behind",
        )


def check_goes_on(pipeline: Pipeline) -> None:
    """Raise PipelineError where a source is a member of its group: such a pipeline cannot run to an end."""
    for source in pipeline.streams:
        if source.member:
            raise PipelineError(
                str(pipeline.file),
                source.member_line,
                "group_mode: member is for pipelines that go on: what a run to the end of the topics has to read would "
                "change with every rebalance. Give trigger: {every: 2 seconds} and run it --continuous, or leave "
                "group_mode out",
            )
