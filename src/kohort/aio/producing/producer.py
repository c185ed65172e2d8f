"""The blocking producer: the caller's thread adds records to a buffer, and the I/O thread sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from kohort.aio.calls import blocking, run_call
from kohort.aio.driver import Driver
from kohort.aio.finalizers import deliver_dropped
from kohort.aio.io_thread import EXIT_GRACE_S, io_thread
from kohort.aio.other_names import OF_PRODUCERS, OtherNames
from kohort.aio.producing.delivery import Delivery, Owner
from kohort.aio.producing.producer_calls import Call, Fetch, ProducerCalls, Wait
from kohort.aio.producing.record_forms import ArrowRows, Headers, Text, time_of_record
from kohort.aio.system import system_rng, wall_ms
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import producer_metrics
from kohort.client.producer import ProducerMachine, check_partition, to_bytes, to_headers
from kohort.client.user_input import checked_ms
from kohort.client.writing.produce_batch import RECORD_OVERHEAD
from kohort.config.client import ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import ConnectionFailed, TransactionFailed
from kohort.schemas.serde import resolved
from kohort.wire.record_batch import NewRecord

if TYPE_CHECKING:
    import pyarrow

    from kohort.aio.option_types import ProducerOptions

R = TypeVar("R")
REFILL_AT: Final = 0.75
"""After the buffer was full, it accepts records again when only this fraction of ``buffer.memory`` is in use."""
CLOSE_MS: Final = 30_000
TRIES: Final = 4


def acquire_with_retries(outer_lock: threading.Lock) -> bool:
    """Try several times to acquire the locked ``outer_lock``, and release the GIL before each try.

    Returns True if the lock was acquired. Without an outer lock, a thread that waits for the inner lock gets it while
    another thread runs, and then waits for the GIL while it holds the inner lock. So the running thread blocks on that
    lock, too, and each use of it costs two thread switches: several threads would together do a quarter of the work
    that one thread does.

    Only the inner lock protects the producer. An interrupted thread may leave the outer lock locked, and a signal
    handler may interrupt the thread that holds it: a thread may wait for it only a limited time.
    """
    for _ in range(TRIES):
        time.sleep(0)  # release the GIL, so that the thread that holds the lock can continue
        if outer_lock.acquire(blocking=False):
            return True
    return False


class Producer(OtherNames):
    """Producer, usable in ``with``: ``Producer(bootstrap_servers="localhost:9092")``.

    Options have the names of Kafka's producer: keyword arguments with underscores, or a mapping with dots. Threads may
    share the producer. ``send`` waits at most ``max.block.ms``, and only for metadata or for free ``buffer.memory``;
    the returned ``Delivery`` reports the outcome.

    Raises ConfigError for an unknown option or an invalid value. Every call raises UsageError if the producer is
    closed, and in a child process after ``fork()``. In a callback on the I/O thread, every call that has to wait raises
    UsageError.
    """

    other_names = OF_PRODUCERS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerOptions]) -> None:
        self.config = client_config(ProducerConfig, config, options)
        self._machine = ProducerMachine(self.config, system_rng())
        self._accumulator = self._machine.accumulator
        self._metadata = self._machine.metadata
        self._transactions = self._machine.transactions
        self._lock = threading.RLock()
        self._outer_lock = threading.Lock()
        self._io = io_thread()
        self._owner = Owner(self._lock, check_thread=self._io.check_thread, check_process=self._io.check_process)
        self._calls = ProducerCalls(self._machine, self._owner, kick=Driver.kick_soon, refill_at=REFILL_AT)
        self._driver = self._calls.driver = self._io.call_now(self._calls.new_driver)
        self._now_ms = self._driver.clock.now_ms
        self._io.close_at_exit(self, timeout_ms=int(EXIT_GRACE_S * 1000))
        self._serializers = self._calls.serializers

    def send(
        self,
        topic: str,
        value: Text | Any = None,
        key: Text | Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer a record for sending, and return its Delivery.

        Without ``partition`` the hash of the key selects the partition; without a key the producer selects one
        (KIP-794). Strings are sent as UTF-8, other types as ``key_serializer`` and ``value_serializer`` convert them.
        ``headers``: pairs (name, value) or a mapping. ``timestamp_ms``: ms since 1970, default now.

        Raises ApiTimeout if the topic's partitions stay unknown, or the buffer stays full, for ``max.block.ms``;
        ApiError for a topic that cannot be written, or with MESSAGE_TOO_LARGE; UsageError for an invalid record, or one
        that a serializer rejects; SchemaRegistryError for a schema that its registry refuses. With a
        ``transactional.id`` it also raises UsageError outside of a transaction, TransactionFailed if the transaction
        must be aborted, and ProducerFenced.
        """
        if headers:
            headers = to_headers(headers)
        if self._serializers is not None:
            key, value, headers = resolved(partial(self._serializers.record, topic, key, value, headers))
        if value is not None and type(value) is not bytes:
            value = to_bytes("value", value)
        if key is not None and type(key) is not bytes:
            key = to_bytes("key", key)
        partitions = self._metadata.partition_count(topic) or self._run(self._calls.partitions_for(topic))
        if self._accumulator.full:
            self._run(self._calls.room())
        at_ms = wall_ms() if timestamp_ms is None else time_of_record(timestamp_ms)
        outer_lock, driver = self._outer_lock, self._driver
        is_first = outer_lock.acquire(False) or acquire_with_retries(outer_lock)
        try:
            with self._lock:
                if self._calls.closed or self._transactions is not None or driver.failure is not None:
                    self._calls.may_send()
                if partition is not None:
                    check_partition(topic, partition, partitions)
                elif partitions == 1:
                    partition = 0
                else:
                    size = RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
                    partition = self._machine.choose(topic, key, size, partitions)
                append = self._accumulator.append
                placed = append(topic, partition, key, value, headers, at_ms, None)  # type: ignore[arg-type]  # checked above
                if placed is None:
                    record = NewRecord(key, value, headers, at_ms)  # type: ignore[arg-type]  # checked above
                    batch, index, wake = self._machine.add(topic, partition, record, self._now_ms())
                else:
                    batch, index, wake = placed  # append() wakes the sender thread only for a full batch
        finally:
            if is_first:
                outer_lock.release()
        if wake:
            driver.kick_soon()
        return Delivery(batch, index, self._owner)

    send_batch = blocking(ProducerCalls.send_batch)
    send_prebuilt = blocking(ProducerCalls.send_prebuilt)
    partitions_for = blocking(ProducerCalls.partitions_for)
    flush = blocking(ProducerCalls.flush)

    def send_arrow(
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
        """Buffer the rows of an Arrow table as records; needs ``kohort[arrow]``.

        ``table``: a pyarrow Table, RecordBatch or RecordBatchReader, or a data frame with ``__arrow_c_stream__``. The
        other arguments are names of columns; only the value column is required. Without a partition column, keys select
        partitions as in ``send``. Returns a delivery for each batch. Raises the errors of ``send``, UsageError for a
        missing value column or a wrong type, and MissingExtra without pyarrow. After an error or a cancellation, some
        rows may be buffered.
        """
        rows = ArrowRows(table, value, key, headers, timestamp, partition)
        batches = self._run(self._calls.encoded(topic, rows))
        return [self.send_prebuilt(topic, batch.partition, batch.data) for batch in batches]

    def metrics(self) -> MetricsSnapshot:
        """Return the metrics of this producer, under Kafka's names (docs/guides/client-metrics.md).

        Sends no request. May be called from any thread, also after ``close``.
        """
        with self._lock:
            return producer_metrics(self._machine, self._now_ms())

    # Methods for transactions, see KIP-98 and KIP-447

    init_transactions = blocking(ProducerCalls.init_transactions)
    send_offsets_to_transaction = blocking(ProducerCalls.send_offsets_to_transaction)
    commit_transaction = blocking(ProducerCalls.commit_transaction)
    abort_transaction = blocking(ProducerCalls.abort_transaction)

    def begin_transaction(self) -> None:
        """Begin a transaction. A commit makes all records of the transaction visible, an abort none of them.

        Raises UsageError before ``init_transactions`` and while a transaction is open. Raises ProducerFenced.
        """
        self._calls.begin_transaction()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block in a transaction: ``with producer.transaction(): ...``.

        The end of the block commits the transaction. An error in the block aborts the transaction and is raised. Also
        raises the errors of ``begin_transaction`` and ``commit_transaction``.
        """
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            self._run(self._calls.abort_after(error))
            raise
        try:
            self.commit_transaction()
        except TransactionFailed as error:
            self._run(self._calls.abort_after(error))
            raise

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Deliver the buffered records and close the connections.

        After ``timeout_ms`` ms the records that are still undelivered fail, and the call raises ApiTimeout. Aborts an
        open transaction. A second call, and a call in a child process after ``fork()``, has no effect.
        """
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        if not self._io.is_here:
            return
        with self._lock:
            if self._calls.closed:
                return
            self._calls.closed = True
            self._machine.abort_open_transaction()
        self._io.forget(self)
        try:
            self.flush(limit_ms)
        finally:
            with self._lock:
                self._machine.sender.abort(ConnectionFailed("the producer was closed before the record was delivered"))
            self._io.call(self._driver.close)

    def after_fork(self) -> None:
        """Replace the locks in a child process after ``fork()``, and close the producer there."""
        self._lock = self._owner.guard = threading.RLock()
        self._outer_lock = threading.Lock()
        self._calls.closed = True

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        driver: Driver | None = getattr(self, "_driver", None)
        if driver is not None and not self._calls.closed and self._io.is_here:
            deliver_dropped("a Producer", self._machine, driver, self._lock, self._io.finish)

    def _run(self, call: Call[R]) -> R:
        driver = self._driver

        def wait_out(wait: Wait | Fetch) -> Any:
            if isinstance(wait, Fetch):
                return wait.needed.fetch()
            return self._io.call(lambda: driver.until(wait.ready, wait.timeout_ms))

        return run_call(call, wait_out)
