"""A producer as a machine: where a record goes, what becomes of it, and the parts that do the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.client.reading.topic_watch import TopicWatch
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import Promise, RequestSource
from kohort.client.requests.troubles import Notes, Troubles
from kohort.client.user_input import is_text, known_partitions, shown, whole_number
from kohort.client.writing.accumulator import Accumulator, Lot
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
    """Where a record was written. ``offset`` is -1 with ``acks=0``, or for a repetition that the broker had seen.

    ``timestamp_ms`` is the record's time since 1970: the one it was sent with, or that of the append, as the topic's
    ``message.timestamp.type`` wants it.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ProducerMachine:
    """Takes records, keeps them in batches, has them sent."""

    def __init__(self, config: ProducerConfig, rng: Rng) -> None:
        self.config = config
        self.metadata = Metadata(config, rng)
        self.notes = Notes()
        troubles = Troubles(self.notes)
        self.accumulator = Accumulator(config)
        self.transactions: Transactions | None = None
        numbering: Transactions | ProducerIds | None = None
        if config.transactional_id is not None:
            numbering = self.transactions = Transactions(config, self.metadata, rng, lambda: self.sender.idle, troubles)
        elif config.enable_idempotence:
            waiting = self.accumulator.waiting
            numbering = ProducerIds(config, rng, lambda: bool(waiting), self._no_id_yet)
        self.sender = Sender(config, self.metadata, self.accumulator, rng, numbering, troubles)
        sources: list[RequestSource] = [self.sender, TopicWatch(self.metadata, troubles)]
        if numbering is not None:
            sources.append(numbering)
        self.engine = Engine(config, sources, self.metadata, rng, troubles)
        self.partitioner = partitioner_of(config)
        self._sticky: dict[str, StickyPartitioner] = {}
        self._rng = rng

    def _no_id_yet(self, error: KohortError) -> None:
        self.sender.not_numbered(error)

    def transactional(self) -> Transactions:
        if self.transactions is None:
            raise UsageError("transactions need the option transactional.id")
        return self.transactions

    def commit_transaction(self) -> Promise[None]:
        promise = self.transactional().commit()
        self.accumulator.flush()
        return promise

    def end_open(self) -> None:
        if self.transactions is not None:
            self.transactions.end_open()

    @property
    def is_idle(self) -> bool:
        return self.sender.idle and (self.transactions is None or not self.transactions.is_ending)

    def not_done(self, waited_ms: int | None) -> ApiTimeout:
        if self.sender.idle:
            return ApiTimeout(f"the coordinator has not confirmed the end of the transaction after {waited_ms} ms")
        late = next((b for b in self.accumulator.batches() if b.last_error is not None), None)
        why = f"; {late.topic}-{late.partition}: attempt {late.attempts} failed: {late.last_error}" if late else ""
        return ApiTimeout(f"{self.accumulator.buffered_bytes} bytes are not delivered after {waited_ms} ms{why}")

    def check_may_send(self) -> None:
        """Check that records can be taken.

        Raises UsageError for a transactional producer without an open transaction, TransactionFailed or ProducerFenced
        for one that can send no more.
        """
        if self.transactions is not None:
            self.transactions.check_may_send()

    def partitions(self, topic: str) -> int | None:
        """Return how many partitions ``topic`` has; None until metadata tells.

        Raises ApiError for a topic that cannot be had, UsageError for what is no name, and NotKafka or
        UnsupportedVersion where no address speaks the protocol.
        """
        count = known_partitions(self.metadata, self.config, topic)
        if count is None and self.metadata.hopeless is not None:
            raise self.metadata.hopeless
        return count

    def choose(self, topic: str, key: bytes | None, size: int, partitions: int) -> int:
        """Return the partition for a record of ``size`` bytes: by its key, or else the sticky one (KIP-794).

        Raises UsageError for a partitioner of the user's that returns no partition.
        """
        by_key = self.partitioner(key, partitions)
        if by_key is not None:
            return by_key
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartitioner(max(self.config.batch_size, 1), self._rng)
        return sticky.pick(size, partitions)

    def add(self, topic: str, partition: int, record: NewRecord, now_ms: int) -> tuple[ProduceBatch, int, bool]:
        """Take one record; return its batch, its place there, and whether the engine is to be woken.

        Raises as ``check_may_send``, and ApiError (MESSAGE_TOO_LARGE).
        """
        self.check_may_send()
        placed = self.accumulator.append(topic, partition, *record, now_ms)
        assert placed is not None, "with a time it begins a batch where none is open"
        batch, index, is_ready = placed
        return batch, index, is_ready and self.needs_wake(batch, now_ms)

    def needs_wake(self, batch: ProduceBatch, now_ms: int) -> bool:
        """Tell whether the engine is to be woken for a batch that was begun or filled: not if it wakes in time itself.

        Its time to wake may be over: it is late where the machine has slept.
        """
        wake_at_ms = self.engine.wake_at_ms
        return batch.full or wake_at_ms is None or not now_ms < wake_at_ms <= batch.ready_at_ms

    def add_lot(self, topic: str, partition: int, lot: Lot, now_ms: int) -> list[tuple[ProduceBatch, int, int]]:
        """Take many records for one partition; return their batches, with the first and last place in each.

        Raises as ``add``.
        """
        self.check_may_send()
        return self.accumulator.extend(topic, partition, lot, now_ms)

    def add_prebuilt(self, topic: str, partition: int, batch: bytes, now_ms: int) -> ProduceBatch:
        self.check_may_send()
        made = prebuilt(topic, partition, batch, deadline_ms=now_ms + self.config.delivery_timeout_ms)
        self.accumulator.add_batch(made)
        return made

    def no_topic(self, topic: str, waited_ms: int) -> ApiTimeout:
        code = self.metadata.error(topic)
        no_answer = self.engine.told_of_addresses(waited_ms) or "no answer yet"
        why = self.metadata.last_failure or (no_answer if code is None else code.name)
        servers = ", ".join(self.config.bootstrap_servers)
        return ApiTimeout(
            f"the partitions of topic {topic!r} are not known after {waited_ms} ms (asked {servers}): {why}"
        )

    def no_room(self, waited_ms: int) -> ApiTimeout:
        return ApiTimeout(
            f"{self.accumulator.buffered_bytes} bytes wait to be delivered, buffer.memory={self.config.buffer_memory} "
            f"holds no more, and none became free in max.block.ms={waited_ms}"
        )


