"""What a Spark task does to send its rows, without Spark: a producer kept per process, and dropped where it failed."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from kohort import Admin, Broker, Consumer  # noqa: E402
from kohort.errors import KohortError, UsageError  # noqa: E402
from kohort.model import TopicPartition  # noqa: E402
from kohort.spark.sending.send import RowSender, kept_producer, send_rows  # noqa: E402


def rows(*pairs: tuple[str | None, bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic for topic, _ in pairs], pa.string()),
            "key": pa.array([b"k"] * len(pairs), pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )


def test_rows_go_to_the_topics_they_name_through_one_producer_and_all_are_acknowledged() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"a": 1, "b": 1})
        settings = {"bootstrap.servers": broker.bootstrap}

        assert send_rows([rows(("a", b"1"), ("b", b"2"), ("a", b"3")), rows()], settings) == 3
        first = kept_producer(settings)
        assert send_rows([rows(("b", b"4"))], settings) == 1
        assert kept_producer(settings) is first

        with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            ends = consumer.end_offsets([TopicPartition("a", 0), TopicPartition("b", 0)])
        assert sorted(ends.values()) == [2, 2]
        with pytest.raises(UsageError, match="a row has no topic"):
            send_rows([rows(("a", b"5"), (None, b"6"))], settings)
        assert kept_producer(settings) is not first, "a task that failed leaves no producer behind"
        RowSender(settings).fail()


def test_a_task_that_cannot_send_says_why_and_not_that_it_could_not_finish() -> None:
    with Broker() as broker:
        settings = {"bootstrap.servers": broker.bootstrap, "max.block.ms": "300", "request.timeout.ms": "300"}
        settings |= {"delivery.timeout.ms": "600", "linger.ms": "0"}
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"a": 1})
        assert send_rows([rows(("a", b"1"))], settings) == 1

    with pytest.raises(KohortError) as error:
        send_rows([rows(("a", b"2"))], settings)
    assert "after 0 s" not in str(error.value)
