"""Producer methods that the blocking and the asyncio API share; ``send`` is separate in each API."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kohort.aio.driver import Driver
from kohort.aio.producing.delivery import Delivery, Owner, run_callbacks
from kohort.aio.producing.record_forms import CHUNK, ArrowRows, RecordLike, checked_lots
from kohort.aio.schema_registry import registry_of
from kohort.aio.system import SystemClock, wall_ms
from kohort.aio.tls.contexts import tls_of
from kohort.client.producer import ProducerMachine, check_partition
from kohort.client.requests.source import Promise
from kohort.client.user_input import checked_ms, offsets_to_commit
from kohort.client.writing.produce_batch import ProduceBatch
from kohort.client.writing.serializing import NOT_FOR_ARROW, Serializers
from kohort.errors import ApiError, ApiTimeout, KohortError, ProducerFenced, TransactionFailed, UsageError
from kohort.model import GroupMetadata, OffsetAndMetadata, TopicPartition
from kohort.schemas.serde import SchemaNeeded

if TYPE_CHECKING:
    from kohort.columns.encode import EncodedBatch

R = TypeVar("R")
Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class Wait(NamedTuple):
    """Wait request: wait until ``ready`` returns a value, at most ``timeout_ms`` (None: no limit)."""

    ready: Callable[[], Any]
    timeout_ms: int | None


class Fetch(NamedTuple):
    """Wait request: get a schema from its registry."""

    needed: SchemaNeeded


Call = Generator[Wait | Fetch, Any, R]
"""Generator of a producer call. A Wait returns the value of ``ready``, or None after ``timeout_ms``."""


class ProducerCalls:
    """Methods of both producer APIs. The producer's lock protects the state that producer and deliveries share.

    ``kick`` wakes the driver from the caller's thread. ``refill_at``: a full buffer accepts records again below this
    part of ``buffer.memory``.
    """

    def __init__(
        self, machine: ProducerMachine, owner: Owner, *, kick: Callable[[Driver], None], refill_at: float = 1.0
    ) -> None:
        self.machine = machine
        self.tls = tls_of(machine.config)
        self.driver: Driver | None = None
        self.clock = SystemClock()
        self.closed = False
        self.serializers = Serializers.of(machine.config, registry_of(machine.config))
        self._owner = owner
        self._kick = kick
        self._enough_bytes = int(machine.config.buffer_memory * refill_at)
        self._first_unkeyed = 0

    def running(self) -> Driver:
        """Return the producer's driver; the first call creates it.

        Raises UsageError if the producer is closed, and in a forked child process. Raises the error of a failed driver.
        """
        self._owner.check_process()
        if self.closed:
            raise UsageError("the producer is closed")
        if self.driver is None:
            self.driver = self.new_driver()
        if self.driver.failure is not None:
            raise self.driver.failure
        return self.driver

    def new_driver(self) -> Driver:
        """Create a driver that runs the callbacks of deliveries. Call it on the driver's event loop."""
        machine, guard = self.machine, self._owner.guard
        driver = Driver(machine.engine, tls=self.tls, clock=self.clock, guard=guard)
        # a reference to the producer itself would prevent its garbage collection
        driver.on_progress(lambda: run_callbacks(machine, driver, guard))
        return driver

    def may_send(self) -> Driver:
        """Return the producer's driver. Raises the errors of ``running`` and ``check_may_send``."""
        driver = self.running()
        self.machine.check_may_send()
        return driver

    def partitions_for(self, topic: str) -> Call[int]:
        """Return the number of partitions of ``topic``; request it from a broker if it is unknown.

        Raises ApiTimeout after ``max.block.ms``, and ApiError for an unavailable topic.
        """
        found = self.machine.metadata.partition_count(topic)
        if found is None:
            self.running()
            timeout_ms = self.machine.config.max_block_ms
            found = yield from self._timed("metadata", Wait(lambda: self.machine.partitions(topic), timeout_ms))
            if found is None:
                raise self.machine.no_topic_error(topic, timeout_ms)
        return found

    def room(self) -> Call[None]:
        """Wait until the buffer (``buffer.memory``) has free space. Raises ApiTimeout after ``max.block.ms``."""
        buffer = self.machine.accumulator
        if not buffer.full:
            return
        self._kick(self.running())
        timeout_ms = self.machine.config.max_block_ms
        enough = self._enough_bytes
        drained = Wait(lambda: True if buffer.buffered_bytes <= enough and not buffer.full else None, timeout_ms)
        yield from self._timed("buffer", drained)
        if buffer.full:
            self.machine.sender.metrics.buffer_full.record(1, self.clock.now_ms())
            raise self.machine.buffer_full_error(timeout_ms)

    def send_batch(self, topic: str, partition: int, records: Iterable[RecordLike | Any]) -> Call[list[Delivery]]:
        """Buffer many records for one partition: values, or tuples (key, value[, headers[, timestamp_ms]]).

        Returns a delivery for each batch that contains some of these records. Raises the errors of ``send``. After an
        error or a cancellation, some records may be buffered.
        """
        driver = self.may_send()
        check_partition(topic, partition, (yield from self.partitions_for(topic)))
        placed: dict[int, tuple[ProduceBatch, int, int]] = {}
        given = iter(records)
        while chunk := list(islice(given, CHUNK)):
            if self.serializers is not None:
                chunk = yield from self._serialized(topic, chunk)
            (lot,) = checked_lots(chunk, wall_ms)
            yield from self.room()
            with self._owner.guard:
                self.running()
                for batch, first, last in self.machine.add_columns(topic, partition, lot, driver.clock.now_ms()):
                    placed[id(batch)] = (batch, placed.get(id(batch), (batch, first))[1], last)
            self._kick(driver)
        return [Delivery(batch, last, self._owner, first) for batch, first, last in placed.values()]

    def _serialized(self, topic: str, records: list[Any]) -> Call[list[Any]]:
        assert self.serializers is not None
        found: list[Any] = []
        while len(found) < len(records):
            try:
                found += [self.serializers.in_batch(topic, record) for record in records[len(found) :]]
            except SchemaNeeded as needed:
                yield Fetch(needed)
        return found

    def send_prebuilt(self, topic: str, partition: int, batch: bytes) -> Call[Delivery]:
        """Buffer the bytes of a complete record batch (magic 2), which the producer sends unchanged.

        Returns one delivery for all records of the batch. Raises the errors of ``send``, and CorruptRecord for an
        invalid batch.
        """
        driver = self.may_send()
        check_partition(topic, partition, (yield from self.partitions_for(topic)))
        yield from self.room()
        with self._owner.guard:
            self.running()
            added = self.machine.add_prebuilt(topic, partition, batch, driver.clock.now_ms())
        self._kick(driver)
        return Delivery(added, added.count - 1, self._owner, 0)

    def encoded(self, topic: str, rows: ArrowRows) -> Call[Iterator[EncodedBatch]]:
        """Return an iterator over record batches of Arrow rows. It encodes a batch when the batch is requested."""
        now_ms = self.running().clock.now_ms()
        if self.serializers is not None:
            raise UsageError(NOT_FOR_ARROW)
        partitions = yield from self.partitions_for(topic)
        batches = rows.encoded(self.machine.config, partitions, now_ms, self._first_unkeyed)
        self._first_unkeyed += 1
        return batches

    def flush(self, timeout_ms: int | None = None) -> Call[None]:
        """Wait until all buffered records are delivered or have failed. Raises ApiTimeout after ``timeout_ms`` ms."""
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        machine = self.machine
        with self._owner.guard:
            machine.accumulator.flush()
        if not (yield from self._timed("flush", Wait(lambda: machine.is_idle or None, limit_ms))):
            raise machine.not_delivered_error(limit_ms)

    def init_transactions(self, timeout_ms: int | None = None) -> Call[None]:
        """Register the ``transactional.id``; required once, before the first transaction (KIP-98).

        Fences an older producer with the same id and aborts its open transaction. Raises ApiTimeout if no response
        arrives within ``timeout_ms`` ms (default: ``max.block.ms``), UsageError without a ``transactional.id``, and
        ApiError if the coordinator refuses.
        """
        return self._request_coordinator("init_transactions()", lambda: self.machine.transactional().init(), timeout_ms)

    def begin_transaction(self) -> None:
        with self._owner.guard:
            self.running()
            self.machine.transactional().begin()

    def send_offsets_to_transaction(
        self, offsets: Offsets, group: GroupMetadata, timeout_ms: int | None = None
    ) -> Call[None]:
        """Commit a group's offsets with the transaction (KIP-447); ``group`` is ``consumer.group_metadata()``.

        An int is an offset without metadata. Raises TransactionFailed if the consumer is no longer a member of the
        group: then abort the transaction, and poll. Raises ProducerFenced, ApiTimeout after ``timeout_ms`` ms (default:
        ``max.block.ms``), and UsageError outside of a transaction.
        """
        checked = offsets_to_commit("send_offsets_to_transaction", offsets)
        return self._request_coordinator(
            "send_offsets_to_transaction()",
            lambda: self.machine.transactional().send_offsets(checked, group),
            timeout_ms,
        )

    def commit_transaction(self, timeout_ms: int | None = None) -> Call[None]:
        """Deliver all records of the transaction, then commit it.

        Raises TransactionFailed if a record failed: then abort the transaction. Raises ProducerFenced, and UsageError
        outside of a transaction. Raises ApiTimeout after ``timeout_ms`` ms (default: ``max.block.ms``): then call
        ``commit_transaction`` again, because the commit may have succeeded.
        """
        return self._request_coordinator("commit_transaction()", self.machine.commit_transaction, timeout_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> Call[None]:
        """Abort the transaction: its records never become visible, and undelivered records fail with TransactionFailed.

        Raises ProducerFenced, and UsageError outside of a transaction. Raises ApiTimeout after ``timeout_ms`` ms
        (default: ``max.block.ms``): then call ``abort_transaction`` again.
        """
        return self._request_coordinator(
            "abort_transaction()", lambda: self.machine.transactional().abort(), timeout_ms
        )

    def abort_after(self, error: BaseException) -> Call[None]:
        """Abort the transaction of a block that raised ``error``.

        Raises ProducerFenced if the coordinator reports that another producer with the transactional id caused
        ``error``.
        """
        try:
            yield from self.abort_transaction(None)
        except ProducerFenced as fenced:
            if isinstance(error, TransactionFailed | ApiError):
                raise fenced from error
        except KohortError:
            pass  # the user gets the error of the block, which says more than the error of the abort

    def _timed(self, call: str, wait: Wait) -> Call[Any]:
        began_ms = self.clock.now_ms()
        try:
            return (yield wait)
        finally:
            self.machine.sender.metrics.blocked_ms[call] += self.clock.now_ms() - began_ms

    def _request_coordinator(self, name: str, ask: Callable[[], Promise[None]], timeout_ms: int | None) -> Call[None]:
        """Send a transaction request to the coordinator and wait for the response.

        Raises the error of the response. Raises ApiTimeout after ``timeout_ms`` (default: ``max.block.ms``), and
        AuthenticationFailed if all brokers refuse the login; after these two errors the client continues to retry.
        """
        limit_ms = self.machine.config.max_block_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        with self._owner.guard:
            self.running()
            promise = ask()

        def answered() -> bool | None:
            why = self.machine.engine.login_error
            if why is not None and not promise.done:
                raise why
            return promise.done or None

        if not (yield from self._timed(name, Wait(answered, limit_ms))):
            why = self.machine.engine.describe_addresses(limit_ms)
            text = f"no response to {name} within {limit_ms} ms; retries continue: call it again"
            raise ApiTimeout(f"{text}; failed so far: {why}" if why else text)
        promise.result()
