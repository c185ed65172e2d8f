"""The sink on a real Spark. It sends records to the same partitions as other Kafka clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kohort.client.writing.partitioner import BY_NAME
from kohort.spark.records_frame import to_records
from support.spark.finite_query import run_to_end

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


def headers_of(row: Any) -> dict[str, str]:
    return {h["key"]: bytes(h["value"]).decode() for h in row["headers"]}


@pytest.mark.campaign
def test_batch_write_sends_rows_with_headers_to_the_partitions_of_their_keys(
    spark: Any, cluster: Any, read: Callable[..., Any]
) -> None:
    topic = cluster.new_topic(partitions=3)
    frame = spark.range(200).selectExpr("id", "concat('customer-', id % 50) as customer", "id % 2 = 0 as even")

    records = to_records(frame, key="customer", value=["id", "even"], headers={"kind": "even"})
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
    records.write.format("kohort").options(**options).mode("append").save()

    rows = read(topic, includeHeaders="true").collect()
    assert sorted(json.loads(row["value"])["id"] for row in rows) == list(range(200))
    assert {row["partition"] for row in rows} == {0, 1, 2}
    assert all(row["partition"] == BY_NAME["murmur2"](bytes(row["key"]), 3) for row in rows)
    even = json.loads(rows[0]["value"])["even"]
    assert headers_of(rows[0]) == {"kind": str(even).lower()}

    with pytest.raises(Exception, match="'value' must be binary or string, not bigint"):
        spark.range(1).selectExpr("id as value").write.format("kohort").options(**options).mode("append").save()


@pytest.mark.campaign
def test_stream_write_sends_rows_with_delivery_headers(
    spark: Any, cluster: Any, read: Callable[..., Any], tmp_path: Path
) -> None:
    source, left, right = (cluster.new_topic() for _ in range(3))
    cluster.produce(source, [(b"k%d" % n, b"%d" % n) for n in range(100)])
    options = {"kafka.bootstrap.servers": cluster.bootstrap}
    stream = (
        spark.readStream.format("kohort")
        .options(**options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="60")
        .load()
        .selectExpr("key", "value", f"if(cast(cast(value as string) as int) < 30, '{left}', '{right}') as topic")
    )

    query = stream.writeStream.format("kohort").options(**options, checkpointLocation=str(tmp_path / "c"))
    running = run_to_end(query.trigger(availableNow=True).start)

    rows = read(f"{left},{right}", includeHeaders="true").collect()
    assert sorted(int(row["value"]) for row in rows if row["topic"] == left) == list(range(30))
    assert sorted(int(row["value"]) for row in rows if row["topic"] == right) == list(range(30, 100))
    headers = [headers_of(row) for row in rows]
    assert {h["kohort-query"] for h in headers} == {str(running.id)}
    assert {h["kohort-batch"] for h in headers} == {"0", "1"}
    assert len({(h["kohort-batch"], h["kohort-task"], h["kohort-row"]) for h in headers}) == 100
