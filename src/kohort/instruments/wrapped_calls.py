"""Calls that take the place of a client's own on an instrumented client, with spans around what users do with records.

They call the client's own methods, and hold the client only weakly: one that is dropped goes at once, as before. A span
of processing begins when a record, or a list of records, is handed out. It ends when the next one is requested, or when
the iteration is given up, and is current meanwhile in the thread or the task that iterates.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from kohort.aio.consuming.record_reader import RecordReader
from kohort.aio.group.async_consumer_group import AsyncClaim
from kohort.aio.group.consumer_group import Claim
from kohort.aio.producing.delivery import Delivery
from kohort.client.reading.fetched import Fetched
from kohort.instruments.semconv import COUNT, OFFSET
from kohort.instruments.spans import ClientTelling, OpenSpan, inject
from kohort.model import Record

T = TypeVar("T")


class _Spans(Generic[T]):
    """The span of what was handed out last."""

    def __init__(self, telling: ClientTelling) -> None:
        self._telling = telling
        self._open: OpenSpan | None = None

    def begin(self, item: Any) -> Any:
        records: Sequence[Record] = item if isinstance(item, list) else (item,)
        self._telling.consumed("process", "process", records[0].topic, len(records))
        self._open = self._telling.process(records)
        return item

    def end(self, error: BaseException | None = None) -> None:
        span, self._open = self._open, None
        if span is not None:
            span.end(error)


class ProcessedItems(_Spans[T], Iterator[T]):
    """An iteration in a thread: of records, or of lists of them."""

    def __init__(self, items: Iterator[T], telling: ClientTelling) -> None:
        super().__init__(telling)
        self._items = items

    def __next__(self) -> T:
        self.end()
        item: T = self.begin(next(self._items))
        return item

    def close(self) -> None:
        """End: the iteration was given up."""
        self.end()

    def __del__(self) -> None:
        self.end()


class AsyncProcessedItems(_Spans[T], AsyncIterator[T]):
    """An iteration in a task."""

    def __init__(self, items: AsyncIterator[T], telling: ClientTelling) -> None:
        super().__init__(telling)
        self._items = items

    async def __anext__(self) -> T:
        self.end()
        item: T = self.begin(await anext(self._items))
        return item

    def __del__(self) -> None:
        self.end()


class _Handling:
    """The part of a processed claim that threads and tasks share."""

    _items: ProcessedItems[Any] | AsyncProcessedItems[Any] | None = None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """End the open span when the handler returns, or raises."""
        try:
            yield
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        if self._items is not None:
            self._items.end(error)


class ProcessedClaim(_Handling, Claim):
    """A claim that is iterated with a span around each record, or each list."""

    def __init__(self, claim: Claim, telling: ClientTelling) -> None:
        self.__dict__.update(claim.__dict__)
        self._claim = claim
        self._telling = telling

    def __iter__(self) -> Iterator[Record]:
        items = self._items = ProcessedItems(iter(self._claim), self._telling)
        return items

    def batches(self) -> Iterator[list[Record]]:
        items = self._items = ProcessedItems(self._claim.batches(), self._telling)
        return items


class AsyncProcessedClaim(_Handling, AsyncClaim):
    """The same in a task."""

    def __init__(self, claim: AsyncClaim, telling: ClientTelling) -> None:
        self.__dict__.update(claim.__dict__)
        self._claim = claim
        self._telling = telling

    def __aiter__(self) -> AsyncIterator[Record]:
        items = self._items = AsyncProcessedItems(aiter(self._claim), self._telling)
        return items

    def batches(self) -> AsyncIterator[list[Record]]:
        items = self._items = AsyncProcessedItems(self._claim.batches(), self._telling)
        return items


class _PlainHandler:
    def __init__(self, handler: Any, telling: ClientTelling) -> None:
        self.setup = handler.setup
        self.cleanup = handler.cleanup
        self._handler = handler
        self._telling = telling


class ProcessedHandler(_PlainHandler):
    """A user's handler that gets claims with spans."""

    def consume_claim(self, session: Any, claim: Claim) -> None:
        processed = ProcessedClaim(claim, self._telling)
        with processed.handling():
            self._handler.consume_claim(session, processed)


class AsyncProcessedHandler(_PlainHandler):
    """The same of a handler in tasks."""

    async def consume_claim(self, session: Any, claim: AsyncClaim) -> None:
        processed = AsyncProcessedClaim(claim, self._telling)
        with processed.handling():
            await self._handler.consume_claim(session, processed)


Calls = dict[str, Callable[..., Any]]


class PlainCalls:
    """A client's own methods, as its class has them."""

    def __init__(self, client: object) -> None:
        self._client = weakref.ref(client)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        client = self._client()
        assert client is not None, "it is being called"
        method: Callable[..., Any] = getattr(type(client), name).__get__(client)
        return method


