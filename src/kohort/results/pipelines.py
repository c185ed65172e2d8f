"""What the commands of ``kohort pipeline`` print."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from kohort.results.result import Result


class PipelineValid(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.validate"):
    """A pipeline file that is valid: kinds of its sources and sinks by name, and how many tests it has."""

    name: str
    valid: bool
    sources: dict[str, Literal["table", "stream"]]
    sinks: dict[str, str]
    tests: int


class PipelineTestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A test of a pipeline file, where it stands, and what was not as expected."""

    name: str
    line: int
    passed: bool
    problems: list[str]


class PipelineTested(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.test"):
    """The tests of a pipeline file that were run."""

    LINES: ClassVar[str] = "tests"

    tests: list[PipelineTestRow]


class SourcePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a source: its log from ``earliest`` to ``latest``, and where the group is."""

    earliest: int
    latest: int
    committed: int | None
    lag: int


class PipelineSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source, and how far its group is behind; partitions are named as ``orders-3``."""

    name: str
    group: str
    lag: int
    partitions: dict[str, SourcePartition]


class PipelineChecked(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.dry-run"):
    """A pipeline that its brokers and Spark can do: what waits in its sources, and the columns that sinks get."""

    name: str
    sources: list[PipelineSource]
    columns: dict[str, str]


class RunningPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A run that goes on."""

    host: str
    pid: int
    since_ms: int


class PipelineBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A micro-batch that is done (ISO 8601); ``redelivered`` of its rows may have been delivered before."""

    batch: int
    done: str
    rows: int
    redelivered: int
    dead_letters: int
    late: int
    sinks: dict[str, int]


class PipelineStands(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.status"):
    """Where a pipeline stands; ``problem`` says why its sources are missing."""

    name: str
    sources: list[PipelineSource]
    last_run: dict[str, Any] | None
    """As ``pipeline run`` printed it."""
    running: RunningPipeline | None
    batches: list[PipelineBatch]
    problem: str | None = None


class LedgerTold(msgspec.Struct, frozen=True, kw_only=True):
    """Rows over all micro-batches of a run: where they came from, where each went, and what does not add up."""

    rows_in: int
    undecoded: int
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


class TableTold(msgspec.Struct, frozen=True, kw_only=True):
    """A table source of a run: its rows, and the offsets up to which it was read, by topic and partition."""

    rows: int
    undecoded: int
    dead_letters: int
    upto: dict[str, dict[str, int]]


class PipelineRan(Result, frozen=True, kw_only=True, tag="kohort/v1/pipeline.run"):
    """What one run did; ``balanced`` is whether every row is accounted for."""

    name: str
    balanced: bool
    seconds: float
    ledger: LedgerTold
    tables: dict[str, TableTold]
    summaries: dict[str, int]
    lag: dict[str, int]
    problems: list[str]
