"""Pipelines on a real Spark. Every row is in a sink or a dead letter, and the ledger of the run counts it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kohort.aio.admin import Admin
from kohort.errors import KohortError
from kohort.spark.pipeline.definition import Step
from kohort.spark.pipeline.file_tests import run_test
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.batches import ExpectationFailed
from kohort.spark.pipeline.running.run import RunReport, run_pipeline
from kohort.spark.pipeline.sinks.parquet_folder import SinkRefused

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

ORDERS = """\
name: orders
brokers: "${BROKERS}"
sources:
  orders:
    topics: ["${ORDERS}"]
    group: "${ORDERS}"
    limit: {rows: 6}
    decode: {format: json, schema: "id long, country string, amount double", tombstones: bad}
  rates:
    read: table
    topics: ["${RATES}"]
    group: "${ORDERS}"
    decode: {format: json, schema: "country string, rate double"}
steps:
  - sql: select o.*, o.amount * r.rate as euros from orders o left join rates r on o.country = r.country
expect:
  - {not_null: euros, reason: no rate}
  - {check: amount >= 0, reason: negative, else: drop}
sinks:
  - parquet: {path: out}
    name: table
  - topic: {topic: "${ORDERS}-out", key: id}
summaries:
  - {name: totals, of: table, counts: n, path: totals, sql: "select country, count(*) as n from table group by country"}
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
"""


def as_json(**row: Any) -> tuple[bytes | None, bytes | None]:
    return str(row.get("id", row.get("country"))).encode(), json.dumps(row).encode()


def prepared(cluster: Any) -> tuple[str, str]:
    orders, rates = cluster.new_topic(), cluster.new_topic()
    cluster.produce(rates, [as_json(country="FR", rate=1.0), as_json(country="US", rate=0.9)])
    good = [as_json(id=n, country="FR" if n % 2 else "US", amount=float(n)) for n in range(8)]
    bad = [(b"x", b"not json"), as_json(id=8, country="XX", amount=1.0), as_json(id=9, country="FR", amount=-1.0)]
    cluster.produce(orders, good + bad + [(b"tombstone", None)])
    return orders, rates


def run(spark: Any, cluster: Any, folder: Path, orders: str, rates: str, text: str = ORDERS) -> RunReport:
    environ = {"BROKERS": cluster.bootstrap, "ORDERS": orders, "RATES": rates}
    return run_pipeline(parse_pipeline(text, folder / "orders.yaml", environ), spark, once=True)


def read_topic(spark: Any, cluster: Any, topic: str) -> list[Any]:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "includeHeaders": "true"}
    rows: list[Any] = spark.read.format("kohort").options(**options).load().collect()
    return rows


@pytest.mark.campaign  # test_demo_job.py covers this too
def test_every_row_is_in_the_sinks_or_a_dead_letter_and_a_second_run_reads_only_new_rows(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders, rates = prepared(cluster)

    report = run(spark, cluster, tmp_path, orders, rates)

    assert report.balanced, report.as_json()
    ledger = report.ledger
    assert (ledger.rows_in, ledger.sinks, ledger.dead_letters) == (12, {"table": 8, "topic": 8}, 3)
    assert (ledger.undecoded, ledger.quarantined, ledger.dropped) == (2, {"no rate": 1}, {"negative": 1})
    assert report.lag == {"orders": 0, "rates": 0}
    assert (report.tables["rates"].rows, report.summaries) == (2, {"totals": 2})
    table = spark.read.parquet(str(tmp_path / "out")).collect()
    assert table[0].asDict().keys() == {"id", "country", "amount", "euros"}, "only columns of the pipeline"
    assert sorted((r["id"], round(r["euros"], 3)) for r in table) == [
        (n, round(n * (1.0 if n % 2 else 0.9), 3)) for n in range(8)
    ]

    letters = {bytes(row["key"]): row for row in read_topic(spark, cluster, f"{orders}-dead")}
    headers = {k: {h["key"]: bytes(h["value"]).decode() for h in row["headers"]} for k, row in letters.items()}
    assert {k: (h["kohort-error.stage"], h["kohort-error.reason"]) for k, h in headers.items()} == {
        b"x": ("decode", "not a JSON object"),
        b"tombstone": ("decode", "the record has no value"),
        b"8": ("expect", "no rate"),
    }
    assert bytes(letters[b"x"]["value"]) == b"not json", "the dead letter has the original bytes"
    assert headers[b"8"]["kohort-error.topic"] == orders

    cluster.produce(orders, [as_json(id=10, country="FR", amount=1.0)])
    again = run(spark, cluster, tmp_path, orders, rates)
    assert (again.ledger.rows_in, again.ledger.sinks, again.balanced) == (1, {"table": 1, "topic": 1}, True)
    assert spark.read.parquet(str(tmp_path / "totals")).agg({"n": "sum"}).collect()[0][0] == 9


@pytest.mark.campaign
def test_run_is_unbalanced_if_a_step_without_the_filters_setting_loses_rows(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders, rates = prepared(cluster)

    report = run(spark, cluster, tmp_path, orders, rates, ORDERS.replace("left join", "join"))

    assert not report.balanced
    assert "the steps lost 1 of" in " ".join(report.ledger.problems)


@pytest.mark.campaign
def test_failed_rule_with_else_fail_names_the_rows_and_no_offsets_are_committed(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders, rates = prepared(cluster)

    text = ORDERS.replace("else: drop", "else: fail").replace("limit: {rows: 6}", "")

    with pytest.raises(ExpectationFailed, match=rf"line 18: 1 rows fail .*negative.*{orders}-\d offset"):
        run(spark, cluster, tmp_path, orders, rates, text)

    assert cluster.lag(orders, orders) == 12


@pytest.mark.campaign
def test_checkpoint_of_a_pipeline_with_other_topics_is_rejected(spark: Any, cluster: Any, tmp_path: Path) -> None:
    orders, rates = cluster.new_topic(), cluster.new_topic()
    run(spark, cluster, tmp_path, orders, rates)

    with pytest.raises(KohortError, match="is the checkpoint for topics"):
        run(spark, cluster, tmp_path, rates, orders)


OWNED = """\
name: NAME
brokers: "${BROKERS}"
source: {topics: ["${ORDERS}"], group: GROUP}
decode: {format: json, schema: "id long"}
sinks: [{parquet: {path: out}}]
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
"""


def test_second_pipeline_with_the_output_folder_or_group_of_the_first_is_rejected(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders = cluster.new_topic()
    cluster.produce(orders, [as_json(id=n) for n in range(10)])

    def run_as(name: str, group: str) -> RunReport:
        return run(spark, cluster, tmp_path, orders, "", OWNED.replace("NAME", name).replace("GROUP", group))

    assert run_as("first", f"{orders}-1").ledger.sinks == {"parquet": 10}
    with pytest.raises(SinkRefused, match=r"belongs to pipeline first .* not to pipeline second"):
        run_as("second", f"{orders}-2")
    with pytest.raises(KohortError, match=rf"group {orders}-1 belongs to pipeline first .*not to pipeline third"):
        run_as("third", f"{orders}-1")

    assert run_as("first", f"{orders}-1").ledger.rows_in == 0
    assert spark.read.parquet(str(tmp_path / "out")).count() == 10


@pytest.mark.campaign
def test_changed_column_type_is_rejected_before_the_run_and_a_narrower_type_is_widened(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders = cluster.new_topic()

    def run_with(kind: str) -> RunReport:
        cluster.produce(orders, [as_json(id=1), (b"x", b"not json")])
        text = OWNED.replace("NAME", "typed").replace("GROUP", orders).replace("id long", f"id {kind}")
        return run(spark, cluster, tmp_path, orders, "", text)

    run_with("long")
    with pytest.raises(SinkRefused, match=r"column id is string, but bigint in .*parquet"):
        run_with("string")
    assert len(read_topic(spark, cluster, f"{orders}-dead")) == 1, "the run is rejected before it writes a row"
    report = run_with("int")

    assert (report.balanced, report.ledger.sinks) == (True, {"parquet": 2})
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.dtypes == [("id", "bigint")]
    assert found.agg({"id": "sum"}).collect()[0][0] == 3


def test_topic_recreated_between_two_runs_ends_the_second_run(spark: Any, cluster: Any, tmp_path: Path) -> None:
    orders = cluster.new_topic(partitions=1)
    text = OWNED.replace("NAME", "refilled").replace("GROUP", orders)
    cluster.produce(orders, [as_json(id=n) for n in range(5)])
    assert run(spark, cluster, tmp_path, orders, "", text).ledger.rows_in == 5
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topics([orders])
        admin.create_topics({orders: 1})
    cluster.produce(orders, [as_json(id=n) for n in range(8)])

    with pytest.raises(KohortError, match=f"topics recreated since the last micro-batch: {orders}"):
        run(spark, cluster, tmp_path, orders, "", text)
    patient = text.replace("source: {", "source: {fail_on_data_loss: false, ")
    assert run(spark, cluster, tmp_path, orders, "", patient).ledger.rows_in == 8


AGAIN = """\
name: again
brokers: "${BROKERS}"
source: {topics: ["${ORDERS}"], group: "${ORDERS}"}
decode: {format: json, schema: "id long"}
steps:
  - sql: select *, _source.redelivered as again from input
