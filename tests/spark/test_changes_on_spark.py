"""Change events on a real Spark: the latest rows, the dead letters and the ledger of a pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kohort.spark.pipeline.file_tests import run_test
from kohort.spark.pipeline.parse import load_pipeline, parse_pipeline
from kohort.spark.pipeline.running.run import RunReport, run_pipeline
from kohort.spark.pipeline.sinks.parquet_folder import SinkRefused
from support.change_events import SCHEMA, ChangedTable

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "change_events.yaml"
ITEMS = f"""\
name: items
brokers: "${{BROKERS}}"
source: {{topics: ["${{ITEMS}}"], group: "${{ITEMS}}", limit: {{rows: 150}}}}
decode: {{format: debezium, schema: "{SCHEMA}", key: {{format: debezium, schema: id long}}}}
steps:
  - sql: select *, key.id as of_key, _source.offset as changed from input
sinks:
  - latest: {{path: out, key: id, buckets: 3}}
dlq: {{topic: "${{ITEMS}}-dead"}}
checkpoint: state
"""


def run(spark: Any, cluster: Any, folder: Path, topic: str, text: str = ITEMS) -> RunReport:
    environ = {"BROKERS": cluster.bootstrap, "ITEMS": topic}
    return run_pipeline(parse_pipeline(text, folder / "items.yaml", environ), spark, once=True)


def send(cluster: Any, topic: str, table: ChangedTable, start: int = 0) -> None:
    for record in table.records[start:]:
        cluster.produce(topic, [(record.key, record.value)], partition=record.partition)


def stored(spark: Any, folder: Path) -> dict[int, dict[str, Any]]:
    """Return the rows of a latest sink, as another reader of Parquet sees them."""
    rows = [row.asDict() for row in spark.read.parquet(str(folder)).collect()]
    assert all(row["of_key"] == row["id"] and row["changed"] == row["_source"]["offset"] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)
    names = [part.split()[0] for part in SCHEMA.replace("(12,2)", "").split(", ")]
    return {row["id"]: {name: row[name] for name in names} for row in rows}


def test_latest_rows_equal_the_database_after_each_run(spark: Any, cluster: Any, tmp_path: Path) -> None:
    topic, table = cluster.new_topic(partitions=3), ChangedTable(seed=5)
    table.change(300)
    send(cluster, topic, table)
    cluster.produce(topic, [(b"5", b"no event"), (b"5", b'{"op": "d"}')], partition=0)

    report = run(spark, cluster, tmp_path, topic)

    tombstones = sum(record.value is None for record in table.records)
    events = len(table.records) - tombstones
    assert report.balanced, report.ledger.problems
    ledger = report.ledger
    assert (ledger.rows_in, ledger.skipped, ledger.undecoded) == (len(table.records) + 2, tombstones, 2)
    assert ledger.sinks == {"latest": events}
    assert ledger.batches > 1
    assert stored(spark, tmp_path / "out") == table.rows

    before = len(table.records)
    table.change(200)
    send(cluster, topic, table, before)
    assert run(spark, cluster, tmp_path, topic).balanced
    assert stored(spark, tmp_path / "out") == table.rows
    with pytest.raises(SinkRefused, match=r"sink latest: .*out has 3 buckets, not 4"):
        run(spark, cluster, tmp_path, topic, ITEMS.replace("buckets: 3", "buckets: 4"))


def test_new_column_reaches_all_files_and_a_wrong_key_stops_the_run(spark: Any, cluster: Any, tmp_path: Path) -> None:
    topic = cluster.new_topic(partitions=1)
    text = ITEMS.replace("debezium", "json").replace(SCHEMA, "name string").replace("select *", "select name, _source")
    text = text.replace("as of_key, _source.offset as changed", "as id")
    cluster.produce(topic, [(b'{"id": %d}' % n, b'{"name": "a"}') for n in range(20)])
    assert run(spark, cluster, tmp_path, topic, text).balanced
    cluster.produce(topic, [(b'{"id": 1}', b'{"name": "b", "size": 5}'), (b'{"id": 2}', None)])
    wider = text.replace("name string", "name string, size int").replace("select name", "select name, size")

    assert run(spark, cluster, tmp_path, topic, wider).balanced

    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len({tuple(spark.read.parquet(str(file)).columns) for file in files}) == 1
    rows = {row["id"]: (row["name"], row["size"]) for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert rows == {n: ("a", None) for n in range(20) if n != 2} | {1: ("b", 5)}
    cluster.produce(topic, [(None, b'{"name": "c"}')])
    with pytest.raises(SinkRefused, match=f"sink latest: {topic}-0 offset 22: the key column id is NULL"):
        run(spark, cluster, tmp_path, topic, wider)


def test_example_of_the_guide_runs_and_its_tests_decode_like_the_run(spark: Any, cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "items.yaml").write_text(
        EXAMPLE.read_text().replace("shop.public.items", topic := cluster.new_topic(1))
    )
    pipeline = load_pipeline(tmp_path / "items.yaml", {"KOHORT_BROKERS": cluster.bootstrap})
    (test,) = pipeline.tests
    assert run_test(pipeline, test, spark) == []
    given = test.given["input"]
    records = [(json.dumps(r["key"]).encode(), r["value"] and json.dumps(r["value"]).encode()) for r in given]
    cluster.produce(topic, records)

    report = run_pipeline(pipeline, spark, once=True)

    assert report.balanced, report.ledger.problems
    assert (report.ledger.rows_in, report.ledger.skipped, report.ledger.dead_letters) == (5, 1, 1)
    changes = spark.read.parquet(str(tmp_path / "out" / "changes")).collect()
    found = [row.asDict() for row in sorted(changes, key=lambda row: "cud".index(row["__op"]))]
    from kohort.spark.pipeline.file_tests import compare_rows

    assert compare_rows("rows", test.rows or (), found) == []
    assert spark.read.parquet(str(tmp_path / "out" / "items")).collect() == []
