"""Spans around what users do with records: one for each record of an iteration, or for each list.

A span begins when a record is handed out, and ends when the next one is asked for, or when the iteration is given up.
It is current meanwhile, in the thread or the task that iterates.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Generic, TypeVar

from kohort.aio.group.group_tasks import AsyncClaim
from kohort.aio.group.group_threads import Claim
from kohort.instruments.telling import ClientTelling, OpenSpan
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


class ProcessedClaim(Claim):
    """The same claim, iterated with a span around each record, or each list."""

    def __init__(self, claim: Claim, telling: ClientTelling) -> None:
        self.__dict__.update(claim.__dict__)
        self._claim = claim
        self._telling = telling
        self._items: ProcessedItems[Any] | None = None

    def __iter__(self) -> Iterator[Record]:
        """Yield records one by one, as the claim does."""
        items = self._items = ProcessedItems(iter(self._claim), self._telling)
        return items

    def batches(self) -> Iterator[list[Record]]:
        """Yield lists of records, as the claim does."""
        items = self._items = ProcessedItems(self._claim.batches(), self._telling)
        return items

    def ended(self, error: BaseException | None) -> None:
        """End what is open: the handler has returned, or raised ``error``."""
        if self._items is not None:
            self._items.end(error)


class AsyncProcessedClaim(AsyncClaim):
    """The same in a task."""

    def __init__(self, claim: AsyncClaim, telling: ClientTelling) -> None:
        self.__dict__.update(claim.__dict__)
        self._claim = claim
        self._telling = telling
        self._items: AsyncProcessedItems[Any] | None = None

    def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records one by one, as the claim does."""
        items = self._items = AsyncProcessedItems(aiter(self._claim), self._telling)
        return items

    def batches(self) -> AsyncIterator[list[Record]]:
        """Yield lists of records, as the claim does."""
        items = self._items = AsyncProcessedItems(self._claim.batches(), self._telling)
        return items

    def ended(self, error: BaseException | None) -> None:
        """End what is open: the handler has returned, or raised ``error``."""
        if self._items is not None:
            self._items.end(error)


class ProcessedHandler:
    """A user's handler that is given claims with spans."""

    def __init__(self, handler: Any, telling: ClientTelling) -> None:
        self.setup = handler.setup
        self.cleanup = handler.cleanup
        self._handler = handler
        self._telling = telling

    def consume_claim(self, session: Any, claim: Claim) -> None:
        """Handle one partition."""
        processed = ProcessedClaim(claim, self._telling)
        try:
            self._handler.consume_claim(session, processed)
        except BaseException as error:
            processed.ended(error)
            raise
        processed.ended(None)


class AsyncProcessedHandler:
    """The same of a handler in tasks."""

    def __init__(self, handler: Any, telling: ClientTelling) -> None:
        self.setup = handler.setup
        self.cleanup = handler.cleanup
        self._handler = handler
        self._telling = telling

    async def consume_claim(self, session: Any, claim: AsyncClaim) -> None:
        """Handle one partition."""
        processed = AsyncProcessedClaim(claim, self._telling)
        try:
            await self._handler.consume_claim(session, processed)
        except BaseException as error:
            processed.ended(error)
            raise
        processed.ended(None)
