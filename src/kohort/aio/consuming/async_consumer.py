"""The consumer of asyncio: the blocking one's calls as coroutines, on the user's own loop, without a thread.

Everything happens on that loop: heartbeats too. A task that keeps the loop busy for longer than ``session.timeout.ms``
costs this consumer its membership; run work that takes so long with ``asyncio.to_thread``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kohort.aio.calls import Call, awaiting, documented_as
from kohort.aio.consuming.async_waits import AsyncConsumerWaits, AsyncRebalanceListener
from kohort.aio.consuming.consumer import Consumer
from kohort.aio.consuming.consumer_calls import ConsumerCalls, ImmediateCalls, checked_listener, poll_limits, topics_of
from kohort.aio.consuming.record_reader import RecordReader, layout_of
from kohort.aio.finalizers import say_goodbye
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.membership import RebalanceListener
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.errors import UsageError
from kohort.extras import needs
from kohort.model import Record, SubscriptionPattern, TopicPartition

if TYPE_CHECKING:
    import pyarrow

ARROW_BYTES: Final = 16 << 20
"""How much ``poll_arrow`` takes at once, of what is buffered: other tasks wait for its decoding."""
T = TypeVar("T")
FOREVER_MS: Final = 3_600_000


@documented_as(Consumer)
class AsyncConsumer(ImmediateCalls):
    """``async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="g") as consumer``; options by Kafka's
    names, with underscores or in a mapping.

    It lives on the loop it is first used on. One task at a time may poll (``poll``, ``getmany``, ``poll_arrow``,
    ``async for``); the other verbs may be called by any task of that loop. Rebalances take effect, and listeners run,
    inside a poll; a listener's methods may be coroutines. A call that is cancelled has read nothing. Raises ConfigError
    for an unknown option or a value out of bounds.

    Its guide is docs/guides/async.md; for Arrow, docs/guides/arrow.md.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        super().__init__(nullcontext())
        self.config = client_config(ConsumerConfig, config, options)
        self._machine = ConsumerMachine(self.config, system_rng())
        self._waits: AsyncConsumerWaits = AsyncConsumerWaits(self._machine)
        self._calls = ConsumerCalls(self._waits, self._commits)
        self._reader = RecordReader(self._machine, nullcontext(), self._waits.kick)

    # What to read, and offsets

    unsubscribe = awaiting(ConsumerCalls.unsubscribe)
    partitions_for = awaiting(ConsumerCalls.partitions_for)
    position = awaiting(ConsumerCalls.position)
    commit = awaiting(ConsumerCalls.commit)
    committed = awaiting(ConsumerCalls.committed)
    beginning_offsets = awaiting(ConsumerCalls.beginning_offsets)
    end_offsets = awaiting(ConsumerCalls.end_offsets)
    offsets_for_times = awaiting(ConsumerCalls.offsets_for_times)

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: AsyncRebalanceListener | RebalanceListener | None = None,
    ) -> None:
        """Read topics, or every topic whose whole name matches a pattern, as a member of the group: a compiled one is
        matched here, a ``SubscriptionPattern`` by the cluster (``group.protocol=consumer``).

        Replaces an earlier subscription. The group assigns partitions while this consumer polls, and ``listener`` is
        told in these polls.

        Raises UsageError without topics (leaving takes time, so ``await unsubscribe()`` does it), without a
        ``group.id``, after ``assign`` (until ``unsubscribe``), and for anything else than topics, a pattern of bytes,
        or a listener without the methods of one.
        """
        wanted = topics_of(topics)
        checked_listener(listener)
        if not wanted:
            raise UsageError("subscribe: no topics were given; `await unsubscribe()` leaves the group")
        with self._use() as machine:
            machine.subscribe(wanted)
            self._waits.listener = listener

    # Records

    async def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        limit_ms, most = poll_limits(self.config, timeout_ms, max_records)
        with self._waits.polling():
            self._commits.tell()
            return await self._waits.until(lambda: self._reader.records(most), limit_ms) or []

    async def getmany(
        self, timeout_ms: int = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Return the records of a ``poll`` by partition. Raises as ``poll``."""
        found: dict[TopicPartition, list[Record]] = {}
        for record in await self.poll(timeout_ms, max_records=max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self) -> Record:
        """Return the next record, however long it takes. Raises as ``poll``, and UsageError if the consumer is closed
        meanwhile."""
        while True:
            records = await self.poll(FOREVER_MS, max_records=1)
            if records:
                return records[0]
            self._waits.check_usable()

    async def poll_arrow(
        self,
        timeout_ms: int = 0,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
        max_bytes: int = ARROW_BYTES,
    ) -> pyarrow.Table:
        with needs("arrow", "poll_arrow"):
            import pyarrow
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        with self._waits.polling():
            self._commits.tell()
            batches = await self._waits.until(lambda: self._reader.batches(layout, most_bytes), limit_ms) or []
        return pyarrow.Table.from_batches(batches, schema=layout.schema)

    async def __aiter__(self) -> AsyncIterator[Record]:
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.tell()
                fetched = await self._waits.until(self._reader.next_fetched, FOREVER_MS)
            if fetched is not None:
                for record in self._reader.one_by_one(fetched, self.config.max_poll_records):
                    yield record

    async def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.tell()
                batches = await self._waits.until(lambda: self._reader.batches(layout, 1), FOREVER_MS)
            for batch in batches or ():
                yield batch

    # The end

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and end the connections. A second call does nothing.

        Waits for the answers for ``timeout_ms`` milliseconds; by default for 30 s, but only for 2 s while no broker can
        be reached. What was not committed then is read again, without an error. A task that polls meanwhile gets
        nothing more, and an ``async for`` ends. Raises what the listener raised.
        """
        if self._waits.closing:
            return
        close_timeout = self._calls.close_timeout(timeout_ms)
        await self._waits.stop_polling(close_timeout.left_ms(self._waits.now_ms()))
        try:
            await self._waits.run_anywhere(self._calls.finish(close_timeout))
        finally:
            await self._waits.end()

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    # Inside

    async def _run(self, call: Call[T]) -> T:
        return await self._waits.run(call)

    @contextmanager
    def _use(self) -> Iterator[ConsumerMachine]:
        self._waits.check_usable()
        yield self._machine
        self._waits.kick()

    def __del__(self) -> None:
        waits: AsyncConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.running is not None and not waits.closing:
            say_goodbye("an AsyncConsumer", self._machine, waits.running, nullcontext())
