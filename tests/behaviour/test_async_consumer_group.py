from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import kohort
from kohort import AsyncConsumerGroup, AsyncGroupHandler, HandlerFailed, TopicPartition, UsageError

DEADLINE_S = 60
PARTITIONS = 4


@pytest.fixture(scope="module")
def producer(bootstrap: str) -> Iterator[kohort.Producer]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        yield producer


@pytest.fixture
def make(bootstrap: str, topic: str) -> Callable[..., AsyncConsumerGroup]:
    def make(**options: object) -> AsyncConsumerGroup:
        settings = {
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
            "metadata_max_age_ms": 500,
            **options,
        }
        return AsyncConsumerGroup(bootstrap_servers=bootstrap, **settings)

    return make


class Writer(AsyncGroupHandler):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.handled: list[int] = []
        self.sessions: list[set[int]] = []
        self.tasks: set[str] = set()

    async def setup(self, session):
        self.events.append("setup")
        self.sessions.append({p.partition for p in session.partitions})

    async def consume_claim(self, session, claim):
        self.tasks.add(asyncio.current_task().get_name())
        async for record in claim:
            await self.handle(record)
            session.mark_message(record)

    async def handle(self, record):
        self.handled.append(int(record.value))

    async def cleanup(self, session):
        self.events.append("cleanup")


def run(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await story

    asyncio.run(bounded())


async def until(done: Callable[[], object]) -> None:
    while not done():  # noqa: ASYNC110  # what is waited for are plain lists that handlers write
        await asyncio.sleep(0.005)


def send(producer: kohort.Producer, topic: str, count: int, first: int = 0, partition: int | None = None) -> None:
    for n in range(first, first + count):
        producer.send(topic, b"%d" % n, key=b"k%d" % n, partition=partition)
    producer.flush()


def committed(bootstrap: str, group_id: str, topic: str) -> int:
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=group_id) as reader:
        found = reader.committed([TopicPartition(topic, n) for n in range(4)])
    return sum(o.offset for o in found.values() if o)


def test_each_partition_has_a_task_and_marks_are_committed(bootstrap, producer, make, topic):
    send(producer, topic, 100)
    handler = Writer()

    async def story() -> None:
        async with make() as group:
            running = asyncio.create_task(group.run(topic, handler))
            await until(lambda: len(handler.handled) == 100)
            group.stop()
            await running

    run(story())
    assert sorted(handler.handled) == list(range(100))
    assert handler.events == ["setup", "cleanup"]
    assert handler.tasks == {f"kohort-claim-{topic}-{n}" for n in range(4)}
    assert committed(bootstrap, topic, topic) == 100


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_rebalance_starts_a_new_session_without_loss(producer, make, topic, strategy):
    send(producer, topic, 200)
    first, second = Writer(), Writer()

    async def story() -> None:
        async with make(partition_assignment_strategy=strategy) as one:
            running = asyncio.create_task(one.run(topic, first))
            await until(lambda: len(first.handled) >= 200)
            async with make(partition_assignment_strategy=strategy) as two:
                running_too = asyncio.create_task(two.run(topic, second))
                await until(lambda: [len(s) for s in first.sessions[-1:] + second.sessions[-1:]] == [2, 2])
                await asyncio.to_thread(send, producer, topic, 200, 200)
                await until(lambda: len(first.handled) + len(second.handled) >= 400)
            await running_too
            await until(lambda: first.sessions[-1] == {0, 1, 2, 3})
            await asyncio.to_thread(send, producer, topic, 100, 400)
            await until(lambda: len(first.handled) + len(second.handled) >= 500)
            one.stop()
            await running

    run(story())
    assert sorted(first.handled + second.handled) == list(range(500)), "all of it, none of it twice"


