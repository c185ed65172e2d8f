"""Producer logic without I/O: choose partitions, fill batches, return the results of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.client.reading.topic_watch import TopicWatch
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.client.requests.source import Promise, RequestSource
from kohort.client.user_input import is_text, known_partitions, shown, whole_number
from kohort.client.writing.accumulator import Accumulator, SendColumns
from kohort.client.writing.partitioner import StickyPartitioner, partitioner_of
from kohort.client.writing.produce_batch import ProduceBatch, prebuilt, record_timestamp
from kohort.client.writing.producer_ids import ProducerIds
from kohort.client.writing.sender import Sender
from kohort.client.writing.transactions import Transactions
from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import ApiTimeout, KohortError, UsageError
from kohort.model import Header
from kohort.wire.record_batch import NewRecord


class RecordMetadata(NamedTuple):
    """Topic, partition, offset and timestamp of a written record.

    ``offset`` is -1 with ``acks=0``, or if the broker already had the batch. ``timestamp_ms`` is the record's time in
    ms since 1970: the timestamp given to ``send``, or the time of the append if the topic's ``message.timestamp.type``
    is LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ProducerMachine:
    """Producer logic without sockets, threads and clock; the blocking and the asyncio producer run it."""

    def __init__(self, config: ProducerConfig, rng: Rng) -> None:
        self.config = config
        self.metadata = Metadata(config, rng)
        self.notes = Notes()
        outages = Outages(self.notes)
        self.accumulator = Accumulator(config)
        self.transactions: Transactions | None = None
        numbering: Transactions | ProducerIds | None = None
        if config.transactional_id is not None:
            numbering = self.transactions = Transactions(config, self.metadata, rng, lambda: self.sender.idle, outages)
        elif config.enable_idempotence:
            waiting = self.accumulator.waiting
            numbering = ProducerIds(config, rng, lambda: bool(waiting), self._on_producer_id_failed)
        self.sender = Sender(config, self.metadata, self.accumulator, rng, numbering, outages)
        sources: list[RequestSource] = [self.sender, TopicWatch(self.metadata, outages)]
        if numbering is not None:
            sources.append(numbering)
        self.engine = Engine(config, sources, self.metadata, rng, outages)
        self.partitioner = partitioner_of(config)
        self._sticky: dict[str, StickyPartitioner] = {}
        self._rng = rng

    def _on_producer_id_failed(self, error: KohortError) -> None:
        self.sender.on_producer_id_failed(error)

    def transactional(self) -> Transactions:
        if self.transactions is None:
            raise UsageError("transactions need the option transactional.id")
        return self.transactions

    def commit_transaction(self) -> Promise[None]:
        promise = self.transactional().commit()
        self.accumulator.flush()
        return promise

    def abort_open_transaction(self) -> None:
        if self.transactions is not None:
            self.transactions.abort_open_transaction()

    @property
    def is_idle(self) -> bool:
        return self.sender.idle and (self.transactions is None or not self.transactions.is_ending)

    def not_delivered_error(self, waited_ms: int | None) -> ApiTimeout:
        if self.sender.idle:
            return ApiTimeout(f"the coordinator has not confirmed the end of the transaction after {waited_ms} ms")
        late = next((b for b in self.accumulator.batches() if b.last_error is not None), None)
        why = f"; {late.topic}-{late.partition}: attempt {late.attempts} failed: {late.last_error}" if late else ""
        return ApiTimeout(f"{self.accumulator.buffered_bytes} bytes are not delivered after {waited_ms} ms{why}")

    def check_may_send(self) -> None:
        """Check that the producer accepts records now.

        With a ``transactional.id`` raises UsageError outside of a transaction, TransactionFailed if the transaction
        must be aborted, and ProducerFenced.
        """
        if self.transactions is not None:
            self.transactions.check_may_send()

    def partitions(self, topic: str) -> int | None:
        """Return the topic's number of partitions; None while metadata of the topic are missing.

        Raises ApiError for a denied topic, UsageError for an invalid name, and NotKafka or UnsupportedVersion if no
        bootstrap address speaks Kafka's protocol.
        """
        count = known_partitions(self.metadata, self.config, topic)
        if count is None and self.metadata.permanent_error is not None:
            raise self.metadata.permanent_error
        return count

    def choose(self, topic: str, key: bytes | None, size: int, partitions: int) -> int:
        """Return the partition for a record: chosen by its key, or the sticky partition if it has no key (KIP-794).

        ``size``: bytes of the record. Raises UsageError if the user's partitioner returns no valid partition.
        """
        by_key = self.partitioner(key, partitions)
        if by_key is not None:
            return by_key
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartitioner(max(self.config.batch_size, 1), self._rng)
        return sticky.pick(size, partitions)

    def add(self, topic: str, partition: int, record: NewRecord, now_ms: int) -> tuple[ProduceBatch, int, bool]:
        """Add a record to its partition's batch.

        Returns the batch, the record's index in it, and True if the request engine must wake. Raises the errors of
        ``check_may_send``, and ApiError (MESSAGE_TOO_LARGE).
        """
        self.check_may_send()
        placed = self.accumulator.append(topic, partition, *record, now_ms)
        assert placed is not None, "append() starts a batch if it gets a time"
        batch, index, is_ready = placed
        return batch, index, is_ready and self.needs_wake(batch, now_ms)

    def needs_wake(self, batch: ProduceBatch, now_ms: int) -> bool:
        """True if the request engine must wake: ``batch`` is full, or is due before the timer of the engine ends.

        Also true if the timer is in the past, because the computer was suspended.
        """
        wake_at_ms = self.engine.wake_at_ms
        return batch.full or wake_at_ms is None or not now_ms < wake_at_ms <= batch.ready_at_ms

    def add_columns(
        self, topic: str, partition: int, columns: SendColumns, now_ms: int
    ) -> list[tuple[ProduceBatch, int, int]]:
        """Add many records to batches of one partition; return each batch with its first and last record index.

        Raises the errors of ``add``.
        """
        self.check_may_send()
        return self.accumulator.extend(topic, partition, columns, now_ms)

    def add_prebuilt(self, topic: str, partition: int, batch: bytes, now_ms: int) -> ProduceBatch:
        self.check_may_send()
        made = prebuilt(topic, partition, batch, deadline_ms=now_ms + self.config.delivery_timeout_ms)
        self.accumulator.add_batch(made)
        return made

    def no_topic_error(self, topic: str, waited_ms: int) -> ApiTimeout:
        code = self.metadata.error(topic)
        addresses = self.engine.describe_addresses(waited_ms) or "no answer yet"
        why = self.metadata.last_failure or (addresses if code is None else code.name)
        servers = ", ".join(self.config.bootstrap_servers)
        return ApiTimeout(f"no metadata of topic {topic!r} after {waited_ms} ms (bootstrap.servers={servers}): {why}")

    def buffer_full_error(self, waited_ms: int) -> ApiTimeout:
        return ApiTimeout(
            f"no free buffer within max.block.ms={waited_ms}: {self.accumulator.buffered_bytes} undelivered bytes, "
            f"buffer.memory={self.config.buffer_memory}"
        )


