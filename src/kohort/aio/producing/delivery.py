"""What became of a record: the result of ``send``, which can be looked at, waited for, or given a callback."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from kohort.aio.driver import PRODUCER_LOG, Driver, log_notes
from kohort.aio.other_names import OF_DELIVERIES, OtherNames
from kohort.client.producer import ProducerMachine, RecordMetadata, record_metadata, resolve
from kohort.client.user_input import checked_ms
from kohort.client.writing.produce_batch import ProduceBatch
from kohort.errors import ApiTimeout, KohortError

log = logging.getLogger(__name__)


class Delivery(OtherNames, msgspec.Struct, eq=False):
    """The answer to ``send``: whether a record is delivered, and where it was written.

    ``send_batch``, ``send_prebuilt`` and ``send_arrow`` return one for all their records of a batch: it is delivered
    when all are, its error is the first of any, and its place is that of the last record.

    It can be asked (``done``), waited for (``result``, or ``await``), or told to call back. Where ``acks=0`` asks for
    no answer, a record counts as delivered once it was sent.
    """

    other_names = OF_DELIVERIES
    _batch: ProduceBatch
    _index: int
    _owner: Owner
    _first: int | None = None
    """First record that it stands for, where that is not the record at ``_index`` alone."""

    @property
    def topic(self) -> str:
        """The topic of the record."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """The partition of the record."""
        return self._batch.partition

    def _parts(self) -> Iterator[ProduceBatch]:
        """Yield the batches that its records are in: a batch that a broker finds too large is divided."""
        index = self._index if self._first is None else self._first
        while index <= self._index:
            part, at = resolve(self._batch, index)
            yield part
            index += part.count - at

    def _unfinished(self) -> ProduceBatch | None:
        """Return the first unfinished batch of its records; None if all are finished."""
        return next((part for part in self._parts() if not part.done), None)

    def done(self) -> bool:
        """Tell whether the record is delivered or failed."""
        return self._unfinished() is None

    def exception(self) -> KohortError | None:
        """Return why the record failed; None if it is delivered, or not done yet. Does not wait."""
        if self._first is not None:
            errors = (next(iter(part.refused.values()), part.error) for part in self._parts())
            return next((error for error in errors if error is not None), None)
        batch, index = resolve(self._batch, self._index)
        return batch.error_of(index)

    def _place(self) -> RecordMetadata:
        error = self.exception()
        if error is not None:
            raise error
        return record_metadata(self._batch, self._index)

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait for the record to be delivered, and return where it was written.

        Raises ApiTimeout after ``timeout_ms`` (None: ``delivery.timeout.ms`` is the limit); it is still tried then.
        Raises why the record failed: ApiError for a broker's refusal, RecordsRefused for one of its batch's records
        (KIP-467), ConnectionFailed, ApiTimeout or TransactionFailed. Raises UsageError on the I/O thread.
        """
        timeout_s = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms) / 1000
        while (batch := self._unfinished()) is not None:
            self._owner.check_thread()
            event = threading.Event()
            self._owner.call_when_done(batch, event.set)
            if not event.wait(timeout_s):
                why = f" (attempt {batch.attempts}; the last failed: {batch.last_error})" if batch.last_error else ""
                raise ApiTimeout(
                    f"no answer for {batch.topic}-{batch.partition} after {timeout_ms} ms; it is still tried{why}"
                )
        return self._place()

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call ``callback`` with this delivery once it is done, or at once if it is.

        It runs on the I/O thread (of an ``AsyncProducer``: on its loop), and must be quick and not block. What it
        raises is logged.
        """
        batch = self._unfinished() or self._batch

        def run() -> None:
            if not self.done():  # the batch was divided, or another part of it is not done
                self.add_done_callback(callback)
                return
            try:
                callback(self)
            except Exception:
                log.exception("a delivery callback failed")

        self._owner.call_when_done(batch, run)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while (batch := self._unfinished()) is not None:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def wake(loop: asyncio.AbstractEventLoop = loop, future: asyncio.Future[None] = future) -> None:
                loop.call_soon_threadsafe(_set_done, future)

            self._owner.call_when_done(batch, wake)
            yield from future.__await__()
        return self._place()

    def __repr__(self) -> str:
        if not self.done():
            state = "in flight"
        else:
            state = str(error) if (error := self.exception()) else f"offset {self._place().offset}"
        return f"<Delivery to {self.topic}-{self.partition}: {state}>"


class Owner:
    """What deliveries need of their producer: the lock under which batches get done, and who may wait for that."""

    def __init__(
        self,
        guard: AbstractContextManager[Any],
        *,
        check_thread: Callable[[], None] = lambda: None,
        check_process: Callable[[], None] = lambda: None,
    ) -> None:
        self.guard = guard
        self.check_thread = check_thread
        """Raises UsageError where waiting would never end."""
        self.check_process = check_process
        """Raises UsageError in a child process that has the producer by a fork."""

    def call_when_done(self, batch: ProduceBatch, callback: Callable[[], None]) -> None:
        """Call ``callback`` once ``batch`` is done: now, if it is."""
        with self.guard:
            done = batch.done
            if not done:
                batch.callbacks.append(callback)
        if done:
            callback()


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def call_back(machine: ProducerMachine, driver: Driver, guard: AbstractContextManager[Any]) -> None:
    """Tell those who wait for batches that are done, and the log; callbacks run without the lock."""
    log_notes(machine.notes, PRODUCER_LOG)
    if driver.failure is not None:
        with guard:
            machine.sender.abort(driver.failure)
    if machine.sender.completed:
        completed, machine.sender.completed = machine.sender.completed, []
        for batch in completed:
            for callback in batch.callbacks:
                callback()
