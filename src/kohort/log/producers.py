"""State of a partition's producers: detects retries, sequence gaps and open transactions.

The rules: protocol/producers.md#repeats-and-gaps. The first record of the earliest open transaction is the last stable
offset. Snapshots have Kafka's file format (version 1) and are written when a segment rolls and when the log is closed.
A start replays the batches after the last snapshot.

Deviations: a snapshot has only the last batch of each producer, so ``recall`` reads earlier batches from the log: after
a restart a retry of any batch in flight is recognized. Kafka rejects all but the last as out of order. A producer
expires by the broker's clock since its last append; Kafka uses the batch's timestamp.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

import crc32c

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ErrorCode
from kohort.log.aborted import AbortedTransaction
from kohort.log.segment import segment_name
from kohort.log.storage import Storage
from kohort.notes import Note, warning
from kohort.wire.record_batch import BatchHeader, Marker

_snapshot_head: Final = struct.Struct(">hII")
_snapshot_entry: Final = struct.Struct(">qhiqiqiq")
_snapshot_version: Final = 1
_crc_ends_at: Final = 6
SEQUENCE_MASK: Final = 0x7FFFFFFF
RETAINED_BATCHES: Final = 5
NONE: Final = -1


class ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True, eq=False)
class Producer:
    epoch: int
    batches: tuple[ProducedBatch, ...] = ()
    last_seen_ms: int = 0
    last_timestamp_ms: int = NONE
    open_since: int = NONE
    """First offset of the open transaction, or NONE."""
    coordinator_epoch: int = NONE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """Producers of a partition as a dict: producer id to producer, the longest idle producer first."""

    __slots__ = ("_by_id", "_open", "room")

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}
        self.room: ProducerRoom | None = None
        """Limit of the number of producers; None during recovery."""
        self._open: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._by_id.items())

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    @property
    def first_open(self) -> int | None:
        return next(iter(self._open.values()), None)

    def check(self, header: BatchHeader, now_ms: int, *, in_sequence: bool = True) -> ProducedBatch | None:
        """Return the stored batch that this one repeats, or None to append it. Raises ApiError.

        Batches that the broker writes (offsets of a transaction) have no sequence: only their epoch is checked.
        """
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            if self.room is not None:
                self.room.check(header, now_ms)
            return None
        _check_epoch(producer, header.producer_id, header.producer_epoch)
        repeated = _check_sequence(producer, header) if in_sequence else None
        if repeated is None and producer.open_since != NONE and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction, but the batch is not transactional",
            )
        return repeated

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def check_marker(self, marker: Marker) -> None:
        """Raise ApiError for a marker of a fenced producer or of a fenced transaction coordinator."""
        producer = self._by_id.get(marker.producer_id)
        if producer is None:
            return
        _check_epoch(producer, marker.producer_id, marker.producer_epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker has coordinator epoch {marker.coordinator_epoch}, below {producer.coordinator_epoch}",
            )

    def record(self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Add an appended or replayed batch."""
        if header.producer_id < 0 or header.is_control:
            return
        producer = self._in_epoch(header.producer_id, header.producer_epoch)
        if header.is_transactional and producer.open_since == NONE:
            producer.open_since = self._open[header.producer_id] = base_offset
        producer.batches = (*producer.batches[1 - RETAINED_BATCHES :], _produced(header, base_offset, timestamp_ms))
        producer.last_timestamp_ms, producer.last_seen_ms = timestamp_ms, now_ms

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Add the batches that a snapshot omits to known producers. ``headers``: batches before the snapshot."""
        earlier: dict[int, tuple[ProducedBatch, ...]] = {}
        for header in headers:
            producer = self._by_id.get(header.producer_id)
            if producer is None or not producer.batches or header.base_sequence < 0:
                continue
            if header.producer_epoch == producer.epoch and header.last_offset < producer.batches[0].base_offset:
                batches = earlier.get(header.producer_id, ())[2 - RETAINED_BATCHES :]
                batch = _produced(header, header.base_offset, header.max_timestamp)
                earlier[header.producer_id] = (*batches, batch)
        for producer_id, batches in earlier.items():
            producer = self._by_id[producer_id]
            producer.batches = (*batches, *producer.batches)[-RETAINED_BATCHES:]

    def aborted_by(self, marker: Marker, offset: int) -> AbortedTransaction | None:
        first_offset = self._open.get(marker.producer_id)
        if first_offset is None or marker.committed:
            return None
        others = (first for producer_id, first in self._open.items() if producer_id != marker.producer_id)
        return AbortedTransaction(marker.producer_id, first_offset, offset, next(others, offset + 1))

    def end(self, marker: Marker, timestamp_ms: int, now_ms: int) -> None:
        """End the producer's transaction. At the limit of producers, ignore an unknown one: it has no transaction."""
        if self.room is not None and self.room.is_full and marker.producer_id not in self._by_id:
            return
        producer = self._in_epoch(marker.producer_id, marker.producer_epoch)
        producer.open_since = NONE
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms, producer.last_seen_ms = timestamp_ms, now_ms
        self._open.pop(marker.producer_id, None)

    def _in_epoch(self, producer_id: int, epoch: int) -> Producer:
        """Return the producer in ``epoch``. A new epoch inherits the open transaction, but not the batches."""
        before = self._by_id.pop(producer_id, None)
        if before is not None and before.epoch == epoch:
            self._by_id[producer_id] = before  # moved to the end: the dict is ordered by the last use
            return before
        producer = self._by_id[producer_id] = Producer(epoch)
        if before is not None:
            producer.open_since, producer.coordinator_epoch = before.open_since, before.coordinator_epoch
        return producer

    def expire(self, now_ms: int, after_ms: int, most: int | None = None) -> int:
        """Remove up to ``most`` producers idle for ``after_ms`` without an open transaction; return the count."""
        expired: list[int] = []
        for producer_id, producer in self._by_id.items():
            if now_ms - producer.last_seen_ms < after_ms or len(expired) == most:
                break
            if producer.open_since == NONE:
                expired.append(producer_id)
        for producer_id in expired:
            del self._by_id[producer_id]
        return len(expired)

    def build_snapshot(self) -> bytes:
        entries = bytearray(struct.pack(">i", len(self._by_id)))
        for producer_id, producer in self._by_id.items():
            last = producer.batches[-1] if producer.batches else ProducedBatch(-1, -1, -1, -1, -1)
            entries += _snapshot_entry.pack(
                producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.base_offset,
                producer.last_seen_ms,
                producer.coordinator_epoch,
                producer.open_since,
            )
        return struct.pack(">hI", _snapshot_version, crc32c.crc32c(entries)) + bytes(entries)

    @classmethod
    def parse_snapshot(cls, data: bytes) -> Producers:
        """Parse a snapshot file. Raises ValueError."""
        if len(data) < _snapshot_head.size:
            raise ValueError(f"snapshot has only {len(data)} bytes")
        version, crc, count = _snapshot_head.unpack_from(data)
        if version != _snapshot_version:
            raise ValueError(f"snapshot version is {version}, expected {_snapshot_version}")
        if crc32c.crc32c(memoryview(data)[_crc_ends_at:]) != crc:
            raise ValueError("CRC mismatch")
        if len(data) != _snapshot_head.size + count * _snapshot_entry.size:
            raise ValueError(f"{len(data)} bytes do not match {count} entries")
        producers = cls()
        for entry in _snapshot_entry.iter_unpack(memoryview(data)[_snapshot_head.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, open_since = entry
            producer = producers._by_id[producer_id] = Producer(epoch)
            producer.last_timestamp_ms = producer.last_seen_ms = timestamp_ms
            producer.coordinator_epoch, producer.open_since = coordinator_epoch, open_since
            if last_sequence >= 0:
                base_sequence = (last_sequence - delta) & SEQUENCE_MASK
                base_offset = last_offset - delta
                batch = ProducedBatch(base_sequence, last_sequence, base_offset, last_offset, timestamp_ms)
                producer.batches = (batch,)
        producers._by_id = dict(sorted(producers, key=lambda known: known[1].last_seen_ms))
        transactions = sorted((p.open_since, producer_id) for producer_id, p in producers if p.open_since != NONE)
        producers._open = {producer_id: first_offset for first_offset, producer_id in transactions}
        return producers


def _produced(header: BatchHeader, base_offset: int, timestamp_ms: int) -> ProducedBatch:
    last_sequence = header.last_sequence if header.base_sequence >= 0 else NONE
    last_offset = base_offset + header.last_offset_delta
    return ProducedBatch(header.base_sequence, last_sequence, base_offset, last_offset, timestamp_ms)


def _check_epoch(producer: Producer, producer_id: int, epoch: int) -> None:
    if epoch < producer.epoch:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {producer.epoch}, not {epoch}"
        )


def _check_sequence(producer: Producer, header: BatchHeader) -> ProducedBatch | None:
    first, last = header.base_sequence, header.last_sequence
    if header.producer_epoch > producer.epoch:
        if first != 0:
            raise _out_of_order(header, f"a new epoch begins with sequence 0, not {first}")
        return None
    for batch in producer.batches:
        if batch.base_sequence == first and batch.last_sequence == last:
            return batch
    if first != (producer.last_sequence + 1) & SEQUENCE_MASK:
        raise _out_of_order(header, f"sequence {first} does not follow {producer.last_sequence}")
    return None


def _out_of_order(header: BatchHeader, problem: str) -> ApiError:
    problem = f"producer {header.producer_id} in epoch {header.producer_epoch}: {problem}"
    return ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, problem)