def check_partition(topic: str, partition: int, partitions: int) -> None:
    if not 0 <= whole_number("a partition", partition) < partitions:
        raise UsageError(f"topic {topic!r} has partitions 0 to {partitions - 1}, not {partition}")


def to_bytes(what: str, value: bytes | str | None) -> bytes | None:
    """Encode a record's key or value as bytes, text as UTF-8. Raises UsageError for other types."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"a record's {what} is text that UTF-8 cannot encode: {error}") from None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise UsageError(f"a record's {what} must be bytes, str or None, not {type(value).__name__}; encode it first")


def to_headers(headers: object) -> Sequence[Header]:
    """Convert a record's headers, pairs or a mapping, to (name, value) pairs. Raises UsageError for other types."""
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list | tuple):
        raise UsageError(f"headers must be pairs of name and value, not {type(headers).__name__}")
    checked: list[Header] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not is_text(pair[0]):
            raise UsageError(f"a header must be a pair of str and bytes, not {shown(pair)}")
        checked.append((pair[0], to_bytes("header value", pair[1])))
    return checked


def resolve(batch: ProduceBatch, index: int) -> tuple[ProduceBatch, int]:
    while batch.halves is not None:
        left, right = batch.halves
        batch, index = (left, index) if index < left.count else (right, index - left.count)
    return batch, index


def record_metadata(batch: ProduceBatch, index: int) -> RecordMetadata:
    """Return partition, offset and timestamp of record ``index`` in a completed batch. Raises the record's error."""
    batch, index = resolve(batch, index)
    error = batch.error_of(index)
    if error is not None:
        raise error
    offset = batch.base_offset + index if batch.base_offset >= 0 else -1
    return RecordMetadata(batch.topic, batch.partition, offset, record_timestamp(batch, index))
