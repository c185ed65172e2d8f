"""Spark's source, sink and pipelines over secured listeners of kohort's broker and of Apache Kafka."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import kohort
from kohort import TopicPartition
from kohort.spark import to_records
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.run import run_pipeline
from kohort.spark.runtime.session import SHORT_RUN, session
from support.security.access import allow_all
from support.security.secured_cluster import OF_OTHERS, SecuredCluster
from support.security.tokens import CLIENT, CLIENT_SECRET, token_service

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
WAYS = ("scram", "oauthbearer", "mtls")
PIPELINE = """\
name: orders
brokers: "${BROKERS}"
kafka: ${KAFKA}
source: {topics: ["${TOPIC}"], group: "${TOPIC}", limit: {rows: 200}}
decode: {format: json, schema: "n long"}
expect:
  - {check: n % 10 <> 9, reason: nine}
sinks:
  - topic: {topic: "${TOPIC}-out", key: n}
dlq: {topic: "${TOPIC}-dead"}
checkpoint: state
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    found = session("kohort-interop", conf=SHORT_RUN)
    yield found
    found.stop()


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> SecuredCluster:
    """Return a secured cluster that permits ``alice`` every operation."""
    found: SecuredCluster = request.getfixturevalue(f"secured_{request.param}")
    allow_all(found.setup, "alice")
    return found


@pytest.fixture
def token_url(cluster: SecuredCluster) -> Iterator[str]:
    """Yield the URL of a token service for ``alice``."""
    with token_service(cluster.issuer) as service:
        yield service.token_url


def options_for(cluster: SecuredCluster, way: str, token_url: str) -> dict[str, str]:
    """Return client options as text: executors can receive text, but no token function."""
    properties = cluster.properties(way)
    found = {name: value for name, value in properties.items() if name not in OF_OTHERS}
    if "token" in properties:
        found |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": token_url,
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        }
    return found


def values_of(setup: str, topic: str) -> list[int]:
    """Return the sorted numbers in the records of a topic."""
    found: list[int] = []
    with kohort.Consumer({"bootstrap.servers": setup}) as consumer:
        partitions = [TopicPartition(topic, p) for p in range(consumer.partitions_for(topic))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found += [json.loads(record.value or b"")["n"] for record in consumer.poll(500)]
    return sorted(found)


@pytest.mark.parametrize("way", WAYS)
def test_source_sink_and_pipeline_log_in(
    cluster: SecuredCluster, spark: Any, token_url: str, tmp_path: Path, way: str
) -> None:
    login = options_for(cluster, way, token_url)
    topic = f"spark-{uuid.uuid4().hex[:8]}"
    with kohort.Admin(bootstrap_servers=cluster.setup) as admin:
        admin.create_topics({topic: 3, f"{topic}-out": 3, f"{topic}-dead": 1})
    options = {"kafka.bootstrap.servers": cluster.address(way)} | {f"kafka.{n}": v for n, v in login.items()}

    rows = spark.range(300).selectExpr("id as n")
    records = to_records(rows, key="n", value=["n"])
    records.write.format("kohort").options(**options, topic=topic).mode("append").save()
    assert values_of(cluster.setup, topic) == list(range(300))

    read = spark.read.format("kohort").options(**options, subscribe=topic).load()
    assert sorted(json.loads(row["value"])["n"] for row in read.collect()) == list(range(300))
    plan = read._jdf.queryExecution().toString()
    assert not [secret for name, secret in login.items() if name.endswith(("password", "secret")) and secret in plan]

    environ = {"BROKERS": cluster.address(way), "TOPIC": topic, "KAFKA": json.dumps(login)}
    text = PIPELINE.replace("${KAFKA}", environ["KAFKA"])
    report = run_pipeline(parse_pipeline(text, tmp_path / "orders.yaml", environ), spark, once=True)
    assert report.balanced, report.as_json()
    assert (report.ledger.rows_in, report.ledger.dead_letters) == (300, 30)
    assert values_of(cluster.setup, f"{topic}-out") == [n for n in range(300) if n % 10 != 9]
