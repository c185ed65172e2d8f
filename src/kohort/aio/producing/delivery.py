"""Result of ``send``: the caller can query it, wait for it, or add a callback."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from kohort.aio.driver import PRODUCER_LOG, Driver, end_wait, log_notes
from kohort.aio.other_names import OF_DELIVERIES, OtherNames
from kohort.client.producer import ProducerMachine, RecordMetadata, record_metadata, resolve
from kohort.client.user_input import checked_ms
from kohort.client.writing.produce_batch import ProduceBatch
from kohort.errors import ApiTimeout, KohortError

log = logging.getLogger(__name__)


class Delivery(OtherNames, msgspec.Struct, eq=False):
    """Result of ``send``: partition of the record, and after its delivery the offset or the error.

    ``send_batch``, ``send_prebuilt`` and ``send_arrow`` return one Delivery for each batch. It is done when each record
    of the batch is delivered or has failed. It has the error of the first failed record, or else the offset of the
    last record.

    Query it with ``done``, wait with ``result`` or ``await``, or add a callback. With ``acks=0`` a record counts as
    delivered as soon as it is sent.
    """

    other_names = OF_DELIVERIES
    _batch: ProduceBatch
    _index: int
    _owner: Owner
    _first: int | None = None
    """Position of the first record in the batch, for a delivery of many records; None for a delivery of one record."""

    @property
    def topic(self) -> str:
        """Topic of the sent record."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """Partition of the sent record."""
        return self._batch.partition

    def _parts(self) -> Iterator[ProduceBatch]:
        """Yield the batches that contain the delivery's records: several if the producer has split a batch."""
        index = self._index if self._first is None else self._first
        while index <= self._index:
            part, at = resolve(self._batch, index)
            yield part
            index += part.count - at

    def _unfinished(self) -> ProduceBatch | None:
        return next((part for part in self._parts() if not part.done), None)

    def done(self) -> bool:
        """Return True if the record was delivered or has failed."""
        return self._unfinished() is None

    def exception(self) -> KohortError | None:
        """Return the error of a failed record; None if the record is delivered or in flight. Does not wait."""
        if self._first is not None:
            errors = (next(iter(part.refused.values()), part.error) for part in self._parts())
            return next((error for error in errors if error is not None), None)
        batch, index = resolve(self._batch, self._index)
        return batch.error_of(index)

    def _position(self) -> RecordMetadata:
        error = self.exception()
        if error is not None:
            raise error
        return record_metadata(self._batch, self._index)

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait until the record is delivered, and return its partition and offset.

        Raises ApiTimeout after ``timeout_ms`` ms (None: ``delivery.timeout.ms``); the producer continues to send the
        record. Raises the error of a failed record: ApiError if a broker refused this record, RecordsRefused if it
        refused another record of the batch (KIP-467), ConnectionFailed, ApiTimeout or TransactionFailed. Raises
        UsageError on the I/O thread.
        """
        timeout_s = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms) / 1000
        while (batch := self._unfinished()) is not None:
            self._owner.check_thread()
            event = threading.Event()
            self._owner.call_when_done(batch, event.set)
            if not event.wait(timeout_s):
                why = f" (attempt {batch.attempts}; the last failed: {batch.last_error})" if batch.last_error else ""
                raise ApiTimeout(
                    f"no response for {batch.topic}-{batch.partition} after {timeout_ms} ms; sending continues{why}"
                )
        return self._position()

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call ``callback`` with this delivery when the record is delivered or has failed.

        If the record is delivered or has failed already, the callback runs now in this thread. Otherwise it runs on the
        I/O thread (``AsyncProducer``: on the event loop) and must not block. Its errors are logged.
        """
        batch = self._unfinished() or self._batch

        def run() -> None:
            if not self.done():  # the producer split the batch, and a part of the batch is in flight
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
                loop.call_soon_threadsafe(end_wait, future)

            self._owner.call_when_done(batch, wake)
            yield from future.__await__()
        return self._position()

    def __repr__(self) -> str:
        if not self.done():
            state = "in flight"
        else:
            state = str(error) if (error := self.exception()) else f"offset {self._position().offset}"
        return f"<Delivery to {self.topic}-{self.partition}: {state}>"


class Owner:
    """Lock of a producer, and checks of the calling thread and process, for the producer's deliveries."""

    def __init__(
        self,
        guard: AbstractContextManager[Any],
        *,
        check_thread: Callable[[], None] = lambda: None,
        check_process: Callable[[], None] = lambda: None,
    ) -> None:
        self.guard = guard
        self.check_thread = check_thread
        """Function that raises UsageError on the I/O thread, where waiting would deadlock."""
        self.check_process = check_process
        """Function that raises UsageError in a forked child process."""

    def call_when_done(self, batch: ProduceBatch, callback: Callable[[], None]) -> None:
        """Call ``callback`` when ``batch`` is delivered or has failed. For a finished batch call it now."""
        with self.guard:
            done = batch.done
            if not done:
                batch.callbacks.append(callback)
        if done:
            callback()


def run_callbacks(machine: ProducerMachine, driver: Driver, guard: AbstractContextManager[Any]) -> None:
    """Run the callbacks of finished batches without the lock, and write the producer's unwritten log lines."""
    log_notes(machine.notes, PRODUCER_LOG)
    if driver.failure is not None:
        with guard:
            machine.sender.abort(driver.failure)
    if machine.sender.completed:
        completed, machine.sender.completed = machine.sender.completed, []
        for batch in completed:
            for callback in batch.callbacks:
                callback()