SNAPSHOTS_KEPT: Final = 2


@dataclass(slots=True, eq=False)
class ProducerSnapshots:
    """Snapshot files of a partition, each named by the offset up to which it covers the log."""

    storage: Storage
    folder: str
    offsets: list[int]
    """Offsets of the files, ascending."""

    def take(self, producers: Producers, offset: int) -> None:
        """Write a snapshot at ``offset``, the log's end; keep ``SNAPSHOTS_KEPT``. Raises StorageError."""
        self.storage.replace(self._name(offset), producers.build_snapshot(), durable=False)
        self.offsets = sorted({*self.offsets, offset})
        while len(self.offsets) > SNAPSHOTS_KEPT:
            self.storage.delete(self._name(self.offsets.pop(0)))

    def forget_before(self, offset: int) -> None:
        """Delete snapshots before ``offset``. Raises StorageError."""
        while self.offsets and self.offsets[0] < offset:
            self.storage.delete(self._name(self.offsets[0]))
            self.offsets.pop(0)

    def _name(self, offset: int) -> str:
        return f"{self.folder}/{segment_name(offset)}.snapshot"


RETRY_WINDOW_MS: Final = 900_000
"""Time in ms that exceeds all retries of a batch: ``delivery.timeout.ms`` is 2 minutes by default, 5 in librdkafka."""
RECOUNT_MS: Final = 1_000
SPARE: Final = 8
"""Divisor: at the limit, one eighth of the producers expire early, the longest idle ones first."""
ORDER_MS: Final = 60_000
NO_LIMIT: Final = -1


