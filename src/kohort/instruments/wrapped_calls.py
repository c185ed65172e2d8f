"""Wrappers of the methods of an instrumented client, with spans around the processing of records.

They call the client's own methods and hold only a weak reference to the client. A processing span starts when a record,
or a list of records, is returned. It ends with the request of the next one, or with the iteration, and is current in
the iterating thread or task.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from kohort.aio.consuming.record_reader import RecordReader
from kohort.aio.group.async_consumer_group import AsyncClaim
from kohort.aio.group.consumer_group import Claim
from kohort.aio.producing.delivery import Delivery
from kohort.client.reading.fetched import Fetched
from kohort.instruments.semconv import COUNT, OFFSET
from kohort.instruments.spans import ClientTelemetry, OpenSpan, inject
from kohort.model import Record

T = TypeVar("T")


class _Spans(Generic[T]):
    def __init__(self, telemetry: ClientTelemetry) -> None:
        self._telemetry = telemetry
        self._open: OpenSpan | None = None

    def begin(self, item: T) -> T:
        records: Any = item if isinstance(item, list) else (item,)
        self._telemetry.consumed("process", "process", records[0].topic, len(records))
        self._open = self._telemetry.process(records)
        return item

    def end(self, error: BaseException | None = None) -> None:
        span, self._open = self._open, None
        if span is not None:
            span.end(error)


class ProcessedItems(_Spans[T], Iterator[T]):
    def __init__(self, items: Iterator[T], telemetry: ClientTelemetry) -> None:
        super().__init__(telemetry)
        self._items = items

    def __next__(self) -> T:
        self.end()
        return self.begin(next(self._items))

    def close(self) -> None:
        """End the span when the iteration is abandoned."""
        self.end()

    def __del__(self) -> None:
        self.end()


class AsyncProcessedItems(_Spans[T], AsyncIterator[T]):
    def __init__(self, items: AsyncIterator[T], telemetry: ClientTelemetry) -> None:
        super().__init__(telemetry)
        self._items = items

    async def __anext__(self) -> T:
        self.end()
        return self.begin(await anext(self._items))

    def __del__(self) -> None:
        self.end()


class _ClaimSpans:
    _items: ProcessedItems[Any] | AsyncProcessedItems[Any] | None = None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """End the open span when the handler returns or raises."""
        try:
            yield
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        if self._items is not None:
            self._items.end(error)


class ProcessedClaim(_ClaimSpans, Claim):
    """A claim with a span around each record or list of records."""

    def __init__(self, claim: Claim, telemetry: ClientTelemetry) -> None:
        self.__dict__.update(claim.__dict__)
        self._claim = claim
        self._telemetry = telemetry

    def __iter__(self) -> Iterator[Record]:
        items = self._items = ProcessedItems(iter(self._claim), self._telemetry)
        return items

    def batches(self) -> Iterator[list[Record]]:
        items = self._items = ProcessedItems(self._claim.batches(), self._telemetry)
        return items


class AsyncProcessedClaim(_ClaimSpans, AsyncClaim):
    """A claim of asyncio with a span around each record or list of records."""

    def __init__(self, claim: AsyncClaim, telemetry: ClientTelemetry) -> None:
        self.__dict__.update(claim.__dict__)
        self._claim = claim
        self._telemetry = telemetry

    def __aiter__(self) -> AsyncIterator[Record]:
        items = self._items = AsyncProcessedItems(aiter(self._claim), self._telemetry)
        return items

    def batches(self) -> AsyncIterator[list[Record]]:
        items = self._items = AsyncProcessedItems(self._claim.batches(), self._telemetry)
        return items


@contextmanager
def _attempt(item: Any, telemetry: ClientTelemetry) -> Iterator[None]:
    spans: _Spans[Any] = _Spans(telemetry)
    spans.begin(item)
    try:
        yield
    except BaseException as error:
        spans.end(error)
        raise
    spans.end()


class _Handler:
    def __init__(self, handler: Any, telemetry: ClientTelemetry) -> None:
        self.setup = handler.setup
        self.cleanup = handler.cleanup
        self._handler = handler
        self._telemetry = telemetry


class ProcessedHandler(_Handler):
    """Handler of a consumer group, with a span around each record of its claims."""

    @staticmethod
    def function(function: Callable[[Any], Any], telemetry: ClientTelemetry) -> Callable[[Any], Any]:
        """Wrap a function of ``handle`` with a span for each attempt."""

        def attempt(item: Any) -> None:
            with _attempt(item, telemetry):
                function(item)

        return attempt

    def consume_claim(self, session: Any, claim: Claim) -> None:
        processed = ProcessedClaim(claim, self._telemetry)
        with processed.handling():
            self._handler.consume_claim(session, processed)


class AsyncProcessedHandler(_Handler):
    """Handler of an asyncio consumer group, with a span around each record of its claims."""

    @staticmethod
    def function(function: Callable[[Any], Any], telemetry: ClientTelemetry) -> Callable[[Any], Any]:
        """Wrap a function of ``handle`` with a span for each attempt."""

        async def attempt(item: Any) -> None:
            with _attempt(item, telemetry):
                found = function(item)
                if inspect.isawaitable(found):
                    await found

        return attempt

    async def consume_claim(self, session: Any, claim: AsyncClaim) -> None:
        processed = AsyncProcessedClaim(claim, self._telemetry)
        with processed.handling():
            await self._handler.consume_claim(session, processed)


Calls = dict[str, Callable[..., Any]]


class OriginalCalls:
    def __init__(self, client: object) -> None:
        self._client = weakref.ref(client)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        client = self._client()
        assert client is not None, "it is being called"
        method: Callable[..., Any] = getattr(type(client), name).__get__(client)
        return method


class SentRecords:
    def __init__(self, telemetry: ClientTelemetry, topic: str) -> None:
        self._telemetry = telemetry
        self._topic = topic
        self._waiting = 0
        self._error: BaseException | None = None
        self.span: OpenSpan = telemetry.send(topic)
        self.count = 0

    @contextmanager
    def sending(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._telemetry.sent(self.span, max(self.count, 1), error, {})
            raise

    def one(self, delivery: Delivery) -> Delivery:
        self.count = 1
        self.wait_for([delivery])
        return delivery

    def wait_for(self, deliveries: list[Delivery]) -> None:
        """End the span of sending when all these deliveries are done, one per batch."""
        if not deliveries:
            self._telemetry.sent(self.span, self.count, None, {})
            return
        self._waiting = len(deliveries)
        for delivery in deliveries:
            delivery.add_done_callback(self._delivered)

    def _delivered(self, delivery: Delivery) -> None:
        self._error = self._error or delivery.exception()
        self._waiting -= 1
        if self._waiting:
            return
        later = self._telemetry.place(self._topic, delivery.partition)
        if self.count == 1 and self._error is None:
            later[OFFSET] = delivery.result(0).offset
        elif self.count > 1:
            later[COUNT] = self.count
        self._telemetry.sent(self.span, self.count, self._error, later)

    def with_trace_context(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield records with the trace context in their headers; invalid records unchanged, for the send's error."""
        for record in records:
            self.count += 1
            if not isinstance(record, tuple):
                yield (None, record, inject((), self.span.context))
            elif 2 <= len(record) <= 4:
                headers = inject(record[2] if len(record) > 2 else (), self.span.context)
                yield (*record[:2], headers, *record[3:])
            else:
                yield record