class SentRecords:
    """A send until its deliveries are done."""

    def __init__(self, telling: ClientTelling, topic: str) -> None:
        self._telling = telling
        self._topic = topic
        self._waiting = 0
        self._error: BaseException | None = None
        self.span: OpenSpan = telling.send(topic)
        self.count = 0
        """Records that were handed over."""

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """End the span where an error is raised: nothing more was handed over."""
        try:
            yield
        except BaseException as error:
            self._telling.sent(self.span, max(self.count, 1), error, {})
            raise

    def one(self, delivery: Delivery) -> Delivery:
        self.count = 1
        self.handed_over([delivery])
        return delivery

    def handed_over(self, deliveries: list[Delivery]) -> None:
        """Wait for these: the one of each batch that tells of all of it."""
        if not deliveries:
            self._telling.sent(self.span, self.count, None, {})
            return
        self._waiting = len(deliveries)
        for delivery in deliveries:
            delivery.add_done_callback(self._delivered)

    def _delivered(self, delivery: Delivery) -> None:
        self._error = self._error or delivery.exception()
        self._waiting -= 1
        if self._waiting:
            return
        later = self._telling.place(self._topic, delivery.partition)
        if self.count == 1 and self._error is None:
            later[OFFSET] = delivery.result(0).offset
        elif self.count > 1:
            later[COUNT] = self.count
        self._telling.sent(self.span, self.count, self._error, later)

    def with_context(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield records with the context in their headers; what is no record is left to who finds so."""
        for record in records:
            self.count += 1
            if not isinstance(record, tuple):
                yield (None, record, inject((), self.span.context))
            elif 2 <= len(record) <= 4:
                headers = inject(record[2] if len(record) > 2 else (), self.span.context)
                yield (*record[:2], headers, *record[3:])
            else:
                yield record


def producer_calls(plain: PlainCalls, telling: ClientTelling) -> Calls:
    def send(topic: str, value: Any = None, key: Any = None, *, headers: Any = (), **options: Any) -> Delivery:
        sent = SentRecords(telling, topic)
        with sent.handing_over():
            with_context = inject(headers, sent.span.context)
            delivery: Delivery = plain.send(topic, value, key, headers=with_context, **options)
        return sent.one(delivery)

    def send_batch(topic: str, partition: int, records: Iterable[Any]) -> list[Delivery]:
        sent = SentRecords(telling, topic)
        with sent.handing_over():
            deliveries: list[Delivery] = plain.send_batch(topic, partition, sent.with_context(records))
        sent.handed_over(deliveries)
        return deliveries

    return {"send": send, "send_batch": send_batch}


def async_producer_calls(plain: PlainCalls, telling: ClientTelling) -> Calls:
    async def send(topic: str, value: Any = None, key: Any = None, *, headers: Any = (), **options: Any) -> Delivery:
        sent = SentRecords(telling, topic)
        with sent.handing_over():
            with_context = inject(headers, sent.span.context)
            delivery: Delivery = await plain.send(topic, value, key, headers=with_context, **options)
        return sent.one(delivery)

    async def send_batch(topic: str, partition: int, records: Iterable[Any]) -> list[Delivery]:
        sent = SentRecords(telling, topic)
        with sent.handing_over():
            deliveries: list[Delivery] = await plain.send_batch(topic, partition, sent.with_context(records))
        sent.handed_over(deliveries)
        return deliveries

    return {"send": send, "send_batch": send_batch}


@contextmanager
def _polling(telling: ClientTelling) -> Iterator[int]:
    """Yield the time at which a poll begins; an error ends it."""
    began_ns = time.time_ns()
    try:
        yield began_ns
    except Exception as error:
        telling.poll_failed(error, began_ns)
        raise


def consumer_calls(plain: PlainCalls, telling: ClientTelling) -> Calls:
    def poll(timeout_ms: int = 0, *, max_records: int | None = None) -> Any:
        with _polling(telling) as began_ns:
            records = plain.poll(timeout_ms, max_records=max_records)
        if records:
            telling.polled(records, began_ns)
        return records

    def poll_arrow(timeout_ms: int = 0, **options: Any) -> Any:
        with _polling(telling) as began_ns:
            table = plain.poll_arrow(timeout_ms, **options)
        if table.num_rows:
            telling.polled_rows(table.num_rows, began_ns)
        return table

    return {"poll": poll, "poll_arrow": poll_arrow}


def async_consumer_calls(plain: PlainCalls, telling: ClientTelling) -> Calls:
    """Return the calls of a consumer of asyncio; its other ways to read records are made of ``poll``."""

    async def poll(timeout_ms: int = 0, *, max_records: int | None = None) -> Any:
        with _polling(telling) as began_ns:
            records = await plain.poll(timeout_ms, max_records=max_records)
        if records:
            telling.polled(records, began_ns)
        return records

    async def poll_arrow(timeout_ms: int = 0, **options: Any) -> Any:
        with _polling(telling) as began_ns:
            table = await plain.poll_arrow(timeout_ms, **options)
        if table.num_rows:
            telling.polled_rows(table.num_rows, began_ns)
        return table

    return {"poll": poll, "poll_arrow": poll_arrow}


def reader_calls(reader: RecordReader, telling: ClientTelling) -> Calls:
    """Return what a consumer iterates by: a span around each record."""
    plain = PlainCalls(reader)

    def one_by_one(fetched: Fetched, most: int) -> Any:
        return ProcessedItems(plain.one_by_one(fetched, most), telling)

    return {"one_by_one": one_by_one}


def group_calls(plain: PlainCalls, telling: ClientTelling) -> Calls:
    """Return the calls of a group of handlers in threads; ``run`` is made of ``consume``."""

    def consume(topics: Any, handler: Any) -> None:
        plain.consume(topics, ProcessedHandler(handler, telling))

    return {"consume": consume}


def async_group_calls(plain: PlainCalls, telling: ClientTelling) -> Calls:
    """Return the calls of a group of handlers in tasks."""

    async def consume(topics: Any, handler: Any) -> None:
        await plain.consume(topics, AsyncProcessedHandler(handler, telling))

    return {"consume": consume}
