"""Files of a latest sink: merged by tasks, replaced by renames, and complete after an interruption."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kohort.spark.pipeline.parse import parse_pipeline  # noqa: E402 - behind importorskip
from kohort.spark.pipeline.pipeline_owner import claim_checkpoint  # noqa: E402 - behind importorskip
from kohort.spark.pipeline.sinks.folder_claim import owned_files  # noqa: E402 - behind importorskip
from kohort.spark.pipeline.sinks.latest import Buckets, LatestSink, MergeTask  # noqa: E402 - behind importorskip
from kohort.spark.pipeline.sinks.latest_rows import (  # noqa: E402 - behind importorskip
    DELETED,
    PLACE,
    UNCHANGED,
    place_type,
)
from kohort.spark.pipeline.sinks.parquet_folder import SinkRefused  # noqa: E402 - behind importorskip

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        (PLACE, place_type(pa.int64())),
        (DELETED, pa.bool_()),
        (UNCHANGED, pa.list_(pa.string())),
        ("_bucket", pa.int32()),
    ]
)
OWNER = "1f3c9a2b"


def event(key: int | None, order: int, name: str | None = None, *, deleted: bool = False) -> dict[str, Any]:
    place = {"topic": "t", "partition": 0, "offset": order, "batch": order // 10, "order": order}
    bucket = (key or 0) % 2
    return {"id": key, "name": name, PLACE: place, DELETED: deleted, UNCHANGED: None, "_bucket": bucket}


def buckets_in(folder: Path) -> Buckets:
    return Buckets(folder / "out", folder / "work", OWNER, 2, ("id",))


def staged(buckets: Buckets, *events: dict[str, Any]) -> list[dict[str, Any]]:
    task = pickle.loads(pickle.dumps(MergeTask(buckets, SCHEMA)))
    batches = pa.Table.from_pylist(list(events), SCHEMA).to_batches(max_chunksize=2)
    return [row for batch in task(iter(batches)) for row in batch.to_pylist()]


def publish(buckets: Buckets, results: list[dict[str, Any]]) -> None:
    for result in results:
        buckets.publish(result["bucket"], result["name"])


def names_in(folder: Path) -> dict[int, str]:
    import pyarrow.dataset as ds

    return {row["id"]: row["name"] for row in ds.dataset(folder / "out").to_table().to_pylist()}


def test_task_merges_each_bucket_into_its_file(tmp_path: Path) -> None:
    buckets = buckets_in(tmp_path)
    results = staged(buckets, event(1, 1, "a"), event(2, 2, "b"), event(3, 3, "c"), event(1, 4, "d"))
    assert [(r["bucket"], r["rows"], r["problem"]) for r in results] == [(1, 3, None), (0, 1, None)]
    publish(buckets, results)
    publish(buckets, staged(buckets, event(3, 5, deleted=True)))

    assert names_in(tmp_path) == {1: "d", 2: "b"}
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"latest-000{n}-of-0002-{OWNER}.parquet" for n in range(2)]
    assert staged(buckets) == []


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_repeated_micro_batch_completes_an_interrupted_replacement(tmp_path: Path, renames: int) -> None:
    buckets = buckets_in(tmp_path)
    publish(buckets, staged(buckets, event(1, 1, "a"), event(2, 2, "b"), event(4, 3, "c")))
    batch = [event(1, 11, deleted=True), event(2, 12, deleted=True), event(2, 13, "new"), event(4, 14, "d")]
    done = 0
    for result in staged(buckets, *batch):
        moves = ((".deleted", buckets.deleted(result["bucket"])), (".live", buckets.live(result["bucket"])))
        for part, target in moves:
            if done < renames:
                (buckets.staging / f"{result['name']}{part}").replace(target)
            done += 1

    publish(buckets, staged(buckets, *batch))
    assert names_in(tmp_path) == {2: "new", 4: "d"}
    publish(buckets, staged(buckets, event(1, 5, "late duplicate")))
    assert names_in(tmp_path) == {2: "new", 4: "d"}


def test_event_without_a_key_is_a_problem_of_its_bucket_and_leaves_the_file(tmp_path: Path) -> None:
    buckets = buckets_in(tmp_path)
    (result,) = staged(buckets, event(None, 7, "a"))

    assert (result["name"], result["rows"]) == (None, 1)
    assert result["problem"].startswith("t-0 offset 7: the key column id is NULL. Remove such rows in a step")
    assert not (tmp_path / "out").exists()


FILE = """\
name: items
source: {brokers: "a:1", topics: [items]}
decode: {format: json, schema: "id long, name string, size int"}
sinks:
  - latest: {path: out, key: id, buckets: 2}
