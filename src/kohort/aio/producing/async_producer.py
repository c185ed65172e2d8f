"""The producer for asyncio: the methods of ``Producer`` as coroutines on the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from kohort.aio.calls import awaiting, documented_as, run_call_async
from kohort.aio.driver import Driver
from kohort.aio.finalizers import deliver_dropped
from kohort.aio.other_names import OF_PRODUCERS, OtherNames
from kohort.aio.producing.delivery import Delivery, Owner
from kohort.aio.producing.producer import Producer
from kohort.aio.producing.producer_calls import Call, Fetch, ProducerCalls, Wait
from kohort.aio.producing.record_forms import ArrowRows, Headers, Text, time_of_record
from kohort.aio.system import system_rng
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import producer_metrics
from kohort.client.producer import ProducerMachine, RecordMetadata, check_partition, to_bytes, to_headers
from kohort.client.user_input import checked_ms
from kohort.client.writing.produce_batch import RECORD_OVERHEAD
from kohort.config.client import ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import ConnectionFailed, TransactionFailed
from kohort.schemas.serde import resolved_async
from kohort.wire.record_batch import NewRecord

if TYPE_CHECKING:
    import pyarrow

    from kohort.aio.option_types import ProducerOptions

R = TypeVar("R")
CLOSE_MS: Final = 30_000


@documented_as(Producer)
class AsyncProducer(OtherNames):
    """Producer for asyncio, usable in ``async with``::

        async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
            delivery = await producer.send("orders", b"value")

    Options, errors and deliveries are those of ``Producer``; a ``Delivery`` can be awaited. Use the producer in one
    event loop only; the tasks of this loop may share it.
    """

    other_names = OF_PRODUCERS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerOptions]) -> None:
        self.config = client_config(ProducerConfig, config, options)
        self._machine = ProducerMachine(self.config, system_rng())
        self._owner = Owner(contextlib.nullcontext())
        self._calls = ProducerCalls(self._machine, self._owner, kick=Driver.kick)
        self._serializers = self._calls.serializers

    async def send(
        self,
        topic: str,
        value: Text | Any = None,
        key: Text | Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        at_ms = time_of_record(timestamp_ms)
        pairs = to_headers(headers) if headers else ()
        if self._serializers is not None:
            serialize = partial(self._serializers.record, topic, key, value, pairs)
            key, value, pairs = await resolved_async(serialize)
        value_bytes, key_bytes = to_bytes("value", value), to_bytes("key", key)
        driver = self._calls.may_send()
        partitions = await self.partitions_for(topic)
        if self._machine.accumulator.full:
            await self._run(self._calls.room())
        now_ms = driver.clock.now_ms()
        if partition is None:
            size = RECORD_OVERHEAD + len(value_bytes or b"") + len(key_bytes or b"")
            partition = self._machine.choose(topic, key_bytes, size, partitions)
        check_partition(topic, partition, partitions)
        record = NewRecord(key_bytes, value_bytes, pairs, at_ms)
        batch, index, wake = self._machine.add(topic, partition, record, now_ms)
        if wake:
            driver.kick()
        return Delivery(batch, index, self._owner)

    async def send_and_wait(
        self,
        topic: str,
        value: Text | Any = None,
        key: Text | Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record, wait until it is delivered, and return its partition and offset.

        Raises the errors of ``send`` and of ``Delivery.result``.
        """
        delivery = await self.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        return await delivery

    send_batch = awaiting(ProducerCalls.send_batch)
    send_prebuilt = awaiting(ProducerCalls.send_prebuilt)
    flush = awaiting(ProducerCalls.flush)

    async def send_arrow(
        self,
        topic: str,
        table: pyarrow.Table | pyarrow.RecordBatch | pyarrow.RecordBatchReader | Any,
        *,
        value: str = "value",
        key: str | None = "key",
        headers: str | None = "headers",
        timestamp: str | None = "timestamp",
        partition: str | None = "partition",
    ) -> list[Delivery]:
        rows = ArrowRows(table, value, key, headers, timestamp, partition)
        batches = await self._run(self._calls.encoded(topic, rows))
        deliveries: list[Delivery] = []
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            deliveries.append(await self.send_prebuilt(topic, batch.partition, batch.data))
        return deliveries

    async def partitions_for(self, topic: str) -> int:
        known = self._machine.metadata.partition_count(topic)
        return await self._run(self._calls.partitions_for(topic)) if known is None else known

    def metrics(self) -> MetricsSnapshot:
        return producer_metrics(self._machine, self._calls.clock.now_ms())

    # Methods for transactions, see KIP-98 and KIP-447

    init_transactions = awaiting(ProducerCalls.init_transactions)
    send_offsets_to_transaction = awaiting(ProducerCalls.send_offsets_to_transaction)
    commit_transaction = awaiting(ProducerCalls.commit_transaction)
    abort_transaction = awaiting(ProducerCalls.abort_transaction)

    def begin_transaction(self) -> None:
        self._calls.begin_transaction()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block in a transaction: ``async with producer.transaction(): ...`` (see ``Producer.transaction``)."""
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            await self._run(self._calls.abort_after(error))
            raise
        try:
            await self.commit_transaction()
        except TransactionFailed as error:
            await self._run(self._calls.abort_after(error))
            raise

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Deliver the buffered records and close the connections. A second call has no effect.

        After ``timeout_ms`` ms the records that are still undelivered fail, and the call raises ApiTimeout. Aborts an
        open transaction.
        """
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        calls = self._calls
        if calls.closed:
            return
        self._machine.abort_open_transaction()
        try:
            if calls.driver is not None:
                await self.flush(limit_ms)
        finally:
            calls.closed = True
            self._machine.sender.abort(ConnectionFailed("the producer was closed before the record was delivered"))
            if calls.driver is not None:
                await calls.driver.close()

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        calls: ProducerCalls | None = getattr(self, "_calls", None)
        if calls is not None and calls.driver is not None and not calls.closed:
            deliver_dropped("an AsyncProducer", self._machine, calls.driver, contextlib.nullcontext())

    async def _run(self, call: Call[R]) -> R:
        async def until(wait: Wait | Fetch) -> Any:
            if isinstance(wait, Fetch):
                return await wait.needed.fetch_async()
            return await self._calls.running().until(wait.ready, wait.timeout_ms)

        return await run_call_async(call, until)
