from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from kohort import Admin, Broker, Consumer, NewTopic  # noqa: E402 - behind importorskip
from kohort.errors import ApiError, ErrorCode, KohortError, UsageError  # noqa: E402 - behind importorskip
from kohort.model import Record, TopicPartition  # noqa: E402 - behind importorskip
from kohort.spark.sending.send import (  # noqa: E402 - behind importorskip
    LetterSender,
    RowSender,
    drop_producer,
    send_rows,
    shared_producer,
)


def rows(*pairs: tuple[str | None, bytes]) -> Any:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic for topic, _ in pairs], pa.string()),
            "key": pa.array([b"k"] * len(pairs), pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )


def test_rows_are_sent_to_their_topics_and_acknowledged() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"a": 1, "b": 1})
        settings = {"bootstrap.servers": broker.bootstrap}

        assert send_rows([rows(("a", b"1"), ("b", b"2"), ("a", b"3")), rows()], settings) == 3
        first = shared_producer(settings)
        assert send_rows([rows(("b", b"4"))], settings) == 1
        assert shared_producer(settings) is first

        with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            ends = consumer.end_offsets([TopicPartition("a", 0), TopicPartition("b", 0)])
        assert sorted(ends.values()) == [2, 2]
        with pytest.raises(UsageError, match="a row has no topic"):
            send_rows([rows(("a", b"5"), (None, b"6"))], settings)
        assert shared_producer(settings) is not first, "a failed task closes its producer"
        RowSender(settings).fail()


def test_failed_send_is_the_error_of_the_task() -> None:
    with Broker() as broker:
        settings = {"bootstrap.servers": broker.bootstrap, "max.block.ms": "300", "request.timeout.ms": "300"}
        settings |= {"delivery.timeout.ms": "600", "linger.ms": "0"}
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"a": 1})
        assert send_rows([rows(("a", b"1"))], settings) == 1

    with pytest.raises(KohortError) as error:
        send_rows([rows(("a", b"2"))], settings)
    assert "after 0 s" not in str(error.value)


SMALL = 2_000


@pytest.fixture
def small_topics() -> Iterator[str]:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("a", 1, configs={"max.message.bytes": str(SMALL)})])
        yield broker.bootstrap


def records_of(bootstrap: str) -> list[Record]:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        first = TopicPartition("a", 0)
        consumer.assign([first])
        consumer.seek_to_beginning([first])
        end, found = consumer.end_offsets([first])[first], []
        while consumer.position(first) < end:
            found += consumer.poll(1000)
        return found


def letters(*records: tuple[bytes | None, bytes | None, dict[str, bytes]]) -> Any:
    headers = [
        [{"key": k, "value": v} for k, v in {**own, "kohort-error.offset": b"%d" % n}.items()]
        for n, (_, _, own) in enumerate(records)
    ]
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["a"] * len(records)),
            "key": pa.array([key for key, _, _ in records], pa.binary()),
            "value": pa.array([value for _, value, _ in records], pa.binary()),
            "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


def test_too_large_row_fails_the_task_despite_delivered_rows(small_topics: str) -> None:
    settings = {"bootstrap.servers": small_topics}

    with pytest.raises(ApiError) as error:
        send_rows([rows(*[("a", b"x" * (SMALL if n == 3 else 10)) for n in range(10)])], settings)

    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_too_large_dead_letter_is_sent_without_value_and_marked(small_topics: str) -> None:
    sent = [(b"k%d" % n, b"v%d" % n, {"own": b"o"}) for n in range(12)]
    sent[5] = (b"k5", b"x" * SMALL, {"own": b"o"})
    sent[9] = (b"k" * SMALL, b"x" * 3000, {"own": b"o"})
    sent[10] = (None, None, {"own": b"o" * SMALL})

    assert send_rows([letters(*sent), letters()], {"bootstrap.servers": small_topics}, LetterSender) == 12

    found = {dict(r.headers)["kohort-error.offset"]: r for r in records_of(small_topics)}
    assert sorted(found, key=int) == [b"%d" % n for n in range(12)], "each row is delivered at least once"
    headers_by_offset = {int(offset): dict(r.headers) for offset, r in found.items()}
    assert {
        n: headers["kohort-error.left-out"]
        for n, headers in headers_by_offset.items()
        if "kohort-error.left-out" in headers
    } == {
        5: b"value (2,000 bytes)",
        9: b"value (3,000 bytes), key (2,000 bytes) and headers of the record",
        10: b"value (0 bytes), key (0 bytes) and headers of the record",
    }
    assert (found[b"5"].key, found[b"5"].value, headers_by_offset[5]["own"]) == (b"k5", None, b"o")
    assert (found[b"9"].key, found[b"9"].value, "own" in headers_by_offset[9]) == (None, None, False)
    assert (found[b"4"].key, found[b"4"].value) == (b"k4", b"v4")
    assert shared_producer({"bootstrap.servers": small_topics}) is shared_producer({"bootstrap.servers": small_topics})
    drop_producer({"bootstrap.servers": small_topics})


def test_dead_letter_rejected_by_the_topic_is_an_error(small_topics: str) -> None:
    with pytest.raises(ApiError):
        send_rows(
            [letters((b"k", b"v", {"kohort-error.reason": b"r" * SMALL}))],
            {"bootstrap.servers": small_topics},
            LetterSender,
        )
