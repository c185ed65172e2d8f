"""Checks that involve several sections of a pipeline file."""

from __future__ import annotations

from itertools import combinations

from kohort.spark.pipeline.definition import AVAILABLE_NOW, Pipeline
from kohort.spark.pipeline.parse_steps import time_ms
from kohort.spark.pipeline.sections import PipelineError, YamlSection
from kohort.spark.pipeline.sinks.registry import KINDS


def check_whole(pipeline: Pipeline, top: YamlSection) -> None:
    if not pipeline.streams:
        raise top.error("no source is a stream: remove 'read: table' from at least one source")
    if not pipeline.sinks:
        raise top.error(f"sinks is empty: give at least one sink ({', '.join(KINDS)})")
    names = [s.name for s in pipeline.sinks]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise top.error(f"two sinks have the name {twice[0]!r}: give each its own name")
    for check in (_check_paths, _check_rules, _check_state, _check_watermarks, _check_members):
        check(pipeline, top)
    stored = [s.name for s in pipeline.sinks if s.stores_rows]
    for summary in pipeline.summaries:
        if not stored or (summary.of and summary.of not in stored):
            raise top.error(f"summary {summary.name!r} needs a Parquet sink; found {', '.join(stored) or 'none'}")


def _check_paths(pipeline: Pipeline, top: YamlSection) -> None:
    outputs = [*(s.folder for s in pipeline.sinks if s.folder), *(s.path for s in pipeline.summaries)]
    for one, other in combinations((output.absolute() for output in outputs), 2):
        if one == other or one in other.parents or other in one.parents:
            raise top.error(f"Parquet outputs {one} and {other} overlap: give each sink and summary its own folder")


def _check_rules(pipeline: Pipeline, top: YamlSection) -> None:
    quarantines = [r for r in pipeline.rules if r.otherwise == "quarantine"]
    if quarantines and pipeline.dead_letters is None:
        raise top.error(
            f"rule {quarantines[0].name!r}: 'else: quarantine' needs a dead-letter topic: add dlq: {{topic: ...}}",
            quarantines[0].line,
        )
    judged = [r for r in pipeline.rules if r.otherwise != "fail"]
    if judged and any(s.counts for s in pipeline.sinks):
        raise top.error(
            f"rule {judged[0].name!r}: a sink with the key 'counts' stores aggregates, but rules drop "
            "and quarantine only single rows. Use else: fail",
            judged[0].line,
        )


def _check_state(pipeline: Pipeline, top: YamlSection) -> None:
    """Raise PipelineError for windows and joins that Spark cannot run, or whose state would grow without limit."""
    if not pipeline.stateful:
        if pipeline.mode != "append":
            raise top.error("mode: update is only for windows and joins of streams: remove it")
        return
    groups = [s.group for s in pipeline.streams if s.group]
    twice = sorted({g for g in groups if groups.count(g) > 1})
    overlap = len({t for s in pipeline.streams for t in s.topics}) < sum(len(s.topics) for s in pipeline.streams)
    if twice and overlap:
        raise top.error(f"two streams read the same topic as group {twice[0]}: give each its own group")
    if len(pipeline.streams) > 1:
        for source in pipeline.streams:
            if source.watermark is None:
                raise top.error(
                    f"source {source.name!r} is joined with another stream: add watermark: {{column: ..., delay: "
                    f"10 minutes}}. The watermark limits the wait for matching rows"
                )
    if pipeline.mode == "update" and any(s.stores_rows for s in pipeline.sinks):
        raise top.error(
            "mode: update would replace the row of a window, but Parquet sinks only add rows: use mode: append"
        )
    for sink in pipeline.sinks:
        if sink.needs_source:
            raise top.error(
                f"sink {sink.name!r} orders rows by their offsets, which rows of windows and joins of streams lack",
                sink.line,
            )
    if pipeline.summaries:
        raise top.error("summaries do not support windows and joins of streams")


def _check_watermarks(pipeline: Pipeline, top: YamlSection) -> None:
    """Raise PipelineError if rows would have two watermarks: from a source and a window, or from two windows."""
    sources = {s.name: s.watermark for s in pipeline.streams if s.watermark}
    windows = [(step.line, step.window) for step in pipeline.steps if step.window is not None]
    for number, (line, window) in enumerate(windows):
        if not window.late:
            continue
        if number:
            raise top.error(
                "watermark: remove this key: a window on the rows of another window uses the watermark of that window",
                line,
            )
        same = [delay for column, delay in sources.values() if column == window.time]
        if sources and not any(time_ms(delay) == time_ms(window.late) for delay in same):
            watermarks = ", ".join(f"{name} has {column} with {delay}" for name, (column, delay) in sources.items())
            raise top.error(
                f"watermark: {window.late} on column {window.time}: Spark allows only one watermark, and the source "
                f"already has one ({watermarks}). Remove one of them",
                line,
            )


def _check_members(pipeline: Pipeline, top: YamlSection) -> None:
    if pipeline.every == AVAILABLE_NOW:
        check_not_member(pipeline)
    members = [s for s in pipeline.streams if s.member]
    alone = [sink for sink in pipeline.sinks if sink.needs_source]
    if members and alone:
        raise top.error(
            f"sink {alone[0].name!r}: group_mode: member does not support latest: two runs would replace one file",
            alone[0].line,
        )
    if members and pipeline.stateful:
        raise top.error(
            "group_mode: member does not support windows and joins of streams: their state cannot move with a "
            "partition to another member",
            members[0].member_line,
        )


def check_not_member(pipeline: Pipeline) -> None:
    """Raise PipelineError if a source has ``group_mode: member``, which needs a continuous run."""
    for source in pipeline.streams:
        if source.member:
            raise PipelineError(
                str(pipeline.file),
                source.member_line,
                "group_mode: member needs a continuous run. In an available-now run, a rebalance would change the "
                "end offsets. Use trigger: {every: 2 seconds} and --continuous, or remove group_mode",
            )
