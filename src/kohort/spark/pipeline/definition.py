"""What a pipeline file says, as values: sources, steps, rules, sinks, summaries, dead letters, trigger, checkpoint.

version: 1
name: orders
source: {brokers: "${KOHORT_BROKERS:-localhost:9092}", topics: [orders], group: orders, start: earliest}
decode: {format: json, schema: "id long, amount double"}
steps:
  - sql: select * from input where amount > 0
    filters: true
expect:
  - {not_null: id, else: quarantine, reason: no id}
sinks:
  - parquet: {path: out/orders}
dlq: {topic: orders-dlq}
checkpoint: state
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kohort.config.security_names import translated
from kohort.spark.options.client import connecting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ClientSettings = tuple[tuple[str, Any], ...]
"""Options of Kafka's clients, by its names, as the file says them; secrets are hidden."""
AVAILABLE_NOW: Final = "available-now"
"""The trigger of a pipeline that runs to the end of its topics."""


@dataclass(frozen=True, slots=True)
class Decode:
    """How a record's value becomes columns: ``json``, ``csv`` or ``avro`` into a schema, or ``raw``, the columns of the
    source. ``avro_schema``: the writer's schema; ``framing``: the bytes before each value; ``tombstones``: row, drop or
    bad."""

    format: str = "raw"
    schema: str = ""
    separator: str = ","
    avro_schema: str = ""
    framing: str = "none"
    tombstones: str = "row"

    @property
    def options(self) -> dict[str, str]:
        """The same, as options of ``format("kohort")``."""
        found = {"value.format": self.format, "value.separator": self.separator, "value.tombstones": self.tombstones}
        if self.format == "avro":
            found |= {"value.avro.schema": self.avro_schema, "value.avro.framing": self.framing}
        return found


@dataclass(frozen=True, slots=True)
class Source:
    """Topics by a name that steps use. ``table``: the whole topics as they stand when a run begins; else a stream.

    ``watermark``: a time column, and how late its rows may come; what a join of two streams waits for. ``member``: the
    run joins the group, whose members share the partitions; ``member_line`` is where the file says so. ``kafka``:
    settings of the client, by Kafka's names.
    """

    name: str
    brokers: str
    topics: tuple[str, ...]
    group: str = ""
    start: str = "earliest"
    table: bool = False
    decode: Decode = field(default_factory=Decode)
    max_rows: int | None = None
    fail_on_data_loss: bool = True
    max_bytes: str = ""
    watermark: tuple[str, str] | None = None
    member: bool = False
    member_line: int = field(default=0, compare=False)
    line: int = field(default=0, compare=False)
    kafka: ClientSettings = ()

    @property
    def client(self) -> dict[str, Any]:
        """The options of clients of these topics, without those that are of consumers alone."""
        return {"bootstrap.servers": self.brokers, **connecting(translated(dict(self.kafka)))}


@dataclass(frozen=True, slots=True)
class Window:
    """Aggregates ``agg`` (name: SQL) by windows of the column ``time`` and the columns ``by``. ``late``: how late rows
    may come, or nothing: the source's watermark says so; without ``slide``, windows do not overlap."""

    time: str
    size: str
    late: str
    slide: str
    by: tuple[str, ...]
    agg: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """SQL over the sources and over ``input``, the result of the step before; a function of a Python file (``python``)
    or one given by the builder (``function``); or a ``window``."""

    kind: str
    text: str
    filters: bool = False
    line: int = 0
    window: Window | None = None
    function: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class RowRule:
    """What each row must satisfy after the steps, and what happens to one that does not."""

    name: str
    condition: str
    otherwise: str
    reason: str
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where rows go; each kind is a class of its own in ``sinks/``, named in ``sinks/registry.py``.

    ``counts``: the column that says how many rows of the source a row stands for.
    """

    kind: ClassVar[str] = ""
    has_keys: ClassVar[bool] = True
    """False where the file names no more than the kind."""
    stores_rows: ClassVar[bool] = False
    """True where rows stay in a folder: summaries read them, and none is replaced later."""
    name: str
    counts: str = ""
    line: int = field(default=0, compare=False)

    @property
    def place(self) -> str:
        """The folder or the topic; empty where there is none."""
        return ""

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Columns that rows must have: the key of the file that names each, and its name."""
        return ()

    def prepare(self, pipeline: Pipeline) -> None:
        """Claim or make the place before a run. Raises SinkRefused."""

    def open(self, pipeline: Pipeline) -> SinkWriter:
        """Return the writer of one run. Raises SinkRefused."""
        raise NotImplementedError(self.kind)


class SinkWriter:
    """The writer of one run to one sink."""

    @property
    def has_rows(self) -> bool:
        """True where ``read`` finds rows."""
        return False

    @property
    def has_types(self) -> bool:
        """True where the sink holds rows whose types new rows must fit."""
        return False

    def begin(self, batch: int) -> None:
        """Remove what is there of this micro-batch and of later ones; those below it are complete."""

    def check(self, schema: StructType) -> None:
        """Raise SinkRefused where the columns do not fit the rows of the sink."""

    def write(self, rows: DataFrame, batch: int, *, passed: int, counts: str) -> int:
        """Write the ``passed`` rows of a micro-batch, and return the rows that the sink then holds or acknowledged: of
        the source, where the column ``counts`` says how many each stands for."""
        raise NotImplementedError

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all rows that the pipeline has written to a sink that stores them."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Summary:
    """A table computed by SQL at the end of a run over everything that the Parquet sinks hold."""

    name: str
    sql: str
    path: Path
    counts: str = ""
    of: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The topic for rows that cannot be decoded or that a rule quarantines."""

    brokers: str
    topic: str
    partitions: int = 1
    kafka: ClientSettings = ()

    @property
    def client(self) -> dict[str, Any]:
        """The options of clients of this topic."""
        return {"bootstrap.servers": self.brokers, **dict(self.kafka)}


@dataclass(frozen=True, slots=True)
class PipelineTest:
    """Records given to each source, and what must come of them: rows after the rules, dead letters, rows dropped."""

    name: str
    given: Mapping[str, tuple[Mapping[str, Any], ...]]
    rows: tuple[Mapping[str, Any], ...] | None
    dead_letters: tuple[Mapping[str, Any], ...]
    dropped: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole file, checked."""

    name: str
    file: Path
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    rules: tuple[RowRule, ...]
    sinks: tuple[Sink, ...]
    summaries: tuple[Summary, ...]
    dead_letters: DeadLetters | None
    every: str
    checkpoint: Path
    mode: str = "append"
    tests: tuple[PipelineTest, ...] = ()
    metrics: str = ""

    @property
    def stream(self) -> Source:
        return self.streams[0]

    @property
    def streams(self) -> tuple[Source, ...]:
        return tuple(s for s in self.sources if not s.table)

    @property
    def stateful(self) -> bool:
        """Whether rows of one micro-batch meet rows of another: windows, or a join of streams."""
        windows = any(s.kind == "window" for s in self.steps)
        return windows or len(self.streams) > 1 or any(s.watermark for s in self.streams)

    @property
    def tables(self) -> tuple[Source, ...]:
        return tuple(s for s in self.sources if s.table)

    @property
    def filters(self) -> bool:
        """Whether a step may leave rows out on purpose."""
        return any(s.filters for s in self.steps)

    @property
    def state(self) -> Path:
        """This pipeline's folder under the checkpoint root."""
        return self.checkpoint / self.name
