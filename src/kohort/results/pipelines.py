"""Results of ``kohort pipeline`` about Spark pipelines."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from kohort.results.result import Result


class PipelineValid(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.validate"):
    """A valid pipeline file. Lists the kinds of its sources and sinks."""

    name: str
    valid: bool
    sources: dict[str, Literal["table", "stream"]]
    sinks: dict[str, str]
    tests: int


class PipelineTestRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    line: int
    passed: bool
    problems: list[str]


class PipelineTested(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.test"):
    LINES: ClassVar[str] = "tests"

    tests: list[PipelineTestRow]


class SourcePartition(msgspec.Struct, frozen=True, kw_only=True):
    earliest: int
    latest: int
    committed: int | None
    lag: int


class PipelineSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source of a pipeline, and the lag of its group. Partitions look like ``orders-3``."""

    name: str
    group: str
    lag: int
    partitions: dict[str, SourcePartition]


class PipelineChecked(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.dry-run"):
    """A pipeline that passed the checks of Spark. Has the lag of its sources, and the columns of its sinks."""

    name: str
    sources: list[PipelineSource]
    columns: dict[str, str]


class RunningPipeline(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    pid: int
    since_ms: int


class PipelineBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A completed micro-batch. ``done``: end time (ISO 8601). ``redelivered``: rows that a sink may get twice."""

    batch: int
    done: str
    rows: int
    redelivered: int
    dead_letters: int
    late: int
    sinks: dict[str, int]


class PipelineStatus(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.status"):
    """State of a pipeline. ``problem``: reason why its sources are missing."""

    name: str
    sources: list[PipelineSource]
    last_run: dict[str, Any] | None
    """Result of the last ``kohort pipeline run``."""
    running: RunningPipeline | None
    batches: list[PipelineBatch]
    problem: str | None = None


class LedgerReport(msgspec.Struct, frozen=True, kw_only=True):
    """Row counts of a run, over all its micro-batches. ``problems``: sentences about counts that do not add up."""

    rows_in: int
    undecoded: int
    skipped: int = 0
    filtered: int
    dropped: dict[str, int]
    quarantined: dict[str, int]
    dead_letters: int
    sinks: dict[str, int]
    batches: int
    redelivered: int
    problems: list[str]
    late: int
    stands_for: dict[str, int]
    waited: dict[str, int]
    held: dict[str, int]
    sources: dict[str, int]
    state: dict[str, int] = {}
    balanced: bool


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a pipeline reads: row counts, and the offset up to which each partition was read."""

    rows: int
    undecoded: int
    dead_letters: int
    upto: dict[str, dict[str, int]]


class PipelineRan(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.run"):
    """Result of a pipeline run. ``balanced`` is true if the row counts account for every input row."""

    name: str
    balanced: bool
    seconds: float
    ledger: LedgerReport
    tables: dict[str, TableReport]
    summaries: dict[str, int]
    lag: dict[str, int]
    problems: list[str]