def test_handler_error_ends_the_session_and_names_the_partition(bootstrap, producer, make, topic):
    send(producer, topic, 10, partition=1)

    class Fails(Writer):
        async def handle(self, record):
            if record.offset == 5:
                raise ZeroDivisionError("at five")
            await super().handle(record)

    handler, again = Fails(), Writer()

    async def story() -> None:
        async with make() as group:
            with pytest.raises(HandlerFailed, match=f"consume_claim of {topic}-1 failed: ZeroDivisionError: at five"):
                await group.run(topic, handler)
            assert handler.events == ["setup", "cleanup"]
            running = asyncio.create_task(group.run(topic, again))
            await until(lambda: len(again.handled) == 5)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(story())
    assert again.handled == [5, 6, 7, 8, 9], "the next session begins behind what was marked"
    assert again.events == ["setup", "cleanup"], "a cancelled run ends its session in order"
    assert committed(bootstrap, topic, topic) == 10


def test_handler_cancelled_by_other_code_fails_the_session(producer, make, topic):
    send(producer, topic, 1, partition=2)

    class Cancels(Writer):
        async def handle(self, record):
            asyncio.current_task().cancel("enough")
            await asyncio.sleep(1)

    async def story() -> None:
        async with make() as group:
            with pytest.raises(HandlerFailed, match=f"consume_claim of {topic}-2 failed: CancelledError"):
                await group.run(topic, Cancels())

    run(story())


def test_slow_claim_does_not_delay_other_claims(producer, make, topic):
    handler = Writer()

    async def story() -> None:
        gate = asyncio.Event()

        class Slow(Writer):
            async def handle(self, record):
                if record.partition == 0:
                    await gate.wait()
                handler.handled.append(int(record.value))

        async with make(max_processing_time_ms=20, fetch_max_bytes=20_000) as group:
            running = asyncio.create_task(group.run(topic, Slow()))
            fill = [("fill", b"x" * 1000)]
            for n in range(0, 80, 2):
                producer.send(topic, b"%d" % n, partition=0, headers=fill)
                await producer.send(topic, b"%d" % (n + 1), partition=1, headers=fill)
            await until(lambda: len(handler.handled) == 40)
            assert all(n % 2 for n in handler.handled)
            gate.set()
            await until(lambda: len(handler.handled) == 80)
            group.stop()
            await running

    run(story())
    assert [n for n in handler.handled if n % 2 == 0] == list(range(0, 80, 2))


def test_manual_commit_waits_until_it_is_persisted(bootstrap, producer, make, topic):
    send(producer, topic, 10, partition=0)
    found: list[int] = []

    class ManualCommits(AsyncGroupHandler):
        async def consume_claim(self, session, claim):
            async for record in claim:
                session.mark_message(record, "by hand")
                if record.offset == 6:
                    await session.commit()
                    found.append(await asyncio.to_thread(committed, bootstrap, topic, topic))
                if record.offset == 9:
                    return

    async def story() -> None:
        async with make(enable_auto_commit=False) as group:
            await group.consume(topic, ManualCommits())

    run(story())
    assert found == [7]
    assert committed(bootstrap, topic, topic) == 7


def test_usage_errors_of_group_explain_the_mistake(bootstrap, producer, make, topic):
    send(producer, topic, 1)
    errors: list[str] = []

    async def story() -> None:
        group = make()

        class Closes(Writer):
            async def handle(self, record):
                await super().handle(record)
                for call in (group.close(), group.run(topic, self)):
                    with pytest.raises(UsageError) as error:
                        await call
                    errors.append(str(error.value))

        handler = Closes()
        running = asyncio.create_task(group.run(topic, handler), name="runner")
        await until(lambda: len(errors) == 2)
        await group.close()
        await group.close()
        await running
        with pytest.raises(UsageError, match="closed"):
            await group.consume(topic, handler)

    run(story())
    assert errors == [
        "close() in a handler would wait for this handler: call stop() in handlers, close() elsewhere",
        "task 'runner' already runs the group",
    ]
    with pytest.raises(UsageError, match=r"no group\.id"):
        AsyncConsumerGroup(bootstrap_servers=bootstrap)