sinks: [{parquet: {path: out}}]
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
tests:
  - name: records of a test are new
    given: [{value: {id: 1}}]
    expect: {rows: [{id: 1, again: false}]}
"""
COUNTED = """\
name: counted
brokers: "${BROKERS}"
source: {topics: ["${ORDERS}"], group: "${ORDERS}"}
steps:
  - window: {time: timestamp, size: 1 minute, agg: {n: count(*)}}
mode: update
sinks: [{topic: {topic: "${ORDERS}-out"}}]
checkpoint: state
"""


@pytest.mark.campaign
def test_rows_of_a_repeated_micro_batch_are_counted_as_redelivered(spark: Any, cluster: Any, tmp_path: Path) -> None:
    orders = cluster.new_topic()
    cluster.produce(orders, [as_json(id=n) for n in range(9)] + [(b"x", b"not json")])
    pipeline = parse_pipeline(AGAIN, tmp_path / "again.yaml", {"BROKERS": cluster.bootstrap, "ORDERS": orders})
    assert run_test(pipeline, pipeline.tests[0], spark) == []

    def broken(_rows: Any) -> Any:
        raise KohortError("the step is broken")

    with pytest.raises(KohortError, match="the step is broken"):
        run_pipeline(replace(pipeline, steps=(Step("function", "broken", function=broken),)), spark, once=True)
    cluster.produce(orders, [as_json(id=n) for n in range(9, 12)])
    report = run_pipeline(pipeline, spark, once=True)

    assert report.balanced, report.as_json()
    assert (report.ledger.rows_in, report.ledger.redelivered) == (13, 10)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row["id"], row["again"]) for row in rows) == [(n, n < 9) for n in range(12)]
    kept = json.loads((tmp_path / "state" / "again" / "last-run.json").read_text())
    assert kept["ledger"]["redelivered"] == 10


@pytest.mark.campaign
def test_redelivered_rows_of_a_pipeline_with_windows_are_counted(spark: Any, cluster: Any, tmp_path: Path) -> None:
    orders = cluster.new_topic()
    cluster.produce(orders, [as_json(id=n) for n in range(10)])
    pipeline = parse_pipeline(COUNTED, tmp_path / "counted.yaml", {"BROKERS": cluster.bootstrap, "ORDERS": orders})

    in_the_way = pipeline.state / "ledger"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    with pytest.raises(FileExistsError):
        run_pipeline(pipeline, spark, once=True)
    in_the_way.unlink()
    cluster.produce(orders, [as_json(id=10)])
    report = run_pipeline(pipeline, spark, once=True)

    assert report.balanced, report.as_json()
    assert (report.ledger.rows_in, report.ledger.redelivered) == (11, 10)


CSV = """\
name: lines
brokers: "${BROKERS}"
source: {topics: ["${ORDERS}"], group: "${ORDERS}"}
decode: {format: csv, schema: "id long, price decimal(8,2), at timestamp, name string", separator: ";"}
steps:
  - sql: select *, price * 2 as twice from input
