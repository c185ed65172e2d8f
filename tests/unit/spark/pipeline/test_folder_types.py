from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from kohort.spark.pipeline.pipeline_owner import PipelineOwner
from kohort.spark.pipeline.sinks.parquet import FolderTypes
from kohort.spark.pipeline.sinks.parquet_folder import ParquetFolder, SinkRefused


def columns(**types: str) -> StructType:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return StructType.fromJson({"type": "struct", "fields": fields})


def files(tmp_path: Path, *schemas: StructType | pa.Table, partition: str = "") -> ParquetFolder:
    """Create a folder with one Parquet file for each schema. Files of Arrow tables have no Spark metadata."""
    folder = ParquetFolder(tmp_path / "out", tmp_path / "work", PipelineOwner("1f3c9a2b", "orders", "state"))
    place = folder.path / partition
    place.mkdir(parents=True, exist_ok=True)
    for batch, schema in enumerate(schemas):
        table = pa.table({"n": [1]}) if isinstance(schema, StructType) else schema
        file = place / f"batch-{batch:010d}-0000-1f3c9a2b.parquet"
        with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            if isinstance(schema, StructType):
                note = {"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema.jsonValue())}
                writer.add_key_value_metadata(note)
    return folder


def types(tmp_path: Path, *schemas: StructType | pa.Table) -> FolderTypes:
    return FolderTypes("table", (), files(tmp_path, *schemas))


@pytest.mark.parametrize(
    ("there", "comes"),
    [("integer", "long"), ("long", "string"), ("string", "long"), ("double", "long"), ("timestamp", "timestamp_ntz"),
     ("decimal(10,2)", "decimal(12,2)"), ("decimal(10,2)", "decimal(10,3)"), ("float", "double"), ("date", "string")],
)  # fmt: skip
def test_error_of_a_changed_column_type_names_the_parquet_file_and_the_column(
    tmp_path: Path, there: str, comes: str
) -> None:
    found = types(tmp_path, columns(id="string"), columns(id="string", n=there))

    with pytest.raises(SinkRefused) as refused:
        found.casts(columns(id="string", n=comes))

    kind = columns(n=there)["n"].dataType.simpleString()
    assert "sink table: column n is " in str(refused.value)
    assert f", but {kind} in " in str(refused.value)
    assert "/out/batch-0000000001-0000-1f3c9a2b.parquet. All files of a folder need the same type" in str(refused.value)
    assert f"cast the column to {kind} in a step, or give another path" in str(refused.value)


@pytest.mark.parametrize(
    ("there", "comes", "widened"),
    [("long", "integer", "bigint"), ("long", "byte", "bigint"), ("integer", "short", "int"),
     ("double", "float", "double"), ("decimal(12,2)", "decimal(10,2)", "decimal(12,2)"),
     ("decimal(12,3)", "decimal(10,2)", "decimal(12,3)"),
     ("string", "string", None), ("timestamp", "timestamp", None)],
)  # fmt: skip
def test_narrower_column_type_is_widened_to_the_type_in_the_output_folder(
    tmp_path: Path, there: str, comes: str, widened: str | None
) -> None:
    found = types(tmp_path, columns(n=there)).casts(columns(N=comes))

    assert found == ({"N": widened} if widened else {})


def test_new_and_missing_columns_are_accepted_in_a_parquet_folder(tmp_path: Path) -> None:
    assert types(tmp_path, columns(a="long"), columns(b="long")).casts(columns(b="long", c="string")) == {}


def nested(kind: str) -> StructType:
    inner = {"type": "struct", "fields": [{"name": "x", "type": kind, "nullable": False, "metadata": {}}]}
    field = {"type": "array", "elementType": inner, "containsNull": True}
    return StructType.fromJson(
        {"type": "struct", "fields": [{"name": "n", "type": field, "nullable": True, "metadata": {}}]}
    )


def test_changed_element_type_of_a_parquet_column_is_rejected(tmp_path: Path) -> None:
    found = types(tmp_path, nested("integer"))

    assert found.casts(nested("integer")) == {}
    with pytest.raises(SinkRefused, match=r"column n is array<struct<x:bigint>>"):
        found.casts(nested("long"))


def test_column_types_are_read_from_a_parquet_file_without_spark_metadata(tmp_path: Path) -> None:
    found = types(tmp_path, pa.table({"n": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us", "UTC"))}))

    assert found.casts(columns(n="short", at="timestamp")) == {"n": "int"}
    with pytest.raises(SinkRefused, match="column at is timestamp_ntz"):
        found.casts(columns(at="timestamp_ntz"))


def test_sink_rejects_partition_columns_that_differ_from_those_of_its_folder(tmp_path: Path) -> None:
    folder = files(tmp_path, columns(n="long"), partition="country=FR")

    assert FolderTypes("table", ("country",), folder)
    with pytest.raises(SinkRefused, match="is partitioned by country, but partition_by gives no column"):
        FolderTypes("table", (), folder)
    with pytest.raises(SinkRefused, match="is partitioned by country, but partition_by gives day, country"):
        FolderTypes("table", ("day", "country"), folder)


def test_error_of_a_damaged_parquet_file_names_the_file(tmp_path: Path) -> None:
    folder = files(tmp_path)
    (folder.path / "batch-0000000000-0000-1f3c9a2b.parquet").write_bytes(b"PAR1")

    with pytest.raises(SinkRefused, match=r"batch-0000000000-0000-1f3c9a2b\.parquet cannot be read"):
        FolderTypes("table", (), folder)