"""


def test_open_sink_adds_missing_columns_to_its_files_and_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pipeline = parse_pipeline(FILE, tmp_path / "items.yaml", {})
    owner = claim_checkpoint(pipeline)
    (sink,) = pipeline.sinks
    sink.prepare(pipeline)
    buckets = Buckets(tmp_path / "out", tmp_path / "work", owner.id, 2, ("id",))
    publish(buckets, staged(buckets, event(1, 1, "a"), event(2, 2, "b")))
    old = pq.read_table(buckets.live(1))
    pq.write_table(old.append_column("size", pa.array([5], pa.int32())), buckets.live(1))

    sink.open(pipeline)

    assert pq.read_schema(buckets.live(0)).names == pq.read_schema(buckets.live(1)).names
    assert pq.read_table(buckets.live(0)).column("size").to_pylist() == [None]
    more = parse_pipeline(FILE.replace("buckets: 2", "buckets: 3"), tmp_path / "items.yaml", {})
    assert isinstance(more.sinks[0], LatestSink)
    with pytest.raises(SinkRefused, match=r"sink latest: \S+out has 2 buckets, not 3: keep the number"):
        more.sinks[0].open(more)
    owned_files(pipeline, sink).remove()
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("key: [id, size], order: name", r'written with key: \["id"\], not \["id", "size"\]: keep the setting'),
        ("key: id, order: size", "written with order: name, not size: keep the setting"),
        ("key: id", "written with order: name, not the offsets: keep the setting"),
    ],
)
def test_open_sink_refuses_another_key_and_another_order_than_its_files_have(
    tmp_path: Path, setting: str, problem: str
) -> None:
    pipeline = parse_pipeline(FILE.replace("key: id", setting), tmp_path / "items.yaml", {})
    (sink,) = pipeline.sinks
    buckets = Buckets(tmp_path / "out", tmp_path / "work", claim_checkpoint(pipeline).id, 2, ("id",), "name")
    publish(buckets, staged(buckets, event(1, 1, "a")))

    with pytest.raises(SinkRefused, match=problem):
        sink.open(pipeline)


def test_change_events_whose_steps_drop_their_op_are_refused(tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructType

    schema = StructType().add("id", LongType())
    for text, problem in (
        (FILE.replace("json", "debezium"), "the steps drop the column __op, which marks deletes: select it"),
        (FILE.replace("json", "debezium").replace("key: id", "key: id, delete: 'false'"), None),
        (FILE, None),
    ):
        pipeline = parse_pipeline(text, tmp_path / "items.yaml", {})
        claim_checkpoint(pipeline)
        writer = pipeline.sinks[0].open(pipeline)
        if problem:
            with pytest.raises(SinkRefused, match=problem):
                writer.check(schema)
        else:
            writer.check(schema)


def test_open_sink_sets_an_order_for_rows_without_order(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pipeline = parse_pipeline(FILE.replace("key: id", "key: id, order: name"), tmp_path / "items.yaml", {})
    (sink,) = pipeline.sinks
    owner = claim_checkpoint(pipeline).id
    without, buckets = (Buckets(tmp_path / "out", tmp_path / "work", owner, 2, ("id",), name) for name in ("", "name"))
    publish(without, staged(without, event(1, 1, "a"), event(2, 2, "b")))
    rows = pq.read_table(without.live(0))
    place = pa.StructArray.from_arrays(rows[PLACE].combine_chunks().flatten()[:4], fields=list(place_type(None)))
    old = rows.set_column(rows.column_names.index(PLACE), PLACE, place)
    pq.write_table(old, without.live(0))
    publish(buckets, staged(buckets, event(1, 3, "c")))

    sink.open(pipeline)

    assert pq.read_schema(buckets.live(0)).equals(pq.read_schema(buckets.live(1)))
    assert names_in(tmp_path) == {1: "c", 2: "b"}
    publish(buckets, staged(buckets, event(2, 1, "d")))
    assert names_in(tmp_path) == {1: "c", 2: "d"}
