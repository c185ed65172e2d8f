"""The consumer for asyncio: coroutines on the user's event loop, without a thread.

Heartbeats are sent on the same event loop. If a task blocks the loop for longer than ``session.timeout.ms``, the
coordinator removes the member; so run long work with ``asyncio.to_thread``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from kohort.aio.calls import Call, awaiting, documented_as
from kohort.aio.consuming.async_waits import AsyncConsumerWaits, AsyncRebalanceListener
from kohort.aio.consuming.consumer import FOREVER_MS, Consumer
from kohort.aio.consuming.consumer_calls import (
    ConsumerCalls,
    ImmediateCalls,
    checked_listener,
    checked_topics,
    poll_limits,
)
from kohort.aio.consuming.record_reader import layout_of, reader_of
from kohort.aio.finalizers import leave_dropped
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.membership import RebalanceListener
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig
from kohort.config.client_options import client_config
from kohort.errors import UsageError
from kohort.extras import needs
from kohort.model import Record, SubscriptionPattern, TopicPartition
from kohort.schemas.serde import SchemaNeeded

if TYPE_CHECKING:
    import pyarrow

    from kohort.aio.option_types import ConsumerOptions
    from kohort.columns.avro_values.format import AvroFormat

ARROW_BYTES: Final = 16 << 20
"""Default limit of fetched bytes for one ``poll_arrow`` table. It is low, because decoding blocks the event loop."""
T = TypeVar("T")


@documented_as(Consumer)
class AsyncConsumer(ImmediateCalls):
    """``async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="g") as consumer``.

    Options have Kafka's names: keyword arguments with underscores, or a mapping with dots. Use the consumer only in the
    event loop of its first call. One task at a time may poll (``poll``, ``getmany``, ``poll_arrow``, ``async for``);
    any task of that loop may call the other methods. Rebalances take effect, and listeners run, inside a poll; listener
    methods may be coroutines. A cancelled call consumes no records. Raises ConfigError for an unknown option or an
    invalid value.

    Guides: docs/guides/async.md; for Arrow, docs/guides/arrow.md.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(nullcontext())
        self.config = client_config(ConsumerConfig, config, options)
        self._machine = ConsumerMachine(self.config, system_rng())
        self._waits: AsyncConsumerWaits = AsyncConsumerWaits(self._machine)
        self._calls = ConsumerCalls(self._waits, self._commits)
        self._reader = reader_of(self._machine, nullcontext(), self._waits.kick, blocks=False)

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
        """Subscribe to topics, or to all topics whose whole name matches a pattern, as a member of the group.

        The client evaluates a compiled pattern; the coordinator evaluates a ``SubscriptionPattern``
        (``group.protocol=consumer``). Replaces the previous subscription. The consumer gets partitions, and calls
        ``listener``, while it polls.

        Raises UsageError for an empty list of topics (use ``await unsubscribe()``), without a ``group.id``, after
        ``assign`` (until ``unsubscribe``), for a pattern of bytes or other values, and for a listener that lacks a
        method.
        """
        topics_or_pattern = checked_topics(topics)
        checked_listener(listener)
        if not topics_or_pattern:
            raise UsageError("subscribe: the list of topics is empty; to leave the group, use `await unsubscribe()`")
        with self._use() as machine:
            machine.subscribe(topics_or_pattern)
            self._waits.listener = listener

    async def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        limit_ms, most = poll_limits(self.config, timeout_ms, max_records)
        with self._waits.polling():
            self._commits.run_due()
            while True:
                try:
                    return await self._waits.until(lambda: self._reader.records(most), limit_ms) or []
                except SchemaNeeded as needed:
                    await needed.fetch_async()

    async def getmany(
        self, timeout_ms: int = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Poll, and return a mapping of partitions to their records. Raises the errors of ``poll``."""
        found: dict[TopicPartition, list[Record]] = {}
        for record in await self.poll(timeout_ms, max_records=max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self) -> Record:
        """Wait for the next record and return it.

        Raises the errors of ``poll``, and UsageError if the consumer is closed during the wait.
        """
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
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
        max_bytes: int = ARROW_BYTES,
    ) -> pyarrow.Table:
        with needs("arrow", "poll_arrow"):
            import pyarrow  # noqa: F401
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
        with self._waits.polling():
            self._commits.run_due()
            batches = await self._waits.until(lambda: self._reader.batches(layout, most_bytes), limit_ms) or []
        return layout.table(batches)

    async def __aiter__(self) -> AsyncIterator[Record]:
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.run_due()
                fetched = await self._waits.until(self._reader.next_fetched, FOREVER_MS)
            try:
                if fetched is not None:
                    for record in self._reader.one_by_one(fetched, self.config.max_poll_records):
                        yield record
            except SchemaNeeded as needed:  # the next fetch starts with this record
                await needed.fetch_async()

    async def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        layout = layout_of(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.run_due()
                batches = await self._waits.until(lambda: self._reader.batches(layout, 1), FOREVER_MS)
            for batch in batches or ():
                yield batch

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and close the connections. A second call has no effect.

        Waits up to ``timeout_ms`` milliseconds for responses; default 30 s, but 2 s while no broker is reachable. A
        failed commit raises no error: the group reads the uncommitted records again. A poll in flight returns no more
        records, and an ``async for`` ends. Raises the listener's error.
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

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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
            leave_dropped("an AsyncConsumer", self._machine, waits.running, nullcontext())
