"""Source, sink, group member, dead letters and pipeline with a secured cluster. Spark's output has no secret."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

pytest.importorskip("pyspark")

import kohort
from kohort.spark.group_tables import rebalance_table
from kohort.spark.pipeline.parse import load_pipeline
from kohort.spark.pipeline.running.run import run_pipeline
from support.security.planted import PLAIN, shown, shown_in_files
from support.spark.finite_query import run_to_end
from support.waiting import eventually

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secured.plain.sasl.jaas.config": f'{MODULE} required user_etl="{PLAIN}";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:etl",
}
ROWS = 20


@pytest.fixture(scope="module")
def secured():
    """Start a secured broker with good and bad records. Yield Spark options for it."""
    with kohort.Broker(OPTIONS) as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap_of("PLAINTEXT")) as producer:
            for number in range(ROWS):
                producer.send("orders", b'{"id": %d}' % number if number % 5 else b"no JSON")
        yield {
            "kafka.bootstrap.servers": broker.bootstrap_of("SECURED"),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{MODULE} required username="etl" password="{PLAIN}";',
        }


def plain_options(options):
    return {name.removeprefix("kafka."): value for name, value in options.items()}


def committed(admin, group):
    return sum(at.offset for at in admin.list_group_offsets(group).values() if at)


def explained(frame):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode=mode)
    return out.getvalue() + frame._jdf.queryExecution().toString()


def test_records_of_a_secured_cluster_are_read_and_written_and_spark_shows_no_password(spark, secured, tmp_path):
    source = {**secured, "subscribe": "orders", "startingOffsets": "earliest"}
    batch = spark.read.format("kohort").options(**source).load()
    stream = spark.readStream.format("kohort").options(**source).load()
    plans = explained(batch) + explained(stream)
    assert batch.count() == ROWS

    sink = {**secured, "topic": "copies", "checkpointLocation": str(tmp_path / "checkpoint")}
    writer = stream.select("key", "value").writeStream.format("kohort").options(**sink).trigger(availableNow=True)
    query = run_to_end(writer.start)
    plans += "".join(str(p.json if hasattr(p, "json") else p) for p in query.recentProgress)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        query.explain(True)

    assert spark.read.format("kohort").options(**{**secured, "subscribe": "copies"}).load().count() == ROWS
    assert "StreamingRelationV2" in plans
    assert shown(plans + out.getvalue()) == []
    assert shown_in_files(tmp_path) == {}


def test_member_and_its_dead_letter_producer_use_the_same_login(spark, secured, tmp_path):
    member = {**secured, "subscribe": "orders", "group.id": "members", "group.mode": "member"}
    decoded = {"value.format": "json", "badRecords": "dlq", "deadLetterTopic": "letters"}
    stream = spark.readStream.format("kohort").schema("id long").options(**member, **decoded).load()

    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        with kohort.Admin(plain_options(secured)) as admin:
            eventually(lambda: not query.isActive or committed(admin, "members") == ROWS, deadline_s=200)
    finally:
        query.stop()
    assert query.exception() is None
    rows = spark.read.parquet(str(tmp_path / "rows")).count()
    assert rows == ROWS - ROWS // 5
    letters = spark.read.format("kohort").options(**{**secured, "subscribe": "letters"}).load()
    assert letters.count() == ROWS // 5
    assert shown_in_files(tmp_path) == {}


def test_rebalance_table_of_a_secured_cluster_is_read_and_shows_no_password(spark, secured):
    with kohort.Consumer({**plain_options(secured), "group.id": "historic"}) as consumer:
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(200) is not None and consumer.assignment(), deadline_s=60)

    address = secured["kafka.bootstrap.servers"]
    more = {name: value for name, value in secured.items() if name != "kafka.bootstrap.servers"}
    table = rebalance_table(spark, address, options=more)

    assert "historic" in {row["group"] for row in table.collect()}
    assert shown(explained(table)) == []
    with pytest.raises(Exception, match=r"profile 'nowhere': .*clusters\.toml"):
        rebalance_table(spark, profile="nowhere")


def test_error_of_a_wrong_password_does_not_show_the_password(spark, secured):
    wrong = {**secured, "kafka.sasl.jaas.config": secured["kafka.sasl.jaas.config"].replace(PLAIN, f"{PLAIN}-not")}
    with pytest.raises(Exception, match=r"AuthenticationFailed|Authentication failed") as refused:
        spark.read.format("kohort").options(**wrong, subscribe="orders").load().count()
    assert shown(str(refused.value)) == []


def test_ledger_and_state_files_of_a_pipeline_have_no_secret(spark, secured, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED", PLAIN)
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"name: orders\nbrokers: {secured['kafka.bootstrap.servers']}\n"
        "kafka: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: etl,\n"
        '        sasl.password: "${PLANTED}"}\n'
        "source: {topics: [orders], group: pipeline}\n"
        "decode: {format: json, schema: id long}\n"
        "sinks:\n  - parquet: {path: out}\n  - topic: {topic: out}\n"
        "dlq: {topic: orders-dlq}\n"
    )
    outcome = run_pipeline(load_pipeline(file), spark, once=True)

    assert json.loads(json.dumps(outcome.ledger.as_json()))["rows_in"] == ROWS
    assert outcome.ledger.dead_letters == ROWS // 5
    assert shown(repr(outcome)) == []
    assert shown_in_files(tmp_path) == {}
