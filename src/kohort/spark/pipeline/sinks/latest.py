"""Sink with the latest row of each key, in a folder of Parquet files. Deletes remove rows.

The hash of the key selects one of ``buckets`` files. A micro-batch replaces the files of its keys: Spark's workers
merge the events into new files, and renames replace the old files, so readers see each key once. A repeated micro-batch
gives the same rows. See latest_rows.py for the order of events.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from kohort.spark.pipeline.definition import SOURCE, Pipeline, Sink, SinkWriter
from kohort.spark.pipeline.parse_sources import KafkaCluster
from kohort.spark.pipeline.sections import YamlSection
from kohort.spark.pipeline.sinks.folder_claim import claim_sink
from kohort.spark.pipeline.sinks.parquet import FolderTypes
from kohort.spark.pipeline.sinks.parquet_folder import ParquetFolder, SinkRefused, folder_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kohort.spark.pipeline.sinks.latest_rows import LatestRows

_BUCKETS: Final = 8
_BUCKETS_MOST: Final = 4096
_META: Final = "__"
_KEY, _ORDER = b"kohort.key", b"kohort.order"
_FILE: Final = re.compile(r"latest-(\d+)-of-(\d+)-[0-9a-f]{8}\.parquet")
_KEY_TYPES: Final = ("tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestSink(Sink):
    """Sink with one row for each value of the columns ``key``.

    ``order``: column that orders the events of a key; "" for their offsets. ``delete``: SQL condition for deletes;
    without it a delete has ``__op = 'd'`` or no value. ``buckets``: number of files.
    """

    kind: ClassVar[str] = "latest"
    needs_source: ClassVar[bool] = True
    path: Path
    key: tuple[str, ...]
    order: str = ""
    delete: str = ""
    buckets: int = _BUCKETS

    @classmethod
    def parse(cls, body: YamlSection, root: Path, _cluster: KafkaCluster, common: Sink) -> LatestSink:
        lines = {name: body.line_of(name) for name in ("key", "buckets")}
        sink = cls(
            name=common.name,
            path=root / body.take("path", str),
            key=tuple(body.texts("key")),
            order=body.take("order", str, ""),
            delete=body.take("delete", str, ""),
            buckets=body.take("buckets", int, _BUCKETS),
        )
        if common.counts:
            raise body.error("counts: a latest sink stores no aggregates: remove counts")
        if not sink.key or any(name.startswith(_META) for name in sink.key):
            raise body.error(f"key: {', '.join(sink.key) or '[]'}: expected columns of the row", lines["key"])
        if len({name.lower() for name in sink.key}) < len(sink.key):
            raise body.error(f"key: {', '.join(sink.key)}: a column is named twice", lines["key"])
        if not 1 <= sink.buckets <= _BUCKETS_MOST:
            raise body.error(f"buckets: {sink.buckets}: expected 1 to {_BUCKETS_MOST} files", lines["buckets"])
        return sink

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def folder(self) -> Path:
        return self.path

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return (*(("key", name) for name in self.key), *((("order", self.order),) if self.order else ()))

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        return (("delete", self.delete),) if self.delete else ()

    def prepare(self, pipeline: Pipeline) -> None:
        claim_sink(pipeline, self)

    def open(self, pipeline: Pipeline) -> SinkWriter:
        has_op = any(source.decode.format == "debezium" for source in pipeline.streams)
        return _LatestWriter(self, folder_of(pipeline, self), needs_op=has_op and not self.delete)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Files of the sink, and the merge of events into one of them. Picklable, for Spark's workers."""

    path: Path
    work: Path
    owner: str
    count: int
    keys: tuple[str, ...]
    order: str = ""

    @property
    def settings(self) -> dict[bytes, bytes]:
        """Metadata of the files: settings of the sink that their rows depend on."""
        return {_KEY: json.dumps(self.keys).encode(), _ORDER: self.order.encode()}

    def live(self, bucket: int) -> Path:
        return self.path / f"latest-{bucket:04d}-of-{self.count:04d}-{self.owner}.parquet"

    def files(self) -> list[Path]:
        return [path for bucket in range(self.count) if (path := self.live(bucket)).exists()]

    def deleted(self, bucket: int) -> Path:
        return self.work / "deleted" / f"{bucket:04d}.parquet"

    @property
    def staging(self) -> Path:
        return self.work / "staging"

    def read(self, bucket: int) -> LatestRows | None:
        import pyarrow.parquet as pq

        from kohort.spark.pipeline.sinks.latest_rows import PLACE, LatestRows

        if not self.live(bucket).exists():
            return None
        live = pq.ParquetFile(self.live(bucket)).read()
        deleted = self.deleted(bucket)
        return LatestRows(
            live, pq.ParquetFile(deleted).read() if deleted.exists() else live.slice(0, 0).select([*self.keys, PLACE])
        )

    def merge(self, bucket: int, events: pa.Table) -> str:
        """Write the merged rows of a bucket into the staging folder. Return the name of the staged files."""
        from kohort.spark.pipeline.sinks.latest_rows import merge

        merged = merge(self.read(bucket), events, self.keys)
        name = f"{bucket:04d}-{uuid.uuid4().hex[:8]}"
        for part, rows in zip(("deleted", "live"), reversed(merged), strict=True):
            write_table(rows.replace_schema_metadata(self.settings), self.staging / f"{name}.{part}")
        return name

    def publish(self, bucket: int, name: str) -> None:
        # the deleted keys first: a row in both files counts as deleted if its delete is the later event
        self.deleted(bucket).parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(parents=True, exist_ok=True)
        (self.staging / f"{name}.deleted").replace(self.deleted(bucket))
        (self.staging / f"{name}.live").replace(self.live(bucket))


