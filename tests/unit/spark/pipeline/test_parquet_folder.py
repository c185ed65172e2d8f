"""Parquet sink folder. It has each row exactly once, even after a run or a compaction crashed."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
import pyarrow as pa
import pyarrow.parquet as pq

from kohort.spark.pipeline.ledger import Entry, LedgerStore
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.pipeline_owner import PipelineOwner
from kohort.spark.pipeline.running.batches import BatchRunner
from kohort.spark.pipeline.sinks.parquet_folder import Compacted, ParquetFolder, SinkRefused, groups_to_merge, rows_in

OWNER = PipelineOwner("1f3c9a2b", "orders", "state")


def folder(tmp_path: Path) -> ParquetFolder:
    return ParquetFolder(tmp_path / "out", tmp_path / "state" / "sinks" / "table", OWNER)


def stage(out: ParquetFolder, batch: int, countries: tuple[str, ...] = ("FR", "US"), **columns: Any) -> None:
    for number, country in enumerate(countries):
        target = out.staging / f"country={country}"
        target.mkdir(parents=True)
        table = pa.table({"n": [batch * 10 + number], **columns})
        pq.write_table(table, target / f"part-0000{number}-1f3c.c000.snappy.parquet")
        (target / f".part-0000{number}-1f3c.c000.snappy.parquet.crc").write_bytes(b"crc")
    (out.staging / "_SUCCESS").touch()


def written(out: ParquetFolder, batches: int, **columns: Any) -> ParquetFolder:
    for batch in range(batches):
        out.begin(batch)
        stage(out, batch, **columns)
        out.publish(batch)
    return out


def rows(tmp_path: Path) -> Counter[int]:
    import pyarrow.dataset as ds

    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert set(found.column_names) - {"at"} == {"n", "country"}, "only columns of the pipeline"
    return Counter(found["n"].to_pylist())


def test_output_folder_has_no_files_except_data_files_in_partition_folders(tmp_path: Path) -> None:
    written(folder(tmp_path), 2)

    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert found == [
        "country=FR/batch-0000000000-0000-1f3c9a2b.parquet",
        "country=FR/batch-0000000001-0000-1f3c9a2b.parquet",
        "country=US/batch-0000000000-0001-1f3c9a2b.parquet",
        "country=US/batch-0000000001-0001-1f3c9a2b.parquet",
    ]
    assert rows(tmp_path) == Counter([0, 1, 10, 11])


def test_rows_of_written_parquet_files_are_counted(tmp_path: Path) -> None:
    out = folder(tmp_path)
    out.begin(7)
    stage(out, 7)

    files = out.publish(7)

    assert (rows_in(files), rows_in(files, "n")) == (2, 70 + 71)


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_crash_during_a_rename_and_a_repeated_micro_batch_keep_each_row_once(tmp_path: Path, renamed: int) -> None:
    killed = written(folder(tmp_path), 2)
    killed.begin(2)
    stage(killed, 2)
    steps = killed.publishing(2)
    for _ in range(renamed):
        next(steps)

    again = folder(tmp_path)
    again.begin(2)
    stage(again, 2, ("US", "DE"))  # the joined table may differ when Spark repeats the micro-batch
    again.publish(2)

    assert rows(tmp_path) == Counter([0, 1, 10, 11, 20, 21])


def test_repeated_micro_batch_removes_its_earlier_files_in_a_new_run(tmp_path: Path) -> None:
    written(folder(tmp_path), 2)

    folder(tmp_path).begin(1)

    assert rows(tmp_path) == Counter([0, 1])


def test_repeated_micro_batch_removes_its_earlier_files_in_the_same_run(tmp_path: Path) -> None:
    out = written(folder(tmp_path), 2)

    out.begin(1)

    assert rows(tmp_path) == Counter([0, 1])


def test_small_files_of_complete_micro_batches_are_merged(tmp_path: Path) -> None:
    out = written(folder(tmp_path), 5)

    assert out.compact(3) == Compacted(files=8, into=2)

    assert rows(tmp_path) == Counter(n * 10 + k for n in range(5) for k in range(2))
    assert [(f.first, f.last) for f in out.data_files()] == [(0, 3), (0, 3), (4, 4), (4, 4)]
    assert out.compact(4) == Compacted(files=4, into=2), "merged files grow"
    assert out.compact(4) == Compacted()
    assert rows(tmp_path) == Counter(n * 10 + k for n in range(5) for k in range(2))


@pytest.mark.parametrize("finished_by", ["the next run", "the next compaction"])
def test_compaction_killed_at_any_time_keeps_each_row_once(tmp_path: Path, finished_by: str) -> None:
    for steps in count(1):
        place = tmp_path / str(steps)
        killed = written(folder(place), 3)
        merging = killed.merging(groups_to_merge(killed.data_files(), 1_000_000)[0])
        done = [step for step, _ in zip(merging, range(steps), strict=False)]
        again = folder(place)
        if finished_by == "the next run":
            again.recover()
        else:
            again.compact(2)

        assert rows(place) == Counter(n * 10 + k for n in range(3) for k in range(2)), done
        assert not list((place / "state").rglob("*.parquet")), "no staged file remains"
        if len(done) < steps:
            break
    assert done == ["merged", "noted", "in place", *["an input is removed"] * 3]


def test_merged_files_keep_types_metadata_and_compression(tmp_path: Path) -> None:
    out = folder(tmp_path)
    at = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    table = pa.table(
        {
            "at": pa.array([at, None], pa.timestamp("us", "UTC")),
            "local": pa.array([at.replace(tzinfo=None)] * 2, pa.timestamp("us")),
            "price": pa.array([Decimal("1.25")] * 2, pa.decimal128(10, 2)),
            "tags": pa.array([["a"], None], pa.list_(pa.string())),
            "place": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
        }
    ).replace_schema_metadata({"org.apache.spark.version": "4.2.0", "org.apache.spark.sql.parquet.row.metadata": "{}"})
    for batch in range(2):
        out.begin(batch)
        out.staging.mkdir(parents=True)
        pq.write_table(table, out.staging / "part-0.parquet", compression="zstd")
        out.publish(batch)
    before = pq.read_schema(out.data_files()[0].path)

    out.compact(1)

    (merged,) = out.data_files()
    assert pq.read_table(merged.path).equals(pa.concat_tables([table, table]))
    schema = pq.read_schema(merged.path)
    assert schema.equals(before)
    assert pq.read_metadata(merged.path).metadata[b"org.apache.spark.version"] == b"4.2.0"
    assert pq.read_metadata(merged.path).row_group(0).column(0).compression == "ZSTD"


def test_files_of_different_schemas_are_not_merged(tmp_path: Path) -> None:
    out = written(folder(tmp_path), 2)
    for batch in (2, 3):
        out.begin(batch)
        stage(out, batch, at=[1])
        out.publish(batch)

    out.compact(3)

    assert [(f.first, f.last) for f in out.data_files()] == [(0, 1), (0, 1), (2, 3), (2, 3)]


def test_second_compaction_at_the_same_time_does_nothing(tmp_path: Path) -> None:
    out = written(folder(tmp_path), 2)

    with out._exclusive_lock() as mine:
        assert mine
        assert folder(tmp_path).compact(1) is None
        folder(tmp_path).recover()


def test_checkpoint_older_than_merged_files_is_rejected(tmp_path: Path) -> None:
    out = written(folder(tmp_path), 3)
    out.compact(2)

    with pytest.raises(SinkRefused, match="up to micro-batch 2, but the checkpoint continues at micro-batch 1"):
        folder(tmp_path).begin(1)
    folder(tmp_path).begin(3)


def test_error_of_a_damaged_compaction_note_file_names_the_file(tmp_path: Path) -> None:
    out = written(folder(tmp_path), 1)
    out.compact(0)
    (tmp_path / "state" / "sinks" / "table" / "compaction.json").write_text("[1")

    with pytest.raises(SinkRefused, match=r"cannot continue: the note file .*compaction\.json is damaged"):
        folder(tmp_path).recover()


def test_large_files_are_not_merged_and_merged_files_stay_below_the_maximum_size(tmp_path: Path) -> None:
    out = folder(tmp_path)
    for batch, size in enumerate([10, 30, 60, 45, 45, 5]):
        out.path.mkdir(exist_ok=True)
        (out.path / f"batch-{batch:010d}-0000-{OWNER.id}.parquet").write_bytes(b"x" * size)

    groups = groups_to_merge(out.data_files(), 100)

    assert [[f.first for f in group] for group in groups] == [[0, 1, 3], [4, 5]]


def test_micro_batch_without_rows_writes_no_file(tmp_path: Path) -> None:
    text = "name: n\nsource: {brokers: 'a:1', topics: [t]}\nsinks: [{parquet: {path: out}}]\n"
    pipeline = parse_pipeline(text, tmp_path / "n.yaml", {})
    runner = BatchRunner(pipeline, LedgerStore(tmp_path / "ledger"))
    no_frame: Any = None

    assert runner._write(pipeline.sinks[0], no_frame, Entry(0)) == 0
    assert not (tmp_path / "out").exists()