def producer_calls(plain: OriginalCalls, telemetry: ClientTelemetry) -> Calls:
    def send(topic: str, value: Any = None, key: Any = None, *, headers: Any = (), **options: Any) -> Delivery:
        sent = SentRecords(telemetry, topic)
        with sent.sending():
            with_context = inject(headers, sent.span.context)
            delivery: Delivery = plain.send(topic, value, key, headers=with_context, **options)
        return sent.one(delivery)

    def send_batch(topic: str, partition: int, records: Iterable[Any]) -> list[Delivery]:
        sent = SentRecords(telemetry, topic)
        with sent.sending():
            deliveries: list[Delivery] = plain.send_batch(topic, partition, sent.with_trace_context(records))
        sent.wait_for(deliveries)
        return deliveries

    return {"send": send, "send_batch": send_batch}


def async_producer_calls(plain: OriginalCalls, telemetry: ClientTelemetry) -> Calls:
    async def send(topic: str, value: Any = None, key: Any = None, *, headers: Any = (), **options: Any) -> Delivery:
        sent = SentRecords(telemetry, topic)
        with sent.sending():
            with_context = inject(headers, sent.span.context)
            delivery: Delivery = await plain.send(topic, value, key, headers=with_context, **options)
        return sent.one(delivery)

    async def send_batch(topic: str, partition: int, records: Iterable[Any]) -> list[Delivery]:
        sent = SentRecords(telemetry, topic)
        with sent.sending():
            deliveries: list[Delivery] = await plain.send_batch(topic, partition, sent.with_trace_context(records))
        sent.wait_for(deliveries)
        return deliveries

    return {"send": send, "send_batch": send_batch}


