from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import kohort
from kohort import OffsetAndMetadata, TopicPartition, UsageError

PARTITIONS = 1
WAIT_S = 60.0
WAIT_MS = 60_000
LONE = "\ud800"

TO_A_PRODUCER: dict[str, tuple[Callable[[Any, str], object], str]] = {
    "no topic": (lambda p, t: p.send(None, b"x"), "a topic name must be text that is not blank, not None"),
    "a topic of bytes": (lambda p, t: p.send(t.encode(), b"x"), "must be text that is not blank, not b'"),
    "a topic that cannot be sent": (lambda p, t: p.send(LONE, b"x"), "must be text that is not blank"),
    "a partition of text": (lambda p, t: p.send(t, b"x", partition="0"), "a partition must be a whole number, not '0'"),
    "a time in fractions": (lambda p, t: p.send(t, b"x", timestamp_ms=1.5), "must be a whole number, not 1.5"),
    "a time of text": (lambda p, t: p.send(t, b"x", timestamp_ms="now"), "must be a whole number, not 'now'"),
    "a time beyond time": (lambda p, t: p.send(t, b"x", timestamp_ms=10**30), "must fit in 64 bits"),
    "a time before the epoch": (
        lambda p, t: p.send(t, b"x", timestamp_ms=-2),
        "timestamp -2 is negative: expected milliseconds since 1970",
    ),
    "a value that cannot be sent": (lambda p, t: p.send(t, LONE), "value is text that UTF-8 cannot encode"),
    "a header that cannot be sent": (
        lambda p, t: p.send(t, b"x", headers={LONE: b"x"}),
        "a header must be a pair of str",
    ),
    "a lot for no topic": (lambda p, t: p.send_batch(None, 0, [b"x"]), "must be text that is not blank, not None"),
    "a lot with a time in fractions": (
        lambda p, t: p.send_batch(t, 0, [b"x", (None, b"y", (), 1.5)]),
        "must be a whole number, not 1.5",
    ),
    "a name that no cluster takes": (
        lambda p, t: p.send("bad topic!", b"x"),
        "INVALID_TOPIC_EXCEPTION: topic 'bad topic!': a name has up to 249 letters",
    ),
    "no table": (lambda p, t: p.send_arrow(t, None), "send_arrow takes a pyarrow Table, .*, not NoneType"),
}


@pytest.mark.parametrize(("mistake", "message"), TO_A_PRODUCER.values(), ids=TO_A_PRODUCER)
def test_producer_rejects_invalid_record_and_sends_the_next(bootstrap, topic, mistake, message):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises((UsageError, kohort.ApiError), match=message):
            mistake(producer, topic)

        assert producer.send(topic, b"right", partition=0).result(WAIT_MS).offset == 0


@pytest.mark.parametrize(("mistake", "message"), TO_A_PRODUCER.values(), ids=TO_A_PRODUCER)
def test_async_producer_rejects_invalid_record_and_sends_the_next(bootstrap, topic, mistake, message):
    async def story() -> None:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises((UsageError, kohort.ApiError), match=message):
                await mistake(producer, topic)

            assert (await (await producer.send(topic, b"right", partition=0))).offset == 0

    asyncio.run(asyncio.wait_for(story(), WAIT_S))


TO_A_CONSUMER: dict[str, tuple[Callable[[Any, str], object], str]] = {
    "a topic that cannot be sent": (lambda c, t: c.subscribe(LONE), "topic names must be text that is not blank"),
    "a listener that hears nothing": (lambda c, t: c.subscribe(t, "x"), "has no method on_partitions_revoked"),
    "a topic in place of partitions": (lambda c, t: c.assign(t), "assign: expected a list of TopicPartition, not"),
    "a partition that is not in a list": (lambda c, t: c.assign(TopicPartition(t, 0)), "expected a list of"),
    "a partition without a topic": (lambda c, t: c.assign([TopicPartition(None, 0)]), "expected TopicPartition"),
    "a partition of text": (lambda c, t: c.assign([(t, "0")]), "must be a whole number, not '0'"),
    "a place in fractions": (
        lambda c, t: c.seek((t, 0), 1.5),
        "seek: the offset of .*-0 must be a whole number, not 1.5",
    ),
    "a place beyond all logs": (lambda c, t: c.seek((t, 0), 10**30), "must fit in 64 bits"),
    "an offset of text": (lambda c, t: c.commit({(t, 0): "5"}), "must be a number or OffsetAndMetadata, not '5'"),
    "an offset that is a flag": (
        lambda c, t: c.commit({(t, 0): True}),
        "must be a number or OffsetAndMetadata, not True",
    ),
    "an offset in fractions": (lambda c, t: c.commit({(t, 0): OffsetAndMetadata(1.5)}), "a whole number, not 1.5"),
    "metadata of bytes": (lambda c, t: c.commit({(t, 0): OffsetAndMetadata(1, b"x")}), "must be text, not b'x'"),
    "offsets in a list": (lambda c, t: c.commit([5]), "expected a mapping of TopicPartition"),
    "offsets of no topic": (lambda c, t: c.committed([(None, 0)]), "expected TopicPartition"),
    "ends of no topic": (lambda c, t: c.end_offsets([(None, 0)]), "expected TopicPartition"),
    "a time in fractions": (lambda c, t: c.offsets_for_times({(t, 0): 1.5}), "must be a whole number, not 1.5"),
    "a schema of text": (lambda c, t: c.poll_arrow(0, schema="x"), r"schema= takes a pyarrow\.Schema, not str"),
    "seconds": (lambda c, t: c.poll(1.5), r"whole number of milliseconds, not 1\.5; 1\.5 s are 1500"),
    "a wait of text": (lambda c, t: c.poll("1"), "timeout_ms must be a whole number of milliseconds, not '1'"),
    "no wait": (lambda c, t: c.poll(None), "timeout_ms must be a whole number of milliseconds, not None"),
    "less than no wait": (lambda c, t: c.poll(-1), "a number of milliseconds from 0 to 2147483647, not -1"),
    "seconds for Arrow": (lambda c, t: c.poll_arrow(1.0), r"milliseconds, not 1\.0; 1 s are 1000"),
    "seconds for a position": (lambda c, t: c.committed([(t, 0)], timeout_ms=1.0), "1 s are 1000"),
    "seconds for the end": (lambda c, t: c.close(timeout_ms=1.0), "1 s are 1000"),
    "records of text": (lambda c, t: c.poll(1, max_records="5"), "max_records must be a whole number, not '5'"),
    "partitions of no topic": (lambda c, t: c.partitions_for(None), "must be text that is not blank, not None"),
}


