from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import kohort
from kohort import ApiTimeout, AsyncConsumer, ConfigError, OffsetAndMetadata, TopicPartition, UsageError

DEADLINE_S = 60
PARTITIONS = 4


@pytest.fixture(scope="module")
def producer(bootstrap: str) -> Iterator[kohort.Producer]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        yield producer


@pytest.fixture
def make(bootstrap: str, topic: str) -> Callable[..., AsyncConsumer]:
    def make(**options: object) -> AsyncConsumer:
        settings = {"group_id": topic, "auto_offset_reset": "earliest", "metadata_max_age_ms": 500, **options}
        return AsyncConsumer(bootstrap_servers=bootstrap, **settings)

    return make


def run(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await story

    asyncio.run(bounded())


def send(producer: kohort.Producer, topic: str, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        producer.send(topic, b"%d" % n, key=b"k%d" % n)
    producer.flush()


def test_iteration_yields_records_and_advances_positions(producer, make, topic):
    send(producer, topic, 100)

    async def story() -> None:
        async with make() as consumer:
            consumer.subscribe(topic)
            values = []
            async for record in consumer:
                values.append(int(record.value))
                if len(values) == 100:
                    break
            assert sorted(values) == list(range(100))
            partitions = consumer.assignment()
            assert partitions == {TopicPartition(topic, n) for n in range(4)}
            await consumer.commit()
            committed = await consumer.committed(partitions)
            assert sum(o.offset for o in committed.values() if o) == 100
            assert await consumer.end_offsets(partitions) == {p: await consumer.position(p) for p in partitions}
            assert set((await consumer.beginning_offsets(partitions)).values()) == {0}
            assert set(consumer.lag().values()) == {0}

    run(story())


def test_getmany_returns_records_by_partition_and_getone_a_record(producer, make, topic):
    send(producer, topic, 40)

    async def story() -> None:
        async with make() as consumer:
            consumer.subscribe([topic])
            first = await consumer.getone()
            found = {TopicPartition(topic, first.partition): [first]}
            while sum(map(len, found.values())) < 40:
                for partition, records in (await consumer.getmany(500, max_records=7)).items():
                    assert len(records) <= 7
                    found.setdefault(partition, []).extend(records)
            for partition, records in found.items():
                assert [r.offset for r in records] == list(range(len(records))), partition

    run(story())


def test_seek_pause_and_offsets_for_times_work_from_other_tasks(producer, make, topic):
    at_ms = [1000, 2000, 3000]
    for timestamp_ms in at_ms:
        producer.send(topic, b"x", partition=0, timestamp_ms=timestamp_ms)
    producer.flush()
    partition = TopicPartition(topic, 0)

    async def story() -> None:
        async with make(group_id=None) as consumer:
            consumer.assign([partition])
            waiting = asyncio.create_task(consumer.poll(30_000))
            found = await consumer.offsets_for_times({partition: 1500})
            assert found[partition] is not None
            assert found[partition].offset == 1
            assert len(await waiting) == 3

            consumer.pause([partition])
            consumer.seek(partition, 1)
            assert await consumer.poll(50) == []
            assert consumer.paused() == {partition}
            consumer.resume([partition])
            assert [r.offset for r in await consumer.poll(5000)] == [1, 2]
            consumer.seek_to_beginning()
            assert [r.offset for r in await consumer.poll(5000)] == [0, 1, 2]

    run(story())


def test_listener_may_await_a_commit_before_revocation(producer, make, topic):
    send(producer, topic, 20)
    callbacks: list[tuple[str, int]] = []

    class Listener:
        def __init__(self, consumer: AsyncConsumer) -> None:
            self.consumer = consumer

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            callbacks.append(("assigned", len(partitions)))

        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            await self.consumer.commit()
            callbacks.append(("revoked", len(partitions)))

        on_partitions_lost = on_partitions_revoked

    async def story() -> None:
        async with make(enable_auto_commit=False, heartbeat_interval_ms=100) as first:
            first.subscribe(topic, listener=Listener(first))
            count = 0
            while count < 20:
                count += len(await first.poll(500))
            async with make(enable_auto_commit=False) as second:
                second.subscribe(topic)
                while not (second.assignment() and callbacks[-1] == ("assigned", 2)):
                    records = await asyncio.gather(first.poll(50), second.poll(50))
                    assert records == [[], []], "what was committed is not read again"
        assert callbacks == [("assigned", 4), ("revoked", 4), ("assigned", 2), ("revoked", 2)]

    run(story())


def test_cancelled_poll_consumes_nothing(producer, make, topic):
    async def story() -> None:
        async with make() as consumer:
            consumer.subscribe(topic)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await consumer.poll(60_000)
            send(producer, topic, 10)
            values: list[int] = []
            while len(values) < 10:
                try:
                    async with asyncio.timeout(0.02):
                        values += [int(r.value) for r in await consumer.poll(60_000, max_records=1)]
                except TimeoutError:
                    continue
            assert sorted(values) == list(range(10))

    run(story())


def test_concurrent_poll_error_names_both_tasks(make, topic):
    async def story() -> None:
        async with make() as consumer:
            consumer.subscribe(topic)
            reader = asyncio.create_task(consumer.poll(60_000), name="reader")
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="'intruder' polls while 'reader' polls"):
                await asyncio.create_task(consumer.poll(), name="intruder")
            reader.cancel()

    run(story())


def test_close_ends_poll_and_iteration_of_another_task(producer, make, topic):
    send(producer, topic, 1)

    async def story() -> None:
        consumer = make()
        consumer.subscribe(topic)
        first = asyncio.Event()
        values: list[bytes | None] = []

        async def read() -> None:
            async for record in consumer:
                values.append(record.value)
                first.set()

        reader = asyncio.create_task(read())
        await first.wait()
        await consumer.close()
        await consumer.close()
        await reader
        assert values == [b"0"]
        for call in (consumer.poll(), consumer.commit(), consumer.getone()):
            with pytest.raises(UsageError, match="closed"):
                await call

    run(story())


def test_close_commits_and_leaves_so_that_the_next_member_joins_immediately(producer, make, topic):
    send(producer, topic, 30)

    async def story() -> None:
        async with make() as consumer:
            consumer.subscribe(topic)
            count = 0
            while count < 30:
                count += len(await consumer.poll(500))
        async with make() as consumer:
            consumer.subscribe(topic)
            started = asyncio.get_running_loop().time()
            while not consumer.assignment():
                assert await consumer.poll(100) == []
            assert asyncio.get_running_loop().time() - started < 20, "a session timeout is 45 s"
            assert await consumer.poll(200) == []

    run(story())


def test_commit_async_callbacks_run_in_order(producer, make, topic):
    send(producer, topic, 1)
    partition = TopicPartition(topic, 0)
    committed: list[int] = []

    async def story() -> None:
        async with make(enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            for offset in (1, 2, 3):
                consumer.commit_async(
                    {partition: OffsetAndMetadata(offset, "so far")},
                    lambda offsets, _: committed.append(offsets[partition][0]),
                )
            await consumer.commit({partition: OffsetAndMetadata(4, "done")})
            assert committed == [1, 2, 3]
            assert await consumer.committed([partition]) == {partition: OffsetAndMetadata(4, "done")}

    run(story())


def test_poll_arrow_does_not_block_other_calls(producer, make, topic):
    pyarrow = pytest.importorskip("pyarrow")
    send(producer, topic, 50)

    async def story() -> None:
        async with make() as consumer:
            consumer.subscribe(topic)
            tables = []
            while sum(t.num_rows for t in tables) < 50:
                tables.append(await consumer.poll_arrow(1000, columns=["value", "offset"]))
            table = pyarrow.concat_tables(tables)
            assert table.schema.names == ["value", "offset"]
            assert sorted(map(int, table["value"].to_pylist())) == list(range(50))

    run(story())


def test_usage_errors_explain_the_mistake(make):
    with pytest.raises(ConfigError, match=r"'group_idd'; did you mean group_id\?"):
        make(group_idd="x")

    async def story() -> None:
        async with make(group_id=None) as alone:
            with pytest.raises(UsageError, match=r"no group\.id"):
                alone.subscribe("t")
            with pytest.raises(UsageError, match="nothing to poll"):
                await alone.poll()
        async with make() as consumer:
            with pytest.raises(UsageError, match="await unsubscribe"):
                consumer.subscribe([])
        async with AsyncConsumer(bootstrap_servers="127.0.0.1:1", group_id="g") as nowhere:
            with pytest.raises(ApiTimeout, match=r"the offsets .*in time"):
                await nowhere.end_offsets([TopicPartition("t", 0)], timeout_ms=100)

    run(story())


def test_consumer_is_bound_to_one_event_loop(make, topic):
    consumers = [make()]
    consumers[0].subscribe(topic)
    asyncio.run(consumers[0].poll())

    async def elsewhere() -> None:
        with pytest.raises(UsageError, match="belongs to the event loop"):
            await consumers[0].poll()
        with pytest.raises(UsageError, match="belongs to the event loop"):
            consumers[0].assignment()

    asyncio.run(elsewhere())
    with pytest.warns(ResourceWarning, match="dropped without close"):
        consumers.clear()


def test_garbage_collected_consumer_leaves_its_group(producer, make, topic):
    send(producer, topic, 1)

    async def story() -> None:
        dropped: AsyncConsumer | None = make(session_timeout_ms=30_000)
        dropped.subscribe(topic)
        while not dropped.assignment():
            await dropped.poll(100)
        with pytest.warns(ResourceWarning, match="an AsyncConsumer was dropped"):
            dropped = None
        async with make() as successor:
            successor.subscribe(topic)
            started = asyncio.get_running_loop().time()
            while len(successor.assignment()) < 4:
                await successor.poll(100)
            assert asyncio.get_running_loop().time() - started < 15

    run(story())
