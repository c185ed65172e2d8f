"""The types of the columns in a folder of Parquet files, and how new rows fit them.

A reader takes the types of one file for the whole folder, so a column keeps the type that it has there. Rows of a
narrower type are widened into it, without loss; rows of any other type are refused. Columns may be added or left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.spark.pipeline.sinks.parquet_folder import ParquetFolder, SinkRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_NOTE: Final = b"org.apache.spark.sql.parquet.row.metadata"
_WIDER: Final = ("tinyint", "smallint", "int", "bigint"), ("float", "double")
"""Types by their names in SQL: each widens into those behind it."""


class KnownType(NamedTuple):
    """Type of a column, and a file with that type."""

    type: DataType
    file: Path


class FolderTypes:
    """The types of the columns that the files of a sink have, by lower-case name."""

    def __init__(self, sink: str, partition_by: tuple[str, ...], folder: ParquetFolder) -> None:
        """Raises SinkRefused where files lie in folders of other columns than ``partition_by`` names."""
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
        """Return the columns of a frame that must be widened, with the types of the folder, as SQL names them.

        Raises SinkRefused, naming the file and the column, for one that does not fit.
        """
        found = {}
        for field in schema.fields:
            known = self._known.get(field.name.lower())
            if known is None or field.name in self._partition_by or same_type(field.dataType, known.type):
                continue
            if not widens(field.dataType, known.type):
                has, comes = known.type.simpleString(), field.dataType.simpleString()
                raise SinkRefused(
                    f"sink {self._sink}: column {field.name} is {comes}, and {known.file} has it as {has}: "
                    f"readers take one type for the whole folder. Make it {has} in a step, or give another path"
                )
            found[field.name] = known.type.simpleString()
        return found

    def fitted(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the types of the folder, whose types they are from here on. Raises SinkRefused."""
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
                f"sink {self._sink}: {path} is partitioned by {have}, and partition_by names {want}: readers "
                "take one layout for the whole folder. Give another path"
            )


def schema_of(path: Path) -> StructType:
    """Return the columns of a Parquet file with Spark's types."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    try:
        metadata = pq.read_metadata(path)
        note = (metadata.metadata or {}).get(_NOTE)
        if note is not None:
            return StructType.fromJson(json.loads(note))
        found: StructType = from_arrow_schema(metadata.schema.to_arrow_schema())
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are among these
        raise SinkRefused(f"{path} cannot be read: {error}") from None
    return found


def same_type(one: Any, other: Any) -> bool:
    """Tell whether two types are the same in a file: names of fields count, whether they may be null does not."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(one, StructType) and isinstance(other, StructType):
        fields = {field.name.lower(): field.dataType for field in other.fields}
        return all(same_type(f.dataType, fields.get(f.name.lower(), f.dataType)) for f in one.fields)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return same_type(one.elementType, other.elementType)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return same_type(one.keyType, other.keyType) and same_type(one.valueType, other.valueType)
    return bool(one.simpleString() == other.simpleString())


def widens(narrow: Any, wide: Any) -> bool:
    """Tell whether each value of one type is a value of the other: smaller integers, float, fewer decimal digits."""
    from pyspark.sql.types import DecimalType

    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        before = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(before and wide.scale >= narrow.scale)
    names = narrow.simpleString(), wide.simpleString()
    return any(set(names) <= set(kinds) and kinds.index(names[0]) <= kinds.index(names[1]) for kinds in _WIDER)
