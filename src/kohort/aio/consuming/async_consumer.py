"""The consumer of asyncio: the blocking one's calls as coroutines, on the user's own loop, without a thread.

Everything happens on that loop: heartbeats too. A task that keeps the loop busy for longer than ``session.timeout.ms``
costs this consumer its membership; run work that takes so long with ``asyncio.to_thread``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.consuming.async_waits import AsyncConsumerWaits, AsyncRebalanceListener
from kohort.aio.consuming.immediate_calls import ImmediateCalls, checked_listener, poll_limits, topics_of
from kohort.aio.consuming.record_reader import RecordReader, layout_of
from kohort.aio.consuming.waiting_calls import WaitingCalls
from kohort.aio.finalizers import say_goodbye
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.membership import RebalanceListener
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.client.reading.list_offsets import OffsetAndTimestamp
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.errors import UsageError
from kohort.extras import needs
from kohort.model import OffsetAndMetadata, Record, SubscriptionPattern, TopicPartition

if TYPE_CHECKING:
    import pyarrow

ARROW_BYTES: Final = 16 << 20
"""How much ``poll_arrow`` takes at once, of what is buffered: other tasks wait for its decoding."""
FOREVER_MS: Final = 3_600_000


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
        self._waits = AsyncConsumerWaits(self._machine)
        self._calls = WaitingCalls(self._waits, self._commits)
        self._reader = RecordReader(self._machine, nullcontext(), self._waits.kick)

    # What to read

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

    async def unsubscribe(self) -> None:
        """Leave the group and read nothing. The listener hears of it as of any revocation.

        Waits for the group's answer as ``close`` does. Raises UsageError for a closed consumer, and what the listener
        raised.
        """
        await self._waits.run(self._calls.unsubscribe())

    async def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> int:
        """Return how many partitions ``topic`` has, asked of the cluster if need be.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, ApiError for a topic that the cluster refuses, UsageError for a name that no topic can have.
        """
        return await self._waits.run(self._calls.partitions_for(topic, timeout_ms))

    # Records

    async def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        """Return records of the assigned partitions, at most ``max.poll.records``; none if the time passes without any.

        Waits for ``timeout_ms`` milliseconds. Must be called again within ``max.poll.interval.ms``, or the group goes
        on without this member.

        Raises UsageError if there is nothing to poll or if another task polls; CorruptRecord where nothing
        precedes the damage; NoOffsetForPartition and LogTruncated if ``auto.offset.reset`` is none; ApiError for what
        the cluster refuses for good; and the first error of a listener or of a callback of ``commit_async``.
        """
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
        """Return everything buffered as an Arrow table: whole fetched batches, decoded without an object per record.

        Waits for ``timeout_ms`` milliseconds; the table is empty if these pass without records. It holds about
        ``max_bytes`` as they were fetched, and all of it counts as read. The columns, all of them but the headers
        unless ``columns`` names others:

        - ``topic``: string; ``partition``: int32; ``offset``: int64
        - ``timestamp``: timestamp[ms, UTC], null where there is none; ``timestamp_type``: int32, 0 of the producer and
          1 of the broker
        - ``key``, ``value``: binary, null where there is none
        - ``headers``: list<struct<key: string, value: binary>>

        ``schema`` names them with other types: string, large_binary or large_string, a dictionary for the topic, int64
        or another unit for the time. ``json`` is the schema of values that are JSON objects: its fields become columns
        in place of ``value``. With ``json_errors`` a value that is not such an object is a row of nulls, and the
        column ``json_error`` has the reason.

        Raises as ``poll``; UsageError for an unknown column or type; UndecodableValue for a value that is
        not such an object, in the call after the one that returned what comes before it. Needs ``kohort[arrow]``, or
        raises MissingExtra.
        """
        with needs("arrow", "poll_arrow"):
            import pyarrow
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        with self._waits.polling():
            self._commits.tell()
            batches = await self._waits.until(lambda: self._reader.batches(layout, most_bytes), limit_ms) or []
        return pyarrow.Table.from_batches(batches, schema=layout.schema)

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records one by one until the consumer is closed; only these count as read. Raises as ``poll``."""
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
        """Yield Arrow batches as they were fetched, until the consumer is closed; columns, types and options of
        ``poll_arrow``.

        A batch counts as read when it is yielded. Where one fetched piece is so large that it comes in several batches,
        all of them count as read with the first. Raises as ``poll_arrow``.
        """
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.tell()
                batches = await self._waits.until(lambda: self._reader.batches(layout, 1), FOREVER_MS)
            for batch in batches or ():
                yield batch

    # Positions and offsets

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record of ``partition``, looked up first if need be.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, UsageError if ``partition`` is not assigned, NoOffsetForPartition and LogTruncated if
        ``auto.offset.reset`` is none.
        """
        return await self._waits.run(self._calls.position(partition, timeout_ms))

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit ``offsets``, or the positions of all assigned partitions, and wait until that is written.

        A bare number is an offset without metadata, as in ``send_offsets_to_transaction``.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``; for earlier commits, too. Raises
        CommitFailed if the group has gone on without this member, ApiTimeout when the time is over, ApiError for what
        the coordinator refuses, UsageError without a ``group.id`` and for anything else than offsets.
        """
        await self._waits.run(self._calls.commit(offsets, timeout_ms))

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group committed last for each partition; None where nothing.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, ApiError for what the coordinator refuses, UsageError without a ``group.id``.
        """
        return await self._waits.run(self._calls.committed(partitions, timeout_ms))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, ApiError for what the cluster refuses, UsageError for anything else than partitions.
        """
        return await self._waits.run(self._calls.beginning_offsets(partitions, timeout_ms))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition that can be read (``isolation.level``).

        Waits, and raises, as ``beginning_offsets``.
        """
        return await self._waits.run(self._calls.end_offsets(partitions, timeout_ms))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (milliseconds since the epoch); None where there is none.

        Waits, and raises, as ``beginning_offsets``; UsageError for a negative time, too.
        """
        return await self._waits.run(self._calls.offsets_for_times(timestamps, timeout_ms))

    # What it knows of itself

    def metrics(self) -> MetricsSnapshot:
        """Return what this consumer counts of itself, by Kafka's names (docs/guides/client-metrics.md).

        It takes no request, and may be called from any thread, also after ``close``.
        """
        with self._waits.guard:
            return consumer_metrics(self._machine, self._waits.now_ms())

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

    @contextmanager
    def _use(self) -> Iterator[ConsumerMachine]:
        self._waits.check_usable()
        yield self._machine
        self._waits.kick()

    def __del__(self) -> None:
        waits: AsyncConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.running is not None and not waits.closing:
            say_goodbye("an AsyncConsumer", self._machine, waits.running, nullcontext())