def write_table(rows: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        pq.write_table(rows, out, compression="snappy")
        out.flush()
        os.fsync(out.fileno())


class _LatestWriter(SinkWriter):
    def __init__(self, sink: LatestSink, folder: ParquetFolder, *, needs_op: bool) -> None:
        self._sink = sink
        self._needs_op = needs_op
        self._types = FolderTypes(sink.name, (), folder)
        self._buckets = Buckets(
            sink.path.absolute(), folder.staging.parent.absolute(), folder.owner.id, sink.buckets, sink.key, sink.order
        )
        for file in folder.data_files():
            found = _FILE.fullmatch(file.path.name)
            if found and int(found[2]) != sink.buckets:
                raise SinkRefused(
                    f"sink {sink.name}: {sink.path} has {int(found[2])} buckets, not {sink.buckets}: keep the number, "
                    "or give another path"
                )
        self._check_settings()
        self._add_missing_columns()

    def _check_settings(self) -> None:
        """Raise SinkRefused if the files have other keys, or the order of another column, than the sink."""
        import pyarrow.parquet as pq

        for path in self._buckets.files():
            stored = pq.read_schema(path).metadata or {}
            for name, given in self._buckets.settings.items():
                found = stored.get(name)
                if found and found != given:
                    setting = name.decode().removeprefix("kohort.")
                    raise SinkRefused(
                        f"sink {self._sink.name}: the rows of {self._sink.path} were written with {setting}: "
                        f"{found.decode()}, not {given.decode() or 'the offsets'}: keep the setting, or give another "
                        "path"
                    )

    @property
    def has_types(self) -> bool:
        return bool(self._types)

    def begin(self, _batch: int) -> None:
        shutil.rmtree(self._buckets.staging, ignore_errors=True)

    def check(self, schema: StructType) -> None:
        kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
        for name in self._sink.key:
            kind = kinds.get(name, "missing")
            if kind not in _KEY_TYPES and not kind.startswith("decimal"):
                raise SinkRefused(
                    f"sink {self._sink.name}: key column {name} is {kind}, expected one of {', '.join(_KEY_TYPES)}, "
                    "decimal"
                )
        if self._needs_op and "__op" not in kinds:
            raise SinkRefused(
                f"sink {self._sink.name}: the steps drop the column __op, which marks deletes: select it in each step, "
                'or set delete (delete: "false" keeps all rows)'
            )
        self._types.casts(self._stored(schema))

    @staticmethod
    def _stored(schema: StructType) -> StructType:
        """Return the columns that are stored: those of the row, without metadata columns and ``_source``."""
        from pyspark.sql.types import StructType

        return StructType([f for f in schema.fields if not f.name.startswith(_META) and f.name != SOURCE])

    def write(self, rows: DataFrame, batch: int, *, passed: int, counts: str) -> int:  # noqa: ARG002 - of all writers
        if not passed:
            return 0
        if SOURCE not in rows.columns:
            raise SinkRefused(
                f"sink {self._sink.name}: the steps drop the column {SOURCE}, whose offsets order the events: select "
                "it in each step (select f.*, ... keeps it)"
            )
        events = self._events(rows, batch)
        merged = events.mapInArrow(merge_task(self._buckets, events.schema), MergeTask.RESULT).collect()
        problem = next((row["problem"] for row in merged if row["problem"]), None)
        if problem:
            raise SinkRefused(f"sink {self._sink.name}: {problem}")
        for row in merged:
            self._buckets.publish(row["bucket"], row["name"])
        self._add_missing_columns()
        return sum(row["rows"] for row in merged)

    def _events(self, rows: DataFrame, batch: int) -> DataFrame:
        from pyspark.sql import functions as f

        from kohort.spark.pipeline.sinks.latest_rows import DELETED, UNCHANGED

        sink, names = self._sink, self._stored(rows.schema).fieldNames()
        place = [f.col(f"{SOURCE}.{name}") for name in ("topic", "partition", "offset")]
        place += [f.lit(batch).cast("long").alias("batch")]
        place += [f.col(f"`{sink.order}`").alias("order")] if sink.order else []
        is_delete = f.expr(sink.delete or ("`__op` = 'd'" if "__op" in rows.columns else "false"))
        unchanged = f.col("__unchanged") if "__unchanged" in rows.columns else f.lit(None).cast("array<string>")
        payload = self._types.cast_to_folder(rows.select(*(f"`{name}`" for name in names), SOURCE, *self._meta(rows)))
        bucket = f.pmod(f.xxhash64(*(f"`{name}`" for name in sink.key)), f.lit(sink.buckets)).cast("int")
        return payload.select(
            *(f"`{name}`" for name in names),
            f.struct(*place).alias(SOURCE),
            f.coalesce(is_delete | f.col(f"{SOURCE}.value").isNull(), f.lit(False)).alias(DELETED),
            unchanged.alias(UNCHANGED),
            bucket.alias("_bucket"),
        ).repartition(sink.buckets, "_bucket")

    @staticmethod
    def _meta(rows: DataFrame) -> list[str]:
        return [f"`{name}`" for name in rows.columns if name.startswith(_META)]

    def _add_missing_columns(self) -> None:
        """Add new columns to the files that no event has touched, so that all files have the same columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schemas = {path: pq.read_schema(path).remove_metadata() for path in self._buckets.files()}
        if len(set(schemas.values())) < 2:
            return
        schema = pa.unify_schemas(list(schemas.values()))
        for path, own in schemas.items():
            if not own.equals(schema):
                empty = schema.empty_table()
                stored = pq.ParquetFile(path).read()
                rows = pa.concat_tables([empty, stored], promote_options="default")
                rows = rows.replace_schema_metadata(stored.schema.metadata)
                staged = self._buckets.staging / path.name
                write_table(rows, staged)
                staged.replace(path)


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merge of events by a Spark task. Yields a row for each bucket: the staged files, or the problem of an event."""

    buckets: Buckets
    schema: pa.Schema

    RESULT: ClassVar[str] = "bucket int, rows long, name string, problem string"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        from kohort.spark.pipeline.sinks.latest_rows import EventRefused

        found = list(batches)
        rows = pa.Table.from_batches(found).cast(self.schema) if found else self.schema.empty_table()
        for bucket in pc.unique(rows.column("_bucket")).to_pylist():
            own = rows.filter(pc.equal(rows.column("_bucket"), bucket)).drop_columns(["_bucket"])
            name, problem = None, None
            try:
                name = self.buckets.merge(bucket, own)
            except EventRefused as error:
                problem = str(error)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([bucket], pa.int32()),
                    pa.array([own.num_rows], pa.int64()),
                    pa.array([name], pa.string()),
                    pa.array([problem], pa.string()),
                ],
                names=["bucket", "rows", "name", "problem"],
            )


def merge_task(buckets: Buckets, events: StructType) -> MergeTask:
    from pyspark.sql.pandas.types import to_arrow_schema

    from kohort.spark.pipeline.frames import nullable  # imports pyspark

    # Spark declares computed columns as NOT NULL, unlike the columns of the files
    return MergeTask(buckets, to_arrow_schema(nullable(events), timezone="UTC").empty_table().schema)
