"""Pipeline sinks for a first try: ``console`` prints rows, ``noop`` only counts rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kohort.spark.pipeline.definition import Sink, source_rows
from kohort.spark.pipeline.parse_sources import KafkaCluster
from kohort.spark.pipeline.sections import YamlSection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink(Sink):
    kind: ClassVar[str] = "console"
    rows: int = 20

    @classmethod
    def parse(cls, body: YamlSection, _root: Path, _cluster: KafkaCluster, common: Sink) -> ConsoleSink:
        return cls(name=common.name, counts=common.counts, rows=body.take("rows", int, 20))

    def write(self, rows: DataFrame, _batch: int, *, passed: int, counts: str) -> int:  # noqa: ARG002 - of all writers
        rows.show(self.rows, truncate=False)
        return source_rows(rows, counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoopSink(Sink):
    kind: ClassVar[str] = "noop"
    has_keys: ClassVar[bool] = False

    @classmethod
    def parse(cls, _body: YamlSection, _root: Path, _cluster: KafkaCluster, common: Sink) -> NoopSink:
        return cls(name=common.name, counts=common.counts)

    def write(self, rows: DataFrame, _batch: int, *, passed: int, counts: str) -> int:  # noqa: ARG002 - of all writers
        rows.write.format("noop").mode("overwrite").save()
        return source_rows(rows, counts)
