"""The producer for asyncio: the calls of ``Producer`` as coroutines, over the same machine, on the caller's loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.driver import Driver
from kohort.aio.finalizers import deliver_rest
from kohort.aio.other_names import OF_PRODUCERS, OtherNames
from kohort.aio.producing.arrow_rows import Rows
from kohort.aio.producing.delivery import Delivery, Owner, call_back
from kohort.aio.producing.record_forms import Headers, RecordLike, Text, checked_lots, time_of_record
from kohort.aio.producing.transactions import Offsets, checked_offsets, not_ended
from kohort.aio.system import system_rng, wall_ms
from kohort.client.producer import ProducerMachine, RecordMetadata, check_partition, to_bytes, to_headers
from kohort.client.requests.promise import Promise
from kohort.client.user_input import checked_ms
from kohort.client.writing.produce_batch import RECORD_OVERHEAD, ProduceBatch
from kohort.config.client import ProducerConfig, client_config
from kohort.errors import ApiError, ConnectionFailed, KohortError, ProducerFenced, TransactionFailed, UsageError
from kohort.model import GroupMetadata

if TYPE_CHECKING:
    import pyarrow

CLOSE_MS: Final = 30_000


class AsyncProducer(OtherNames):
    """``async with AsyncProducer(...) as producer: delivery = await producer.send("t", b"v")``.

    The options, and what becomes of records, are as with ``Producer``; a delivery can be awaited.
    """

    other_names = OF_PRODUCERS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self.config = client_config(ProducerConfig, config, options)
        self._machine = ProducerMachine(self.config, system_rng())
        self._owner = Owner(contextlib.nullcontext())
        self._first_unkeyed = 0
        self._driver: Driver | None = None
        self._closed = False

    async def send(
        self,
        topic: str,
        value: Text = None,
        key: Text = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Hand over one record; await the Delivery to know what became of it. Raises as ``Producer.send``."""
        at_ms = time_of_record(timestamp_ms)
        value_bytes, key_bytes = to_bytes("value", value), to_bytes("key", key)
        pairs = to_headers(headers) if headers else ()
        driver = self._sending()
        partitions = await self.partitions_for(topic)
        await self._room(driver)
        now_ms = driver.clock.now_ms()
        if partition is None:
            size = RECORD_OVERHEAD + len(value_bytes or b"") + len(key_bytes or b"")
            partition = self._machine.choose(topic, key_bytes, size, partitions)
        check_partition(topic, partition, partitions)
        batch, index, news = self._machine.add(topic, partition, key_bytes, value_bytes, pairs, at_ms, now_ms)
        if news:
            driver.kick()
        return Delivery(batch, index, self._owner)

    async def send_and_wait(
        self,
        topic: str,
        value: Text = None,
        key: Text = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Hand over one record, and wait until it is written; where it is. Raises as ``send``, or why it failed."""
        delivery = await self.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        return await delivery

    async def send_batch(self, topic: str, partition: int, records: Iterable[RecordLike]) -> list[Delivery]:
        """Hand over many records for one partition: values, or tuples (key, value[, headers[, timestamp_ms]]).

        Returns the delivery of the last record of each batch that they fell into: when these are delivered, all are.
        Cancelled, it may have handed over some of them.
        """
        driver = self._sending()
        check_partition(topic, partition, await self.partitions_for(topic))
        last: dict[int, tuple[ProduceBatch, int]] = {}
        for lot in checked_lots(records, wall_ms):
            await self._room(driver)
            for batch, index in self._machine.add_lot(topic, partition, lot, driver.clock.now_ms()):
                last[id(batch)] = (batch, index)
            driver.kick()
        return [Delivery(batch, index, self._owner) for batch, index in last.values()]

    async def send_prebuilt(self, topic: str, partition: int, batch: bytes) -> Delivery:
        """Hand over one whole record batch (format 2) as bytes; its records are passed on untouched."""
        driver = self._sending()
        check_partition(topic, partition, await self.partitions_for(topic))
        await self._room(driver)
        made = self._machine.add_prebuilt(topic, partition, batch, driver.clock.now_ms())
        driver.kick()
        return Delivery(made, made.count - 1, self._owner)

    async def send_arrow(
        self,
        topic: str,
        table: pyarrow.Table | pyarrow.RecordBatch,
        *,
        value: str = "value",
        key: str | None = "key",
        headers: str | None = "headers",
        timestamp: str | None = "timestamp",
        partition: str | None = "partition",
    ) -> list[Delivery]:
        """Hand over the rows of an Arrow table, as ``Producer.send_arrow``; a thread encodes, so that the loop goes on.

        Returns the delivery of the last row of each batch. Cancelled, it may have handed over some of the rows.
        """
        rows = Rows(table, value, key, headers, timestamp, partition)
        driver = self._running()
        partitions = await self.partitions_for(topic)
        batches = rows.encoded(self.config, partitions, driver.clock.now_ms(), self._first_unkeyed)
        self._first_unkeyed += 1
        deliveries: list[Delivery] = []
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            deliveries.append(await self.send_prebuilt(topic, batch.partition, batch.data))
        return deliveries

    async def partitions_for(self, topic: str) -> int:
        """How many partitions ``topic`` has, asked of the cluster if need be."""
        found = self._machine.metadata.partition_count(topic)
        if found is None:
            timeout_ms = self.config.max_block_ms
            found = await self._running().until(lambda: self._machine.partitions(topic), timeout_ms)
            if found is None:
                raise self._machine.no_topic(topic, timeout_ms)
        return found

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until everything handed over is delivered or failed. Raises ApiTimeout after ``timeout_ms``."""
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        self._machine.accumulator.flush()
        machine = self._machine
        if not await self._running().until(lambda: machine.is_idle or None, limit_ms):
            raise machine.not_done(limit_ms)

    # Transactions, as of KIP-98 and KIP-447

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Take over the ``transactional.id``, as ``Producer.init_transactions``."""
        await self._settle("init_transactions()", lambda: self._machine.transactional().init(), timeout_ms)

    def begin_transaction(self) -> None:
        """What is sent from now on counts together: when it is committed, or not at all."""
        self._running()
        self._machine.transactional().begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group: GroupMetadata, timeout_ms: int | None = None
    ) -> None:
        """Commit a group's offsets with the transaction, as ``Producer.send_offsets_to_transaction``."""
        checked = checked_offsets(offsets)
        await self._settle(
            "send_offsets_to_transaction()",
            lambda: self._machine.transactional().send_offsets(checked, group),
            timeout_ms,
        )

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Deliver what was sent, then make it count. Raises as ``Producer.commit_transaction``."""
        await self._settle("commit_transaction()", self._machine.commit_transaction, timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Nothing that was sent in this transaction counts; what was not delivered yet fails with TransactionFailed."""
        await self._settle("abort_transaction()", lambda: self._machine.transactional().abort(), timeout_ms)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """``async with producer.transaction(): ...`` commits at its end, and aborts if anything was raised within."""
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            await self._abort_after(error)
            raise
        try:
            await self.commit_transaction()
        except TransactionFailed as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        """Raises ProducerFenced where ``error`` is but a sign of it: brokers do not know the owner of an id, its
        coordinator does."""
        try:
            await self.abort_transaction()
        except ProducerFenced as fenced:
            if isinstance(error, TransactionFailed | ApiError):
                raise fenced from error
        except KohortError:
            pass  # what was raised first says more

    async def _settle(self, what: str, ask: Callable[[], Promise[None]], timeout_ms: int | None) -> None:
        limit_ms = self.config.max_block_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        driver = self._running()
        promise = ask()
        if not await driver.until(lambda: promise.done or None, limit_ms):
            raise not_ended(what, limit_ms, self._machine.engine)
        promise.result()

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Deliver what was handed over, for at most ``timeout_ms``, then end. What is left fails.

        A transaction that is open is aborted.
        """
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        if self._closed:
            return
        self._machine.end_open()
        try:
            if self._driver is not None:
                await self.flush(limit_ms)
        finally:
            self._closed = True
            self._machine.sender.abort(ConnectionFailed("the producer was closed before the record was delivered"))
            if self._driver is not None:
                await self._driver.close()

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        driver: Driver | None = getattr(self, "_driver", None)
        if driver is not None and not self._closed:
            deliver_rest("an AsyncProducer", self._machine, driver, contextlib.nullcontext())

    def _running(self) -> Driver:
        if self._closed:
            raise UsageError("the producer is closed")
        if self._driver is None:
            driver = self._driver = Driver(self._machine.engine)
            machine = self._machine
            driver.on_progress(lambda: call_back(machine, driver, contextlib.nullcontext()))
        return self._driver

    def _sending(self) -> Driver:
        driver = self._running()
        self._machine.check_may_send()
        return driver

    async def _room(self, driver: Driver) -> None:
        buffer = self._machine.accumulator
        if not buffer.full:
            return
        timeout_ms = self.config.max_block_ms
        found = await driver.until(lambda: None if buffer.full else True, timeout_ms)
        if found is None:
            raise self._machine.no_room(timeout_ms)