class ProducerRoom:
    """Number of producers in all partitions of a process, and its limit.

    ``at_most``: upper bound of the number until the next recount. ``refused``: number of rejected producers.
    """

    def __init__(
        self,
        config: BrokerConfig,
        all_producers: Callable[[], Iterable[Producers]],
        report: Callable[[Note], None] = lambda _: None,
    ) -> None:
        self.expire_after_ms = config.producer_id_expiration_ms
        self._all_producers = all_producers
        self._report = report
        self._recounted_ms: float = -inf
        self._refused_ms: float = -inf
        self.limit = config.kohort_producer_max_ids
        self.at_most = 0
        self.refused = 0

    def check(self, header: BatchHeader, now_ms: int) -> None:
        """Count a producer that is new to a partition.

        Raises NOT_ENOUGH_REPLICAS at the limit: every client retries this error. For ``ORDER_MS`` after a rejection, a
        new producer must begin with sequence 0: otherwise the broker could accept a producer's second batch, and the
        retry of its rejected first batch would be out of order.
        """
        if self.limit == NO_LIMIT:
            return
        if self.at_most >= self.limit and now_ms - self._recounted_ms >= RECOUNT_MS:
            self._recounted_ms = now_ms
            self._make_room(now_ms)
        rejected_recently = now_ms - self._refused_ms < ORDER_MS
        if self.at_most >= self.limit or (rejected_recently and header.base_sequence > 0):
            if self.at_most >= self.limit:
                self._refused_ms = now_ms
            self.refused += 1
            problem = f"at the limit of {self.limit} idempotent producers (kohort.producer.max.ids); retry later"
            self._report(warning(problem, "producers"))
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, problem)
        self.at_most += 1

    @property
    def is_full(self) -> bool:
        return self.limit != NO_LIMIT and self.at_most >= self.limit

    def count(self) -> None:
        self.at_most = sum(map(len, self._all_producers()))

    def expire(self, now_ms: int) -> None:
        for producers in self._all_producers():
            producers.expire(now_ms, self.expire_after_ms)
        self.count()

    def _make_room(self, now_ms: int) -> None:
        self.count()
        surplus = self.at_most - (self.limit - self.limit // SPARE - 1)
        after_ms = self.expire_after_ms
        while surplus > 0 and after_ms:
            for producers in self._all_producers():
                gone = producers.expire(now_ms, after_ms, surplus)
                surplus -= gone
                self.at_most -= gone
            after_ms = max(after_ms // 2, RETRY_WINDOW_MS) if after_ms > RETRY_WINDOW_MS else 0
