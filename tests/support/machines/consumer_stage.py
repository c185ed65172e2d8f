"""A real broker and any number of consumers in one thread, with a manual clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kohort.broker.broker import Broker
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.membership import CallbackNeeded
from kohort.client.producer import ProducerMachine
from kohort.client.reading.fetcher import PREFETCH_BYTES
from kohort.client.requests.source import Promise
from kohort.clock import ManualClock
from kohort.config import BrokerConfig, parse_config
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import KohortError
from kohort.log.storage import MemoryStorage
from kohort.model import Record, TopicPartition
from kohort.notes import Note
from kohort.wire.record_batch import NewRecord
from kohort_lab.machines.loop import Loop

ONE = ("one", 9092)
SERVERS = "one:9092"


class User:
    """One consumer that polls, runs rebalance callbacks, and reads."""

    def __init__(self, stage: ConsumerStage | Any, *, prefetch_bytes: int = PREFETCH_BYTES, **options: Any) -> None:
        options = {"bootstrap_servers": SERVERS, "auto_offset_reset": "earliest", **options}
        self.stage = stage
        config, rng = client_config(ConsumerConfig, None, options), random.Random(stage.next_seed())
        self.machine = ConsumerMachine(config, rng, prefetch_bytes=prefetch_bytes)
        self.callbacks: list[tuple[str, str]] = []
        self.records: list[Record] = []
        self.errors: list[KohortError] = []
        self.on_callback: Callable[[CallbackNeeded], None] = lambda _: None
        self.alive = True
        stage.loop.add(self.machine.engine)
        stage.users.append(self)

    @property
    def owned(self) -> str:
        return names(self.machine.subscription.assigned)

    @property
    def membership(self) -> Any:
        return self.machine.group.membership

    def poll(self, most: int = 500) -> list[Record]:
        """Poll without a wait, as ``poll(0)``."""
        self.machine.enter_poll(self.stage.now_ms)
        try:
            while (callback := self.machine.advance(self.stage.now_ms)) is not None:
                self.callbacks.append((callback.kind, names(callback.partitions)))
                self.on_callback(callback)
                self.machine.acknowledge(self.stage.now_ms)
            return self._read(most)
        finally:
            self.machine.leave_poll(self.stage.now_ms)

    def _read(self, most: int) -> list[Record]:
        out: list[Record] = []
        while len(out) < most:
            fetched, _ = self.machine.open_batch()
            if fetched is None:
                break
            fetched.decode_records(check_crcs=True)
            handed = self.machine.take_records(fetched, most - len(out))
            if not handed and fetched.error is not None and not self.machine.refetch_damaged(fetched):
                if not out:
                    raise fetched.error
                break
            out += handed
        self.records += out
        return out

    def notes_besides_resets(self) -> Iterator[Note]:
        """Return the log notes, except those of found positions."""
        return (note for note in self.machine.notes.take() if not note.text.startswith("positions reset:"))

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    def leave(self) -> Promise[None]:
        """Leave as ``unsubscribe()``."""
        self.alive = False
        callback = self.machine.prepare_leave()
        if callback is not None:
            self.callbacks.append((callback.kind, names(callback.partitions)))
        return self.machine.leave("the consumer is being closed")

    def die(self) -> None:
        """Close all connections without leaving the group."""
        self.alive = False
        self.stage.loop.close(self.machine.engine)


class PollingStage:
    """Users and their loop: all poll, the clock advances, and so on."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        self.users: list[User] = []
        self._seed = 0

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def next_seed(self) -> int:
        self._seed += 1
        return self._seed

    def user(self, topics: str | Sequence[str] = (), **options: Any) -> User:
        user = User(self, **options)
        if topics:
            user.machine.subscribe([topics] if isinstance(topics, str) else topics)
        return user

    def polls(self, for_ms: int, only: Iterable[User] | None = None) -> None:
        """Poll as every user every 50 ms, for ``for_ms``."""
        end_ms = self.now_ms + for_ms
        self.until(lambda: self.now_ms >= end_ms, for_ms, only)

    def until(self, done: Callable[[], Any], limit_ms: int = 60_000, only: Iterable[User] | None = None) -> None:
        """Poll as each user, in steps of 50 ms, until ``done()`` is true."""
        polling = None if only is None else list(only)
        limit = self.now_ms + limit_ms
        while True:
            for user in [u for u in self.users if u.alive and (polling is None or u in polling)]:
                user.poll()
            self.loop.settle()
            if done():
                return
            assert self.now_ms < limit, f"not done after {limit_ms} ms: {[u.owned for u in self.users]}"
            self.loop.run(50)

    def settled(self, promise: Promise[Any], limit_ms: int = 60_000) -> Any:
        """Return the result of ``promise`` without polls."""
        self.loop.run_until(lambda: promise.done, limit_ms)
        return promise.result()


class ConsumerStage(PollingStage):
    """Consumers with a real broker."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        options = {"advertised_listeners": [SERVERS], "group_initial_rebalance_delay_ms": 0, **options}
        self.storage = MemoryStorage()
        self.config = parse_config(BrokerConfig, options)
        self.broker = Broker(self.config, self.storage, random.Random(1), self.now_ms)
        self.loop.serve(ONE, self.broker)
        producer = ProducerConfig(bootstrap_servers=[SERVERS], linger_ms=0)
        self.producer = ProducerMachine(producer, random.Random(2))
        self.loop.add(self.producer.engine)

    def topic(self, name: str, partitions: int) -> None:
        self.broker.state.topics.create(name, partitions, {}, self.now_ms)

    def restart(self) -> None:
        """Start another broker on the same storage."""
        self.loop.cut(ONE)
        self.broker.close(self.now_ms)
        self.broker = Broker(self.config, self.storage, random.Random(9), self.now_ms)
        self.loop.serve(ONE, self.broker)

    def produce(self, topic: str, partition: int, *values: bytes) -> None:
        """Append one batch with these values."""
        self.loop.run_until(lambda: self.producer.partitions(topic) is not None)
        batches = set()
        for value in values:
            batch, _, _ = self.producer.add(topic, partition, NewRecord(None, value, (), self.now_ms), self.now_ms)
            batches.add(batch)
        self.loop.run_until(lambda: all(b.done for b in batches))


def names(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(sorted(map(str, partitions)))


def tp(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
