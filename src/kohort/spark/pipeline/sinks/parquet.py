"""Parquet files as a sink: names begin with the micro-batch, and a repeated micro-batch replaces its own files, so each
row is there exactly once (see parquet_folder.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from kohort.spark.pipeline.definition import Pipeline, Sink, SinkWriter
from kohort.spark.pipeline.parse_sources import KafkaCluster
from kohort.spark.pipeline.sections import PipelineError, YamlSection
from kohort.spark.pipeline.sinks.folder_claim import claim_sink
from kohort.spark.pipeline.sinks.folder_types import FolderTypes
from kohort.spark.pipeline.sinks.parquet_folder import ParquetFolder, folder_of, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TIMES: Final = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(Sink):
    """A folder of Parquet files. ``compact_every``: micro-batches after which small files are merged; 0: never by the
    run itself."""

    kind: ClassVar[str] = "parquet"
    stores_rows: ClassVar[bool] = True
    path: Path
    partition_by: tuple[str, ...] = ()
    compact_every: int = 0

    @classmethod
    def parse(cls, body: YamlSection, root: Path, _cluster: KafkaCluster, beside: Sink) -> ParquetSink:
        line, every_line = body.line_of("partition_by"), body.line_of("compact_every")
        columns, every = tuple(body.texts("partition_by", [])), body.take("compact_every", int, 0)
        if beside.counts and beside.counts in columns:
            raise PipelineError(
                body.file, line, f"counts: {beside.counts} is a column of partition_by: it would be no number"
            )
        if every < 0 or every == 1:
            raise PipelineError(
                body.file, every_line, f"compact_every: {every}: expected a number of micro-batches, from 2"
            )
        path = root / body.take("path", str)
        return cls(name=beside.name, counts=beside.counts, path=path, partition_by=columns, compact_every=every)

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def folder(self) -> Path:
        return self.path

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return tuple(("partition_by", name) for name in self.partition_by)

    def prepare(self, pipeline: Pipeline) -> None:
        claim_sink(pipeline, self)

    def open(self, pipeline: Pipeline) -> SinkWriter:
        return _ParquetWriter(self, folder_of(pipeline, self))


class _ParquetWriter(SinkWriter):
    """The folder of one run, and the types of its columns."""

    def __init__(self, sink: ParquetSink, folder: ParquetFolder) -> None:
        self._sink = sink
        self._folder = folder
        self._types = FolderTypes(sink.name, sink.partition_by, folder)

    @property
    def has_rows(self) -> bool:
        return bool(self._folder.data_files())

    @property
    def has_types(self) -> bool:
        return bool(self._types)

    def begin(self, batch: int) -> None:
        self._folder.begin(batch)
        if self._sink.compact_every and batch and batch % self._sink.compact_every == 0:
            self._folder.compact(batch - 1)

    def check(self, schema: StructType) -> None:
        self._types.casts(schema)

    def write(self, rows: DataFrame, batch: int, *, passed: int, counts: str) -> int:
        """Write the rows. Without rows there is no file, which would have to be merged later."""
        if not passed:
            return 0
        return rows_in(write_files(self._types.fitted(rows), self._folder, batch, self._sink.partition_by), counts)

    def read(self, spark: SparkSession) -> DataFrame:
        files = spark.read.option("pathGlobFilter", f"*-{self._folder.owner.id}.parquet")
        return files.parquet(str(self._folder.path))


def write_files(rows: DataFrame, folder: ParquetFolder, batch: int, partition_by: Sequence[str] = ()) -> list[Path]:
    conf = rows.sparkSession.conf
    before = conf.get(_TIMES)
    # The type that all readers know; Spark's default is one that Parquet has given up (INT96).
    conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        writer = rows.write.mode("overwrite")
        (writer.partitionBy(*partition_by) if partition_by else writer).parquet(str(folder.staging))
    finally:
        conf.set(_TIMES, before)
    return folder.publish(batch)
