"""Ownership of a pipeline's output folders. A run changes only the files of its own pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.pipeline_owner import claim_checkpoint
from kohort.spark.pipeline.sinks.folder_claim import claim_sink, claim_summary, owned_files, owners_around
from kohort.spark.pipeline.sinks.parquet_folder import Compacted, ParquetFolder, SinkRefused

PIPELINE = """\
name: NAME
source: {brokers: "localhost:9092", topics: [orders]MORE}
sinks: [{parquet: {path: OUT}}]
summaries: [{name: totals, path: totals-NAME, sql: select count(*) as n from parquet}]
trigger: {every: 1 second}
checkpoint: CHECKPOINT
"""
MEMBER = ", group: g, group_mode: member"


def pipeline(tmp_path: Path, name: str, out: str = "out", *, checkpoint: str = "state", more: str = "") -> Pipeline:
    text = PIPELINE.replace("NAME", name).replace("OUT", out).replace("CHECKPOINT", checkpoint).replace("MORE", more)
    return parse_pipeline(text, tmp_path / f"{name}.yaml", {})


def claimed(of: Pipeline) -> ParquetFolder:
    claim_checkpoint(of)
    return claim_sink(of, of.sinks[0])


def write(folder: ParquetFolder, batch: int, *numbers: int) -> None:
    folder.begin(batch)
    folder.staging.mkdir(parents=True)
    pq.write_table(pa.table({"n": list(numbers)}), folder.staging / "part-0.parquet")
    folder.publish(batch)


def rows(path: Path) -> list[int]:
    return sorted(n for file in path.rglob("*.parquet") for n in pq.read_table(file)["n"].to_pylist())


def test_second_pipeline_in_an_output_folder_is_rejected_and_the_error_names_both_pipelines(tmp_path: Path) -> None:
    first, second = pipeline(tmp_path, "c"), pipeline(tmp_path, "d")
    folder = claimed(first)

    with pytest.raises(SinkRefused) as refused:
        claimed(second)

    message = str(refused.value)
    assert f"belongs to pipeline c (checkpoint {tmp_path}/state/c), not to pipeline d (checkpoint " in message
    assert [owner.pipeline for _, owner in owners_around(tmp_path / "out")] == ["c"]
    write(folder, 0, 1, 2)
    assert rows(tmp_path / "out") == [1, 2]


@pytest.mark.parametrize(("first", "second"), [("outer/inner", "outer"), ("outer", "outer/inner")])
def test_output_folder_that_overlaps_a_folder_of_another_pipeline_is_rejected(
    tmp_path: Path, first: str, second: str
) -> None:
    write(claimed(pipeline(tmp_path, "d", first)), 0, *range(20))

    with pytest.raises(
        SinkRefused, match=rf"overlaps .*, which belongs to pipeline d \(checkpoint {tmp_path}/state/d\)"
    ):
        claimed(pipeline(tmp_path, "c", second))

    assert rows(tmp_path / "outer") == list(range(20))


def test_symlink_to_the_output_folder_of_another_pipeline_is_rejected(tmp_path: Path) -> None:
    claimed(pipeline(tmp_path, "d", "outer/inner"))
    (tmp_path / "link").symlink_to(tmp_path / "outer" / "inner")

    with pytest.raises(SinkRefused, match="belongs to pipeline d"):
        claimed(pipeline(tmp_path, "c", "link"))


def test_members_of_one_group_share_an_output_folder_and_lose_no_rows(tmp_path: Path) -> None:
    of_left = pipeline(tmp_path, "orders", checkpoint="left", more=MEMBER)
    left = claimed(of_left)
    right = claimed(pipeline(tmp_path, "orders", checkpoint="right", more=MEMBER))
    for batch in range(2):
        write(left, batch, batch)
        write(right, batch, 100 + batch)

    write(claimed(of_left), 1, 1)
    assert left.compact(1) == Compacted(files=2, into=1)

    assert rows(tmp_path / "out") == [0, 1, 100, 101]
    owned_files(of_left, of_left.sinks[0]).remove()
    assert rows(tmp_path / "out") == [100, 101], "the rows of the other member stay"
    assert [owner.id for _, owner in owners_around(tmp_path / "out")] == [right.owner.id]


def test_reset_of_a_member_keeps_rows_of_another_owner_with_the_same_checkpoint_path(tmp_path: Path) -> None:
    of = pipeline(tmp_path, "orders", more=MEMBER)
    write(claimed(of), 0, 1)
    (of.state / "owner.json").unlink()
    write(claimed(of), 0, 2)
    assert rows(tmp_path / "out") == [1, 2]

    owned_files(of, of.sinks[0]).remove()

    assert rows(tmp_path / "out") == [1]


@pytest.mark.parametrize("other", [", group: other, group_mode: member", ", group: g"])
def test_output_folder_of_a_group_rejects_another_group_and_a_standalone_pipeline(tmp_path: Path, other: str) -> None:
    claimed(pipeline(tmp_path, "orders", checkpoint="left", more=MEMBER))

    with pytest.raises(SinkRefused, match="belongs to pipeline orders"):
        claimed(pipeline(tmp_path, "orders", checkpoint="right", more=other))


def test_output_folder_with_rows_of_an_earlier_checkpoint_is_rejected_until_the_rows_are_removed(
    tmp_path: Path,
) -> None:
    of = pipeline(tmp_path, "c")
    write(claimed(of), 0, 1, 2)
    (of.state / "owner.json").unlink()

    with pytest.raises(SinkRefused, match=r"rows that pipeline c wrote with a former checkpoint.*reset --outputs"):
        claimed(of)
    owned_files(of, of.sinks[0]).remove()
    write(claimed(of), 0, 3)

    assert rows(tmp_path / "out") == [3]


def test_output_folder_without_rows_gets_a_new_owner_after_a_checkpoint_reset(tmp_path: Path) -> None:
    of = pipeline(tmp_path, "c")
    first = claimed(of).owner
    (of.state / "owner.json").unlink()

    assert claimed(of).owner.id != first.id


def test_moved_checkpoint_still_owns_its_output_folder(tmp_path: Path) -> None:
    before = pipeline(tmp_path, "c")
    write(claimed(before), 0, 1)
    before.state.rename(tmp_path / "moved")
    after = pipeline(tmp_path, "c", checkpoint="new")
    after.state.parent.mkdir()
    (tmp_path / "moved").rename(after.state)

    folder = claimed(after)

    assert [file.first for file in folder.data_files()] == [0]
    (owner,) = [owner for _, owner in owners_around(tmp_path / "out")]
    assert str(owner) == f"pipeline c (checkpoint {tmp_path}/new/c)"


def test_data_file_of_another_checkpoint_is_rejected_even_if_the_owner_file_is_missing(tmp_path: Path) -> None:
    write(claimed(pipeline(tmp_path, "d")), 0, 1)
    for mark in (tmp_path / "out").glob("_kohort.*"):
        mark.unlink()

    with pytest.raises(SinkRefused, match="has another owner"):
        claimed(pipeline(tmp_path, "c"))


def test_summary_in_the_output_folder_of_a_sink_is_rejected(tmp_path: Path) -> None:
    write(claimed(pipeline(tmp_path, "d", "totals-c")), 0, 1, 2)
    of = pipeline(tmp_path, "c")
    claim_checkpoint(of)

    with pytest.raises(SinkRefused, match=r"summary totals: .* belongs to pipeline d"):
        claim_summary(of, of.summaries[0])
    assert rows(tmp_path / "totals-c") == [1, 2]


def test_summary_of_an_earlier_checkpoint_is_replaced(tmp_path: Path) -> None:
    of = pipeline(tmp_path, "c")
    claim_checkpoint(of)
    write(claim_summary(of, of.summaries[0]), 0, 1)
    (of.state / "owner.json").unlink()
    claim_checkpoint(of)

    write(claim_summary(of, of.summaries[0]), 0, 2)

    assert rows(tmp_path / "totals-c") == [2]


def test_summary_in_a_folder_with_another_parquet_file_is_rejected(tmp_path: Path) -> None:
    of = pipeline(tmp_path, "c")
    claim_checkpoint(of)
    folder = of.summaries[0].path
    folder.mkdir()
    pq.write_table(pa.table({"n": [1]}), folder / "part-00000.snappy.parquet")

    with pytest.raises(SinkRefused, match=r"summary totals: its folder has another Parquet file, .*part-00000"):
        claim_summary(of, of.summaries[0])
    assert rows(folder) == [1]
