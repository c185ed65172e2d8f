"""The producer for ordinary code: it hands records to the machine, which the I/O thread keeps going."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.driver import Driver
from kohort.aio.finalizers import deliver_rest
from kohort.aio.io_thread import EXIT_GRACE_S, io_thread
from kohort.aio.other_names import OF_PRODUCERS, OtherNames
from kohort.aio.producing.arrow_rows import Rows
from kohort.aio.producing.delivery import Delivery, Owner, call_back
from kohort.aio.producing.fair_lock import let_others_run
from kohort.aio.producing.record_forms import Headers, RecordLike, Text, checked_lots, time_of_record
from kohort.aio.producing.transactions import Offsets, checked_offsets, not_ended
from kohort.aio.system import system_rng, wall_ms
from kohort.client.producer import ProducerMachine, check_partition, to_bytes, to_headers
from kohort.client.requests.promise import Promise
from kohort.client.user_input import checked_ms
from kohort.client.writing.produce_batch import RECORD_OVERHEAD, ProduceBatch
from kohort.config.client import ProducerConfig, client_config
from kohort.errors import ApiError, ConnectionFailed, KohortError, ProducerFenced, TransactionFailed, UsageError
from kohort.model import GroupMetadata

if TYPE_CHECKING:
    import pyarrow

REFILL_AT: Final = 0.75
"""A full buffer takes records again once it is filled to this share, so that senders do not wake for each batch."""
CLOSE_MS: Final = 30_000


class Producer(OtherNames):
    """``Producer(bootstrap_servers="localhost:9092")``; options by Kafka's names, with underscores or in a mapping.

    Safe to share between threads. ``send`` returns at once unless metadata or room must be waited for
    (``max.block.ms``); what became of the record is the Delivery's to tell.
    """

    other_names = OF_PRODUCERS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self.config = client_config(ProducerConfig, config, options)
        self._machine = ProducerMachine(self.config, system_rng())
        self._accumulator = self._machine.accumulator
        self._metadata = self._machine.metadata
        self._transactions = self._machine.transactions
        self._engine = self._machine.engine
        self._lock = threading.RLock()
        self._gate = threading.Lock()
        self._io = io_thread()
        self._owner = Owner(self._lock, self._io.check_thread)
        machine, lock = self._machine, self._lock
        driver = self._driver = self._io.call_now(lambda: Driver(machine.engine, guard=lock))
        self._now_ms = driver.clock.now_ms
        driver.on_progress(lambda: call_back(machine, driver, lock))  # not holding the producer itself
        self._closed = False
        self._first_unkeyed = 0
        self._io.close_at_exit(self, timeout_ms=int(EXIT_GRACE_S * 1000))

    def send(
        self,
        topic: str,
        value: Text = None,
        key: Text = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Hand over one record. Without ``partition`` its key decides, or without a key the producer does.

        Raises ApiTimeout if the topic's partitions are not known, or the buffer has no room, within ``max.block.ms``;
        UsageError for what cannot be a record.
        """
        if value is not None and type(value) is not bytes:
            value = to_bytes("value", value)
        if key is not None and type(key) is not bytes:
            key = to_bytes("key", key)
        if headers:
            headers = to_headers(headers)
        partitions = self._metadata.partition_count(topic)
        if partitions is None:
            partitions = self._wait_for_topic(topic)
        if self._accumulator.full:
            self._wait_for_room()
        at_ms, now_ms = time_of_record(timestamp_ms), self._now_ms()
        gate, driver = self._gate, self._driver
        is_first = gate.acquire(False) or let_others_run(gate)
        try:
            with self._lock:
                if self._closed or self._transactions is not None or driver.failure is not None:
                    self._check_open()
                if partition is None:
                    size = RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
                    partition = self._machine.choose(topic, key, size, partitions)
                else:
                    check_partition(topic, partition, partitions)
                batch, index, news = self._accumulator.append(
                    topic,
                    partition,
                    key,
                    value,
                    headers,  # type: ignore[arg-type]  # checked pairs by now
                    at_ms,
                    now_ms,
                )
                if news:  # unless the engine wakes in time by itself; it is late where the machine has slept
                    wake_at_ms = self._engine.wake_at_ms
                    news = batch.full or wake_at_ms is None or not now_ms < wake_at_ms <= batch.ready_at_ms
        finally:
            if is_first:
                gate.release()
        if news:
            driver.kick_soon()
        return Delivery(batch, index, self._owner)

    def send_batch(self, topic: str, partition: int, records: Iterable[RecordLike]) -> list[Delivery]:
        """Hand over many records for one partition: values, or tuples (key, value[, headers[, timestamp_ms]]).

        Returns the delivery of the last record of each batch that they fell into: when these are delivered, all are.
        """
        partitions = self._partitions(topic)
        check_partition(topic, partition, partitions)
        last: dict[int, tuple[ProduceBatch, int]] = {}
        for lot in checked_lots(records, wall_ms):
            self._room()
            with self._lock:
                self._check_closed()
                for batch, index in self._machine.add_lot(topic, partition, lot, self._now_ms()):
                    last[id(batch)] = (batch, index)
            self._driver.kick_soon()
        return [Delivery(batch, index, self._owner) for batch, index in last.values()]

    def send_prebuilt(self, topic: str, partition: int, batch: bytes) -> Delivery:
        """Hand over one whole record batch (format 2) as bytes; its records are passed on untouched."""
        partitions = self._partitions(topic)
        check_partition(topic, partition, partitions)
        self._room()
        with self._lock:
            self._check_closed()
            made = self._machine.add_prebuilt(topic, partition, batch, self._driver.clock.now_ms())
        self._driver.kick_soon()
        return Delivery(made, made.count - 1, self._owner)

    def send_arrow(
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
        """Hand over the rows of an Arrow table, encoded column by column (extra ``kohort[arrow]``).

        Each option names the column to take; only the value's must be there. Rows go by their partition, else by their
        key as ``send`` does. Returns the delivery of the last row of each batch.
        """
        rows = Rows(table, value, key, headers, timestamp, partition)
        partitions = self._partitions(topic)
        batches = rows.encoded(self.config, partitions, self._driver.clock.now_ms(), self._first_unkeyed)
        self._first_unkeyed += 1
        return [self.send_prebuilt(topic, batch.partition, batch.data) for batch in batches]

    def partitions_for(self, topic: str) -> int:
        """How many partitions ``topic`` has, asked of the cluster if need be."""
        return self._partitions(topic)

    def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until everything handed over is delivered or failed. Raises ApiTimeout after ``timeout_ms``."""
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        with self._lock:
            self._accumulator.flush()
        machine = self._machine
        if not self._io.call(lambda: self._driver.until(lambda: machine.is_idle or None, limit_ms)):
            raise machine.not_done(limit_ms)

    # Transactions, as of KIP-98 and KIP-447

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Take over the ``transactional.id``: once, before the first transaction.

        An earlier producer of that name is fenced, what it left open is aborted. Raises ApiTimeout when the coordinator
        has not answered after ``timeout_ms`` (default: ``max.block.ms``), UsageError without a ``transactional.id``.
        """
        self._settle("init_transactions()", lambda: self._machine.transactional().init(), timeout_ms)

    def begin_transaction(self) -> None:
        """What is sent from now on counts together: when it is committed, or not at all."""
        with self._lock:
            self._check_closed()
            self._machine.transactional().begin()

    def send_offsets_to_transaction(
        self, offsets: Offsets, group: GroupMetadata, timeout_ms: int | None = None
    ) -> None:
        """Commit a group's offsets with the transaction: ``group`` is what ``consumer.group_metadata()`` says.

        Raises TransactionFailed if the member is not in its group any more: abort then, and poll.
        """
        checked = checked_offsets(offsets)
        self._settle(
            "send_offsets_to_transaction()",
            lambda: self._machine.transactional().send_offsets(checked, group),
            timeout_ms,
        )

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Deliver what was sent, then make it count.

        Raises TransactionFailed if something was lost (abort then), ProducerFenced if the transactional id was,
        ApiTimeout after ``timeout_ms`` (default: ``max.block.ms``): it may be committed by now, so call this again.
        """
        self._settle("commit_transaction()", self._machine.commit_transaction, timeout_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Nothing that was sent in this transaction counts; what was not delivered yet fails with TransactionFailed."""
        self._settle("abort_transaction()", lambda: self._machine.transactional().abort(), timeout_ms)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """``with producer.transaction(): ...`` commits at its end, and aborts if anything was raised within."""
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            self._abort_after(error)
            raise
        try:
            self.commit_transaction()
        except TransactionFailed as error:
            self._abort_after(error)
            raise

    def _abort_after(self, error: BaseException) -> None:
        """Raises ProducerFenced where ``error`` is but a sign of it: brokers do not know the owner of an id, its
        coordinator does."""
        try:
            self.abort_transaction()
        except ProducerFenced as fenced:
            if isinstance(error, TransactionFailed | ApiError):
                raise fenced from error
        except KohortError:
            pass  # what was raised first says more

    def _settle(self, what: str, ask: Callable[[], Promise[None]], timeout_ms: int | None) -> None:
        limit_ms = self.config.max_block_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        with self._lock:
            self._check_closed()
            promise = ask()
        if not self._io.call(lambda: self._driver.until(lambda: promise.done or None, limit_ms)):
            raise not_ended(what, limit_ms, self._machine.engine)
        promise.result()

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Deliver what was handed over, for at most ``timeout_ms``, then end. What is left fails.

        A transaction that is open is aborted. In a child process that has it by a fork this does nothing.
        """
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        if not self._io.is_here:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._machine.end_open()
        self._io.forget(self)
        try:
            self.flush(limit_ms)
        finally:
            with self._lock:
                self._machine.sender.abort(ConnectionFailed("the producer was closed before the record was delivered"))
            self._io.call(self._driver.close)

    def inherited(self) -> None:
        """See ``Closeable``."""
        self._lock = self._owner.guard = threading.RLock()
        self._gate = threading.Lock()
        self._closed = True

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._io.is_here:
            deliver_rest("a Producer", self._machine, self._driver, self._lock, self._io.finish)

    def _check_closed(self) -> None:
        self._io.check_process()
        if self._closed:
            raise UsageError("the producer is closed")
        if self._driver.failure is not None:
            raise self._driver.failure

    def _check_open(self) -> None:
        self._check_closed()
        self._machine.check_may_send()

    def _partitions(self, topic: str) -> int:
        known = self._metadata.partition_count(topic)
        return self._wait_for_topic(topic) if known is None else known

    def _room(self) -> None:
        if self._accumulator.full:
            self._wait_for_room()

    def _wait_for_topic(self, topic: str) -> int:
        self._check_closed()
        timeout_ms = self.config.max_block_ms
        found = self._io.call(lambda: self._driver.until(lambda: self._machine.partitions(topic), timeout_ms))
        if found is None:
            raise self._machine.no_topic(topic, timeout_ms)
        return found

    def _wait_for_room(self) -> None:
        timeout_ms = self.config.max_block_ms
        enough = int(self.config.buffer_memory * REFILL_AT)
        buffer = self._accumulator
        self._driver.kick_soon()
        found = self._io.call(
            lambda: self._driver.until(lambda: True if buffer.buffered_bytes <= enough else None, timeout_ms)
        )
        if found is None and buffer.full:
            raise self._machine.no_room(timeout_ms)