sinks: [{parquet: {path: out, compact_every: 2}}]
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
tests:
  - name: a line is a row
    given: [{raw: "1;2.50;2026-01-01T00:00:00Z;ann"}, {raw: "one;2;;"}]
    expect: {rows: [{id: 1, twice: 5.0, at: 2026-01-01T00:00:00Z, name: ann}], dlq: [{stage: decode}]}
"""
AVRO = """\
name: totals
brokers: "${BROKERS}"
source: {topics: ["${ORDERS}"], group: "${ORDERS}"}
decode:
  format: avro
  schema: id long
  avro_schema: '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}'
steps:
  - sql: select *, timestamp'2026-01-01 00:00:00' as at from input
  - window: {time: at, size: 1 minute, agg: {n: count(*), last: max(id)}}
mode: update
sinks: [{topic: {topic: "${ORDERS}-out"}}]
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
"""


@pytest.mark.campaign
def test_pipeline_with_csv_values_sends_bad_values_as_dead_letters_and_merges_output_files(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders = cluster.new_topic(partitions=1)
    environ = {"BROKERS": cluster.bootstrap, "ORDERS": orders}
    pipeline = parse_pipeline(CSV, tmp_path / "lines.yaml", environ)
    assert run_test(pipeline, pipeline.tests[0], spark) == []

    for n in range(3):
        cluster.produce(orders, [(None, b"%d;1.25;2026-01-01T00:00:00Z;ann" % n), (None, b"no")])
        report = run_pipeline(pipeline, spark, once=True)
        assert report.balanced, report.as_json()

    assert (report.ledger.rows_in, report.ledger.undecoded) == (2, 1)
    files = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert [name[:8] for name in files] == ["batch-00", "compact-"], "micro-batches 0 and 1 are one file"
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((r["id"], float(r["twice"]), r["name"]) for r in rows) == [(n, 2.5, "ann") for n in range(3)]
    letters = read_topic(spark, cluster, f"{orders}-dead")
    assert [bytes(letter["value"]) for letter in letters] == [b"no"] * 3


@pytest.mark.campaign
def test_pipeline_with_a_window_decodes_avro_values(spark: Any, cluster: Any, tmp_path: Path) -> None:
    orders = cluster.new_topic(partitions=1)
    cluster.produce(orders, [(None, b"\x02"), (None, b"\x04"), (None, b"\x04\x00")])
    environ = {"BROKERS": cluster.bootstrap, "ORDERS": orders}

    report = run_pipeline(parse_pipeline(AVRO, tmp_path / "totals.yaml", environ), spark, once=True)

    assert report.balanced, report.as_json()
    assert (report.ledger.rows_in, report.ledger.undecoded, report.ledger.dead_letters) == (3, 1, 1)
    (row,) = read_topic(spark, cluster, f"{orders}-out")
    assert (json.loads(bytes(row["value"]))["n"], json.loads(bytes(row["value"]))["last"]) == (2, 2)


@pytest.mark.campaign
def test_misspelt_option_is_rejected_when_the_dataframe_is_loaded(spark: Any) -> None:
    with pytest.raises(Exception, match="unknown option 'subscrib'; did you mean subscribe"):
        spark.readStream.format("kohort").option("subscrib", "orders").load()
