"""The consumer of asyncio: the blocking one's calls as coroutines, on the user's own loop, without a thread.

Everything happens on that loop: heartbeats too. A task that keeps the loop busy for longer than ``session.timeout.ms``
costs this consumer its membership; run work that takes so long with ``asyncio.to_thread``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.consuming.async_waits import AsyncConsumerWaits, AsyncRebalanceListener
from kohort.aio.consuming.immediate_calls import ImmediateCalls, checked_listener, checked_times, topics_of
from kohort.aio.consuming.record_reader import RecordReader, layout_of
from kohort.aio.finalizers import say_goodbye
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.rebalance import RebalanceListener
from kohort.client.reading.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp
from kohort.client.requests.close_timeout import Parting
from kohort.client.user_input import checked_ms, checked_partitions, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.errors import ApiTimeout, KohortError, UsageError
from kohort.extras import needs
from kohort.model import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kohort.columns.layout import Layout

ARROW_BYTES: Final = 16 << 20
"""How much ``poll_arrow`` takes at once, of what is buffered: other tasks wait for its decoding."""
FOREVER_MS: Final = 3_600_000


class AsyncConsumer(ImmediateCalls):
    """``async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="g") as consumer``; options by Kafka's
    names, with underscores or in a mapping.

    It lives on the loop it is first used on. One task at a time may poll (``poll``, ``getmany``, ``poll_arrow``,
    ``async for``); the other verbs may be called by any task of that loop. Rebalances take effect, and listeners run,
    inside a poll; a listener's methods may be coroutines. A call that is cancelled has read nothing.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        super().__init__(nullcontext())
        self.config = client_config(ConsumerConfig, config, options)
        self._machine = ConsumerMachine(self.config, system_rng())
        self._waits = AsyncConsumerWaits(self._machine)
        self._reader = RecordReader(self._machine, nullcontext(), self._waits.kick)

    # What to read

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        listener: AsyncRebalanceListener | RebalanceListener | None = None,
    ) -> None:
        """Read topics, or every topic whose whole name matches a compiled pattern, as a member of the group.

        Replaces an earlier subscription. The group assigns partitions while this consumer polls. Raises UsageError
        without topics: leaving takes time, so ``await unsubscribe()`` does it.
        """
        wanted = topics_of(topics)
        checked_listener(listener)
        if not wanted:
            raise UsageError("subscribe: no topics were given; `await unsubscribe()` leaves the group")
        with self._use() as machine:
            machine.subscribe(wanted)
            self._waits.listener = listener

    async def unsubscribe(self) -> None:
        """Leave the group and read nothing. The listener hears of it as of any revocation."""
        self._waits.check_usable()
        await self._waits.leave("the consumer unsubscribed from all topics", self._parting(self._timeout(None)))

    async def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> int:
        """How many partitions ``topic`` has, asked of the cluster if need be."""
        self._waits.check_usable()
        found = await self._waits.wait(lambda: self._machine.partitions(topic), self._timeout(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the partitions of {topic!r} were not found in time; is there such a topic?")
        return found

    # Records

    async def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        """Records of the assigned partitions, at most ``max.poll.records``; none if the time passes without any.

        Must be called again within ``max.poll.interval.ms``, or the group goes on without this member.
        """
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        most = self.config.max_poll_records if max_records is None else whole_number("max_records", max_records)
        if most < 1:
            raise UsageError(f"poll: max_records={most}, expected at least 1")
        with self._waits.polling():
            self._run_commit_callbacks()
            return await self._waits.until(lambda: self._reader.records(most), limit_ms) or []

    async def getmany(
        self, timeout_ms: int = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """As ``poll``, by partition."""
        found: dict[TopicPartition, list[Record]] = {}
        for record in await self.poll(timeout_ms, max_records=max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self) -> Record:
        """The next record, however long it takes. Raises UsageError if the consumer is closed meanwhile."""
        while True:
            records = await self.poll(FOREVER_MS, max_records=1)
            if records:
                return records[0]
            self._waits.check_usable()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records one by one, until the consumer is closed. Only those yielded count as read."""
        while not self._waits.closing:
            with self._waits.polling():
                self._run_commit_callbacks()
                fetched = await self._waits.until(self._reader.next_fetched, FOREVER_MS)
            if fetched is not None:
                for record in self._reader.one_by_one(fetched, self.config.max_poll_records):
                    yield record

    async def poll_arrow(
        self,
        timeout_ms: int = 0,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        max_bytes: int = ARROW_BYTES,
    ) -> pyarrow.Table:
        """Everything buffered, as an Arrow table: whole fetched batches, decoded without an object per record.

        ``columns`` names what to decode (by default all but the headers), or ``schema`` says it with types. ``json`` is
        the schema of values that are JSON objects: its fields become columns instead of ``value``. The table is empty
        if the time passes without records. Raises UndecodableValue for a value that is something else, once what comes
        before it was returned. Needs ``kohort[arrow]``.
        """
        with needs("arrow", "poll_arrow"):
            import pyarrow
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json)
        with self._waits.polling():
            self._run_commit_callbacks()
            batches = await self._waits.until(lambda: self._arrow(layout, most_bytes), limit_ms) or []
        return pyarrow.Table.from_batches(batches, schema=layout.schema)

    async def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        """Arrow batches as they were fetched, for as long as the consumer is open; options as of ``poll_arrow``.

        What was yielded counts as read. One fetched piece is mostly one batch; of a piece that decompresses to very
        much, and so comes in several batches, all counts as read with the first.
        """
        layout = layout_of(schema, columns, json)
        while not self._waits.closing:
            with self._waits.polling():
                self._run_commit_callbacks()
                batches = await self._waits.until(lambda: self._arrow(layout, 1), FOREVER_MS)
            for batch in batches or ():
                yield batch

    def _arrow(self, layout: Layout, max_bytes: int) -> list[pyarrow.RecordBatch] | None:
        taken = self._reader.take_whole(max_bytes)
        return self._reader.arrow(taken, layout) or None if taken else None

    # Offsets

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """The offset of the next record of ``partition``; waits for it to be found if need be."""
        self._waits.check_usable()
        found = await self._waits.wait(lambda: self._machine.position(partition), self._timeout(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the position of {TopicPartition(*partition)} was not found in time")
        return found

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit ``offsets``, or the positions of all assigned partitions, and wait until that is written.

        Raises CommitFailed if the group has gone on without this member.
        """
        timeout = self._timeout(timeout_ms)
        with self._use() as machine:
            earlier = [promise for promise, _ in self._commit_callbacks]
            promise = machine.commit(offsets, self._waits.now_ms() + timeout)
        await self._waits.wait_for(promise, timeout, "the commit was not answered in time")
        for before in earlier:
            with suppress(KohortError):  # its callback is told
                await self._waits.wait_for(before, timeout, "an earlier commit was not answered in time", check=False)
        self._run_commit_callbacks()

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed last; None where nothing."""
        timeout = self._timeout(timeout_ms)
        with self._use() as machine:
            promise = machine.committed(partitions, self._waits.now_ms() + timeout)
        return await self._waits.wait_for(promise, timeout, "the committed offsets were not read in time")

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._ends(partitions, EARLIEST, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition that can be read."""
        return await self._ends(partitions, LATEST, timeout_ms)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds); None where there is none."""
        return await self._list(checked_times(timestamps), timeout_ms)

    async def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        listed = await self._list(dict.fromkeys(checked_partitions("offsets", partitions), timestamp), timeout_ms)
        return {p: found.offset for p, found in listed.items() if found is not None}

    async def _list(
        self, targets: dict[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        timeout = self._timeout(timeout_ms)
        with self._use() as machine:
            promise = machine.list_offsets(targets, self._waits.now_ms() + timeout)
        return await self._waits.wait_for(promise, timeout, "the offsets were not found in time")

    # The end

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and end the connections. A second call does nothing.

        Waits for the answers for ``timeout_ms``; by default for 30 s, but only for 2 s while no broker can be reached.
        A task that polls meanwhile gets nothing more, and an ``async for`` ends.
        """
        if self._waits.closing:
            return
        parting = self._parting(timeout_ms)
        await self._waits.stop_polling(parting.left_ms(self._waits.now_ms()))
        try:
            await self._finish(parting)
        finally:
            await self._waits.end()

    async def _finish(self, parting: Parting) -> None:
        machine = self._machine
        left = [promise for promise, _ in self._commit_callbacks]
        if self.config.enable_auto_commit:
            left.append(machine.commit(None, parting.deadline_ms))
        for promise in left:  # what is not committed is read again: that is the promise of auto-commit
            await self._waits.wait_last(promise, parting)
        self._run_commit_callbacks()
        try:
            await self._waits.leave("the consumer is being closed", parting)
        finally:
            machine.stop_fetching()
            self._waits.kick()
            await asyncio.sleep(0)  # the engine writes its last requests

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

    def _timeout(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)

    def _parting(self, timeout_ms: int | None) -> Parting:
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        return Parting(self._machine.engine, self._waits.now_ms(), limit_ms)

    def __del__(self) -> None:
        waits: AsyncConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.running is not None and not waits.closing:
            say_goodbye("an AsyncConsumer", self._machine, waits.running, nullcontext())