@pytest.mark.parametrize(("mistake", "message"), TO_A_CONSUMER.values(), ids=TO_A_CONSUMER)
def test_consumer_rejects_invalid_call_and_continues(bootstrap, topic, mistake, message):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"right", partition=0).result(WAIT_MS)
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        with pytest.raises(UsageError, match=message):
            mistake(consumer, topic)

        consumer.subscribe(topic)
        assert [record.value for record in consumer.poll(60_000)] == [b"right"]


def test_unencodable_reason_is_sent_with_replacements(bootstrap, topic):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"right", partition=0).result(WAIT_MS)
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(topic)
        assert len(consumer.poll(60_000)) == 1
        before = consumer.group_metadata().generation_id
        consumer.enforce_rebalance(f"because {LONE}")

        while consumer.group_metadata().generation_id == before:
            consumer.poll(200)


def test_fractional_mark_is_rejected_and_the_session_continues(bootstrap, topic):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"right", partition=0).result(WAIT_MS)
    errors: list[str] = []

    class Handler(kohort.GroupHandler):
        def consume_claim(self, session: kohort.GroupSession, claim: kohort.Claim) -> None:
            for record in claim:
                for mistake in (
                    lambda: session.mark_offset(claim.topic_partition, 0.5),
                    lambda: session.reset_offset((None, 0), 1),
                    lambda record=record: session.mark_message(record, LONE),
                ):
                    try:
                        mistake()
                    except UsageError as error:
                        errors.append(str(error))
                session.mark_message(record)
                group.stop()

    with kohort.ConsumerGroup(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as group:
        group.run(topic, Handler())
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        (committed,) = consumer.committed([TopicPartition(topic, 0)]).values()

    assert [text.split(":")[0] for text in errors] == ["mark_offset", "reset_offset", "mark_message"]
    assert committed == OffsetAndMetadata(1, "", committed.leader_epoch)


TIMES: dict[str, Callable[[Any], object]] = {
    "flush": lambda p: p.flush(10.0),
    "init_transactions": lambda p: p.init_transactions(10.0),
    "commit_transaction": lambda p: p.commit_transaction(10.0),
    "close": lambda p: p.close(10.0),
}


@pytest.mark.parametrize("mistake", TIMES.values(), ids=TIMES)
def test_producer_rejects_timestamp_in_seconds_and_continues(bootstrap, topic, mistake):
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        with pytest.raises(
            UsageError, match=r"timeout_ms must be a whole number of milliseconds, not 10\.0; 10 s are 10000"
        ):
            mistake(producer)

        producer.init_transactions()
        with producer.transaction():
            delivery = producer.send(topic, b"right")
            with pytest.raises(UsageError, match="10 s are 10000"):
                delivery.result(10.0)


@pytest.mark.parametrize("mistake", TIMES.values(), ids=TIMES)
def test_async_producer_rejects_timestamp_in_seconds_and_continues(bootstrap, topic, mistake):
    async def story() -> None:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
            with pytest.raises(UsageError, match="10 s are 10000"):
                await mistake(producer)

            await producer.init_transactions()
            async with producer.transaction():
                assert (await producer.send_and_wait(topic, b"right", partition=0)).offset == 0

    asyncio.run(asyncio.wait_for(story(), WAIT_S))


def test_admin_rejects_timestamp_in_seconds(bootstrap):
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        with pytest.raises(UsageError, match="5 s are 5000"):
            admin.list_topics(timeout_ms=5.0)
        admin.list_topics(timeout_ms=50_000)