@contextmanager
def _polling(telemetry: ClientTelemetry) -> Iterator[int]:
    began_ns = time.time_ns()
    try:
        yield began_ns
    except Exception as error:
        telemetry.poll_failed(error, began_ns)
        raise


def consumer_calls(plain: OriginalCalls, telemetry: ClientTelemetry) -> Calls:
    def poll(timeout_ms: int = 0, *, max_records: int | None = None) -> Any:
        with _polling(telemetry) as began_ns:
            records = plain.poll(timeout_ms, max_records=max_records)
        if records:
            telemetry.polled(records, began_ns)
        return records

    def poll_arrow(timeout_ms: int = 0, **options: Any) -> Any:
        with _polling(telemetry) as began_ns:
            table = plain.poll_arrow(timeout_ms, **options)
        if table.num_rows:
            telemetry.polled_rows(table.num_rows, began_ns)
        return table

    return {"poll": poll, "poll_arrow": poll_arrow}


def async_consumer_calls(plain: OriginalCalls, telemetry: ClientTelemetry) -> Calls:
    """Wrap an asyncio consumer's polls; its other methods use ``poll``."""

    async def poll(timeout_ms: int = 0, *, max_records: int | None = None) -> Any:
        with _polling(telemetry) as began_ns:
            records = await plain.poll(timeout_ms, max_records=max_records)
        if records:
            telemetry.polled(records, began_ns)
        return records

    async def poll_arrow(timeout_ms: int = 0, **options: Any) -> Any:
        with _polling(telemetry) as began_ns:
            table = await plain.poll_arrow(timeout_ms, **options)
        if table.num_rows:
            telemetry.polled_rows(table.num_rows, began_ns)
        return table

    return {"poll": poll, "poll_arrow": poll_arrow}


def reader_calls(reader: RecordReader, telemetry: ClientTelemetry) -> Calls:
    plain = OriginalCalls(reader)

    def one_by_one(fetched: Fetched, most: int) -> Any:
        return ProcessedItems(plain.one_by_one(fetched, most), telemetry)

    return {"one_by_one": one_by_one}


def group_calls(
    plain: OriginalCalls, telemetry: ClientTelemetry, processed: type[ProcessedHandler | AsyncProcessedHandler]
) -> Calls:
    def consume(topics: Any, handler: Any) -> Any:
        return plain.consume(topics, processed(handler, telemetry))

    def handle(topics: Any, function: Any, **options: Any) -> Any:
        return plain.handle(topics, processed.function(function, telemetry), **options)

    return {"consume": consume, "handle": handle}
