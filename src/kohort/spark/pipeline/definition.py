"""Definition of a pipeline: sources, steps, rules, sinks, summaries, dead letters, trigger, checkpoint.

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

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kohort.config.security_names import translated
from kohort.spark.options.changes import KEY_TYPES, with_metadata
from kohort.spark.options.client import connecting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ClientSettings = tuple[tuple[str, Any], ...]
AVAILABLE_NOW: Final = "available-now"
SOURCE: Final = "_source"
PROBLEM: Final = "_problem"
FAILED: Final = "_failed"
RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class KeyDecode:
    """Decoding of record keys into the column ``column``. ``schema``: columns of a struct, for json, avro, debezium."""

    format: str
    schema: str = ""
    column: str = "key"
    avro_schema: str = ""

    @property
    def ddl(self) -> str:
        return f"`{self.column}` {KEY_TYPES[self.format] or f'struct<{self.schema}>'}"


@dataclass(frozen=True, slots=True)
class Decode:
    """Decoding of records into columns. The format ``raw`` keeps the columns of the record.

    ``avro_schema``: the writer's schema. ``framing``: none or confluent. ``tombstones``: row, drop or bad.
    ``envelope``, ``decimals``, ``times``, ``key_schema``: settings of change events, see ChangeOptions.
    """

    format: str = "raw"
    schema: str = ""
    separator: str = ","
    avro_schema: str = ""
    framing: str = "none"
    tombstones: str = "row"
    envelope: bool = True
    decimals: str = ""
    times: tuple[tuple[str, str], ...] = ()
    key_schema: str = ""
    key: KeyDecode | None = None

    @property
    def columns(self) -> str:
        """Spark schema of the decoded rows: columns of the value, metadata columns of change events, decoded key."""
        if not self.schema:
            return ""
        value = with_metadata(self.schema) if self.format == "debezium" else self.schema
        return f"{value}, {self.key.ddl}" if self.key else value

    @property
    def options(self) -> dict[str, str]:
        """Options of ``format("kohort")``. A dropped tombstone stays as a skipped row, which the ledger counts."""
        tombstones = "skip" if self.tombstones == "drop" else self.tombstones
        found = {"value.format": self.format, "value.separator": self.separator, "value.tombstones": tombstones}
        if self.avro_schema:
            found |= {"value.avro.schema": self.avro_schema, "value.avro.framing": self.framing}
        if self.format == "debezium":
            found["value.debezium.envelope"] = str(self.envelope).lower()
            found |= {"value.debezium.decimals": self.decimals} if self.decimals else {}
            found |= {"value.debezium.times": json.dumps(dict(self.times))} if self.times else {}
            found |= {"value.debezium.keySchema": self.key_schema} if self.key_schema else {}
        if self.key:
            found |= {"key.format": self.key.format, "key.column": self.key.column}
            found |= {"key.avro.schema": self.key.avro_schema} if self.key.avro_schema else {}
        return found


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a pipeline: one or more topics. Steps refer to the source by its name.

    ``table``: True if a run reads the topics only at its beginning. ``watermark``: a time column, and the maximum
    lateness of rows. ``member``: True if the run is a member of the group, which assigns the partitions.
    ``member_line``: line of ``group_mode`` in the pipeline file.
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
        return {"bootstrap.servers": self.brokers, **connecting(translated(dict(self.kafka)))}


@dataclass(frozen=True, slots=True)
class Window:
    """Aggregation of rows in time windows, with one result for each window and each group of rows.

    ``time``: time column. ``by``: group columns. ``agg``: pairs of an aggregate's name and its SQL. ``late``: maximum
    lateness of rows; "" to use the source's watermark. ``slide``: distance between the starts of overlapping windows;
    "" for windows that do not overlap.
    """

    time: str
    size: str
    late: str
    slide: str
    by: tuple[str, ...]
    agg: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Step of a pipeline: a SQL query, a Python function, or a window.

    A SQL query reads the sources, and ``input``: the result of the previous step. If ``kind`` is "python", ``text``
    names a function in a file or module. If ``kind`` is "function", ``function`` is the function given to the builder.
    """

    kind: str
    text: str
    filters: bool = False
    line: int = 0
    window: Window | None = None
    function: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class RowRule:
    name: str
    condition: str
    otherwise: str
    reason: str
    line: int = 0


