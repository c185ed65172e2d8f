"""The source on a real Spark. It reads each record once, and the lag of its group shows the progress."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

EARLIEST = {"startingOffsets": "earliest"}


def numbered(first: int, last: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"key-%d" % n, b"%d" % n) for n in range(first, last)]


def values(rows: list[Any]) -> list[int]:
    return sorted(int(row["value"]) for row in rows)


def test_batch_read_returns_the_exact_bytes_of_records(read: Callable[..., Any], cluster: Any) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, [(b"\x00\xff", b"v"), (None, b""), (b"k", None)], headers=[("h", b"1"), ("h", None)])

    frame = read(topic, includeHeaders="true")
    rows = sorted(frame.collect(), key=lambda row: row["offset"])

    assert [(bytes(r["key"]) if r["key"] is not None else None, r["value"]) for r in rows] == [
        (b"\x00\xff", b"v"),
        (None, b""),
        (b"k", None),
    ]
    assert [(r["topic"], r["partition"], r["offset"], r["timestampType"]) for r in rows] == [
        (topic, 0, n, 0) for n in range(3)
    ]
    assert [tuple(h) for h in rows[0]["headers"]] == [("h", b"1"), ("h", None)]
    assert isinstance(rows[0]["timestamp"], datetime)
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.mark.campaign
def test_batch_read_returns_an_offset_range_with_only_the_columns_of_its_schema(spark: Any, cluster: Any) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, numbered(0, 50))
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}": {{"0": 10}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 20}}}}',
    }

    frame = spark.read.format("kohort").schema("offset bigint, value binary").options(**options).load()

    assert frame.columns == ["offset", "value"]
    assert sorted(row["offset"] for row in frame.collect()) == list(range(10, 20))


def test_stream_reads_each_row_once_despite_restarts_and_its_group_has_lag_0(
    run_once: Callable[..., list[list[Any]]], cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic()
    cluster.produce(topic, numbered(0, 300))
    options = {**EARLIEST, "group.id": "once", "maxOffsetsPerTrigger": "200"}

    first = run_once(topic, tmp_path / "checkpoint", **options)
    assert cluster.lag("once", topic) == 0
    cluster.add_partitions(topic, 3)
    cluster.produce(topic, numbered(300, 400))
    assert cluster.lag("once", topic) == 100
    second = run_once(topic, tmp_path / "checkpoint", **options)

    assert len(first) == 2, "300 rows in micro-batches of at most 200"
    assert values([row for batch in first for row in batch]) == list(range(300))
    assert values([row for batch in second for row in batch]) == list(range(300, 400))
    assert cluster.lag("once", topic) == 0


@pytest.mark.campaign
def test_failed_first_micro_batch_is_retried_from_its_starting_offsets(
    run_once: Callable[..., list[list[Any]]], cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, numbered(0, 10))
    options = {"startingOffsets": "latest", "group.id": "retried"}

    def fail(_rows: list[Any]) -> None:
        raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        run_once(topic, tmp_path / "checkpoint", fail, **options)
    cluster.produce(topic, numbered(10, 30))
    rows = run_once(topic, tmp_path / "checkpoint", **options)

    assert [values(batch) for batch in rows] == [list(range(10, 30))], "all records after the first start"
    assert cluster.lag("retried", topic) == 0


@pytest.mark.campaign
def test_new_query_continues_at_committed_offsets(
    run_once: Callable[..., list[list[Any]]], cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, numbered(0, 20))
    run_once(topic, tmp_path / "old", **EARLIEST, **{"group.id": "moved"})
    cluster.produce(topic, numbered(20, 25))

    rows = run_once(topic, tmp_path / "new", **{"group.id": "moved"})

    assert [values(batch) for batch in rows] == [list(range(20, 25))]


def test_error_of_an_unknown_source_option_suggests_the_nearest_name(read: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match=r"unknown option 'startingofsets'; did you mean startingOffsets\?"):
        read("any", startingOfsets="earliest").collect()


@pytest.mark.campaign
def test_error_of_a_missing_topic_in_spark_names_the_topic(read: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match="topics that do not exist: nowhere"):
        read("nowhere").collect()
