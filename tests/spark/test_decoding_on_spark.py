"""Decoding of record values in Spark's workers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.spark.finite_query import run_to_end

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

SCHEMA = "id bigint, at timestamp, tags array<string>, place struct<x:int,y:double>, _topic string, _offset bigint"
GOOD = b'{"id": %d, "at": "2026-01-02T03:04:05Z", "tags": ["a"], "place": {"x": 1, "y": 2.5}}'


@pytest.mark.campaign
def test_json_values_become_columns_and_a_bad_value_becomes_a_dead_letter(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic, dead = cluster.new_topic(partitions=1), cluster.new_topic(partitions=1)
    cluster.produce(topic, [(b"k", GOOD % n) for n in range(5)])
    cluster.produce(topic, [(b"bad", b"not json")], headers=[("h", b"1")])
    cluster.produce(topic, [(b"k", GOOD % 6)])
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "value.format": "json"}

    letters = {"badRecords": "dlq", "deadLetterTopic": dead, "startingOffsets": "earliest"}
    stream = spark.readStream.format("kohort").schema(SCHEMA).options(**options, **letters).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    run_to_end(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "out")))

    rows = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row["_offset"])
    assert [(row["id"], row["_offset"]) for row in rows] == [(n, n) for n in (0, 1, 2, 3, 4, 6)]
    assert rows[0]["at"].astimezone(UTC) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (rows[0]["tags"], tuple(rows[0]["place"]), rows[0]["_topic"]) == (["a"], (1, 2.5), topic)
    read = {**options, "subscribe": dead, "value.format": "raw", "includeHeaders": "true"}
    (letter,) = spark.read.format("kohort").options(**read).load().collect()
    assert (letter["key"], letter["value"]) == (b"bad", b"not json")
    headers = {h["key"]: bytes(h["value"]).decode() for h in letter["headers"]}
    assert headers == {
        "h": "1",
        "kohort-error.reason": "not a JSON object",
        "kohort-error.stage": "decode",
        "kohort-error.topic": topic,
        "kohort-error.partition": "0",
        "kohort-error.offset": "5",
    }

    frame = spark.read.format("kohort").schema("id bigint, _error string").options(**options, badRecords="null").load()
    assert [row["_error"] for row in frame.where("id is null").collect()] == ["not a JSON object"]
    with pytest.raises(Exception, match=f"{topic}-0 offset 5: not a JSON object"):
        spark.read.format("kohort").schema("id bigint").options(**options).load().collect()