class SinkWriter:
    """Writer of one sink during one run of a pipeline."""

    @property
    def has_rows(self) -> bool:
        return False

    @property
    def has_types(self) -> bool:
        """True if the sink already has rows. New rows must then have the column types of the existing rows."""
        return False

    def begin(self, batch: int) -> None:
        """Remove rows that an interrupted run may have written for this micro-batch or a later micro-batch."""

    def check(self, schema: StructType) -> None: ...

    def write(self, rows: DataFrame, batch: int, *, passed: int, counts: str) -> int:
        """Write the rows of a micro-batch. Return the number of source rows.

        ``passed``: number of rows in ``rows``. ``counts``: column to sum up for the result; "" to count the rows.
        """
        raise NotImplementedError

    def read(self, spark: SparkSession) -> DataFrame:
        raise NotImplementedError


def source_rows(rows: DataFrame, counts: str) -> int:
    """Return the number of source rows. ``counts``: column to sum up; "" to count the rows."""
    return int(rows.agg({counts: "sum"}).collect()[0][0] or 0) if counts else int(rows.count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(SinkWriter):
    """Sink of a pipeline. Each kind of sink is a subclass in ``sinks/``, registered in ``sinks/registry.py``.

    ``counts``: column with the number of source rows that an output row aggregates.
    """

    kind: ClassVar[str] = ""
    has_keys: ClassVar[bool] = True
    """True if this kind of sink has settings in a pipeline file."""
    stores_rows: ClassVar[bool] = False
    """True if this kind of sink only adds rows to a folder. Summaries need such a sink."""
    needs_source: ClassVar[bool] = False
    """True if the sink needs the column ``_source`` of the rows."""
    name: str
    counts: str = ""
    line: int = field(default=0, compare=False)

    @property
    def place(self) -> str:
        """Output folder or topic of the sink; "" if the sink has neither."""
        return ""

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Settings that name columns, as pairs of setting and column, such as ``("partition_by", "day")``."""
        return ()

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a setting and its SQL condition, such as ``("delete", "op = 'd'")``."""
        return ()

    def prepare(self, pipeline: Pipeline) -> None: ...

    def open(self, _pipeline: Pipeline) -> SinkWriter:
        """Return the writer for one run: the sink itself, or an object that stores the state of the run.

        Raises SinkRefused.
        """
        return self


@dataclass(frozen=True, slots=True)
class Summary:
    """Table that a SQL query computes from all rows of the Parquet sinks at the end of a run."""

    name: str
    sql: str
    path: Path
    counts: str = ""
    of: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Dead-letter topic for rows that cannot be decoded or fail a quarantine rule."""

    brokers: str
    topic: str
    partitions: int = 1
    kafka: ClientSettings = ()

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.brokers, **dict(self.kafka)}


@dataclass(frozen=True, slots=True)
class PipelineTest:
    """Test in a pipeline file: records of each source, and the expected result (rows, dead letters, dropped rows)."""

    name: str
    given: Mapping[str, tuple[Mapping[str, Any], ...]]
    rows: tuple[Mapping[str, Any], ...] | None
    dead_letters: tuple[Mapping[str, Any], ...]
    dropped: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Pipeline:
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
        """True if windows, watermarks or joins of streams combine rows of different micro-batches."""
        windows = any(s.kind == "window" for s in self.steps)
        return windows or len(self.streams) > 1 or any(s.watermark for s in self.streams)

    @property
    def tables(self) -> tuple[Source, ...]:
        return tuple(s for s in self.sources if s.table)

    @property
    def filters(self) -> bool:
        """True if a step may drop rows on purpose."""
        return any(s.filters for s in self.steps)

    @property
    def state(self) -> Path:
        return self.checkpoint / self.name