def check_partition(topic: str, partition: int, partitions: int) -> None:
    if not 0 <= whole_number("a partition", partition) < partitions:
        raise UsageError(f"topic {topic!r} has partitions 0 to {partitions - 1}, not {partition}")


def to_bytes(what: str, value: bytes | str | None) -> bytes | None:
    """Return a key or a value as it is sent: text as UTF-8. Raises UsageError for all but bytes, text and None."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"a record's {what} is text that UTF-8 does not know: {error}") from None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise UsageError(f"a record's {what} is bytes, str or None, not {type(value).__name__}; encode it first")


def to_headers(headers: object) -> Sequence[Header]:
    """Return headers as (name, value) pairs, from such pairs or from a mapping. Raises UsageError for all else."""
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list | tuple):
        raise UsageError(f"headers are pairs of name and value, not {type(headers).__name__}")
    checked: list[Header] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not is_text(pair[0]):
            raise UsageError(f"a header is a pair of str and bytes, not {shown(pair)}")
        checked.append((pair[0], to_bytes("header value", pair[1])))
    return checked


def resolve(batch: ProduceBatch, index: int) -> tuple[ProduceBatch, int]:
    while batch.halves is not None:
        left, right = batch.halves
        batch, index = (left, index) if index < left.count else (right, index - left.count)
    return batch, index


def record_metadata(batch: ProduceBatch, index: int) -> RecordMetadata:
    """Return where record ``index`` of a batch that is done was written. Raises the error of one that failed."""
    batch, index = resolve(batch, index)
    error = batch.error_of(index)
    if error is not None:
        raise error
    offset = batch.base_offset + index if batch.base_offset >= 0 else -1
    return RecordMetadata(batch.topic, batch.partition, offset, record_timestamp(batch, index))
