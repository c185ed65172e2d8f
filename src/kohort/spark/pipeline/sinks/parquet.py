"""Parquet sink, exactly once: file names contain the micro-batch, so a repeated micro-batch replaces its files.

Readers take the types of one file for the whole folder, so a column keeps its type. The sink widens values of a
narrower type without loss, and rejects values of any other type. Rows may add or omit columns. See parquet_folder.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from kohort.spark.pipeline.definition import Pipeline, Sink, SinkWriter
from kohort.spark.pipeline.parse_sources import KafkaCluster
from kohort.spark.pipeline.sections import YamlSection
from kohort.spark.pipeline.sinks.folder_claim import claim_sink
from kohort.spark.pipeline.sinks.parquet_folder import ParquetFolder, SinkRefused, folder_of, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_WIDER: Final = ("tinyint", "smallint", "int", "bigint"), ("float", "double")


class KnownType(NamedTuple):
    type: DataType
    file: Path


class FolderTypes:
    def __init__(self, sink: str, partition_by: tuple[str, ...], folder: ParquetFolder) -> None:
        """Read the column types from the files of a folder.

        Raises SinkRefused if the subfolders do not match ``partition_by``.
        """
        self._sink = sink
        self._partition_by = partition_by
        self._folder = folder.path
        self._known: dict[str, KnownType] = {}
        of_batch = {(file.owner, file.first, file.last): file.path for file in folder.all_files()}
        for path in of_batch.values():
            self._check_partitions(path)
            for field in schema_of(path).fields:
                self._known.setdefault(field.name.lower(), KnownType(field.dataType, path))

    def __bool__(self) -> bool:
        return bool(self._known)

    def casts(self, schema: StructType) -> dict[str, str]:
        """Return the columns to widen, as a dict from column name to SQL type.

        Raises SinkRefused for other changes of type.
        """
        found = {}
        for field in schema.fields:
            known = self._known.get(field.name.lower())
            if known is None or field.name in self._partition_by or is_same_type(field.dataType, known.type):
                continue
            if not widens(field.dataType, known.type):
                has, comes = known.type.simpleString(), field.dataType.simpleString()
                raise SinkRefused(
                    f"sink {self._sink}: column {field.name} is {comes}, but {has} in {known.file}. All files of "
                    f"a folder need the same type: cast the column to {has} in a step, or give another path"
                )
            found[field.name] = known.type.simpleString()
        return found

    def cast_to_folder(self, rows: DataFrame) -> DataFrame:
        """Cast rows to the column types of the Parquet files in the folder.

        Remembers the types of new columns for later rows. Raises SinkRefused for a type that cannot be widened.
        """
        casts = self.casts(rows.schema)
        if casts:
            rows = rows.withColumns({name: rows[f"`{name}`"].cast(kind) for name, kind in casts.items()})
        for field in rows.schema.fields:
            self._known.setdefault(field.name.lower(), KnownType(field.dataType, self._folder))
        return rows

    def _check_partitions(self, path: Path) -> None:
        names = tuple(part.partition("=")[0] for part in path.parent.relative_to(self._folder).parts)
        if names != self._partition_by:
            have, want = ", ".join(names) or "no column", ", ".join(self._partition_by) or "no column"
            raise SinkRefused(
                f"sink {self._sink}: {path} is partitioned by {have}, but partition_by gives {want}. All files "
                "of a folder need the same partition columns: give another path"
            )


def schema_of(path: Path) -> StructType:
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    try:
        metadata = pq.read_metadata(path)
        note = (metadata.metadata or {}).get(_SPARK_SCHEMA)
        if note is not None:
            return StructType.fromJson(json.loads(note))
        found: StructType = from_arrow_schema(metadata.schema.to_arrow_schema())
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are subclasses of these classes
        raise SinkRefused(f"Parquet file {path} cannot be read: {error}") from None
    return found


def is_same_type(one: Any, other: Any) -> bool:
    """True if two Spark types are equal. Ignores nullability. In structs, compares only the common fields."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(one, StructType) and isinstance(other, StructType):
        fields = {field.name.lower(): field.dataType for field in other.fields}
        return all(is_same_type(f.dataType, fields.get(f.name.lower(), f.dataType)) for f in one.fields)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return is_same_type(one.elementType, other.elementType)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return is_same_type(one.keyType, other.keyType) and is_same_type(one.valueType, other.valueType)
    return bool(one.simpleString() == other.simpleString())


def widens(narrow: Any, wide: Any) -> bool:
    """True if a cast from ``narrow`` to ``wide`` loses nothing, such as int to bigint or float to double."""
    from pyspark.sql.types import DecimalType

    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return bool(wide.precision - wide.scale >= narrow.precision - narrow.scale and wide.scale >= narrow.scale)
    names = narrow.simpleString(), wide.simpleString()
    return any(set(names) <= set(kinds) and kinds.index(names[0]) <= kinds.index(names[1]) for kinds in _WIDER)


_TIMES: Final = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(Sink):
    """Sink into a folder of Parquet files. ``compact_every``: merge small files every N micro-batches; 0: never."""

    kind: ClassVar[str] = "parquet"
    stores_rows: ClassVar[bool] = True
    path: Path
    partition_by: tuple[str, ...] = ()
    compact_every: int = 0

    @classmethod
    def parse(cls, body: YamlSection, root: Path, _cluster: KafkaCluster, common: Sink) -> ParquetSink:
        line, every_line = body.line_of("partition_by"), body.line_of("compact_every")
        columns, every = tuple(body.texts("partition_by", [])), body.take("compact_every", int, 0)
        if common.counts and common.counts in columns:
            raise body.error(
                f"counts: column {common.counts} is also in partition_by, so the files do not contain it", line
            )
        if every < 0 or every == 1:
            raise body.error(f"compact_every: {every}: expected 0, or at least 2 micro-batches", every_line)
        path = root / body.take("path", str)
        return cls(name=common.name, counts=common.counts, path=path, partition_by=columns, compact_every=every)

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
        if not passed:
            return 0
        return rows_in(
            write_files(self._types.cast_to_folder(rows), self._folder, batch, self._sink.partition_by), counts
        )

    def read(self, spark: SparkSession) -> DataFrame:
        files = spark.read.option("pathGlobFilter", f"*-{self._folder.owner.id}.parquet")
        return files.parquet(str(self._folder.path))


def write_files(rows: DataFrame, folder: ParquetFolder, batch: int, partition_by: Sequence[str] = ()) -> list[Path]:
    conf = rows.sparkSession.conf
    before = conf.get(_TIMES)
    # Spark writes timestamps as INT96 by default, which Parquet has deprecated.
    conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        writer = rows.write.mode("overwrite")
        (writer.partitionBy(*partition_by) if partition_by else writer).parquet(str(folder.staging))
    finally:
        conf.set(_TIMES, before)
    return folder.publish(batch)
