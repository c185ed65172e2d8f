"""What a partition knows of its idempotent producers: enough to answer a retry and to refuse a gap (facts 6.5).

Snapshots are Kafka's own files (version 1), written when a segment is rolled and when the log is closed; after a start
the batches behind the last snapshot are read again. Only the last batch of a producer is sure to survive a restart.

Deviation: the age of a producer counts from the broker's clock at its last append. Kafka counts from the
batch's own timestamp, and so forgets at once whoever writes old data.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import crc32c

from kohort.errors import ApiError, ErrorCode
from kohort.wire.record_batch import BatchHeader

_snapshot_head: Final = struct.Struct(">hII")
_snapshot_entry: Final = struct.Struct(">qhiqiqiq")
_snapshot_version: Final = 1
_crc_ends_at: Final = 6
SEQUENCE_MASK: Final = 0x7FFFFFFF
RETAINED_BATCHES: Final = 5


class ProducedBatch(NamedTuple):
    """One batch of a producer, as it lies in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class Producer:
    """The state of one producer id."""

    __slots__ = ("batches", "epoch", "last_seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[ProducedBatch] = deque(maxlen=RETAINED_BATCHES)
        self.last_seen_ms = 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """All producers of a partition, by id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._by_id.items())

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """The earlier batch that this one repeats, or None if it may be appended; raises ApiError if it may not."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return None
        first, last = header.base_sequence, header.last_sequence
        if header.producer_epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} comes with epoch {header.producer_epoch} after {producer.epoch}",
            )
        if header.producer_epoch > producer.epoch:
            if first != 0:
                raise _out_of_order(header, f"a new epoch begins with sequence 0, not {first}")
            return None
        for batch in producer.batches:
            if batch.base_sequence == first and batch.last_sequence == last:
                return batch
        if producer.batches and first != (producer.last_sequence + 1) & SEQUENCE_MASK:
            raise _out_of_order(header, f"sequence {first} does not follow {producer.last_sequence}")
        return None

    def record(self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """Remember a batch that was appended, or read again from the log."""
        if header.producer_id < 0 or header.is_control:
            return
        producer = self._by_id.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._by_id[header.producer_id] = Producer(header.producer_epoch)
        last_offset = base_offset + header.last_offset_delta
        producer.batches.append(
            ProducedBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp_ms)
        )
        producer.last_seen_ms = now_ms

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Forget producers that were silent for ``after_ms``; how many."""
        gone = [pid for pid, producer in self._by_id.items() if now_ms - producer.last_seen_ms >= after_ms]
        for pid in gone:
            del self._by_id[pid]
        return len(gone)

    def build_snapshot(self) -> bytes:
        """The bytes of a snapshot file."""
        entries = bytearray(struct.pack(">i", len(self._by_id)))
        for producer_id, producer in self._by_id.items():
            last = producer.batches[-1] if producer.batches else ProducedBatch(-1, -1, -1, -1, -1)
            delta = last.last_offset - last.base_offset
            entries += _snapshot_entry.pack(
                producer_id, producer.epoch, last.last_sequence, last.last_offset, delta, producer.last_seen_ms, -1, -1
            )
        head = struct.pack(">hI", _snapshot_version, crc32c.crc32c(entries))
        return head + bytes(entries)

    @classmethod
    def parse_snapshot(cls, data: bytes) -> Producers:
        """The producers of a snapshot file; raises ValueError for anything else."""
        if len(data) < _snapshot_head.size:
            raise ValueError(f"{len(data)} bytes are too few")
        version, crc, count = _snapshot_head.unpack_from(data)
        if version != _snapshot_version:
            raise ValueError(f"it has version {version}; only {_snapshot_version} is read")
        if crc32c.crc32c(memoryview(data)[_crc_ends_at:]) != crc:
            raise ValueError("its CRC is wrong")
        if len(data) != _snapshot_head.size + count * _snapshot_entry.size:
            raise ValueError(f"{len(data)} bytes do not hold {count} entries")
        producers = cls()
        for entry in _snapshot_entry.iter_unpack(memoryview(data)[_snapshot_head.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, _, _ = entry
            producer = producers._by_id[producer_id] = Producer(epoch)
            producer.last_seen_ms = timestamp_ms
            if last_sequence >= 0:
                base_sequence = (last_sequence - delta) & SEQUENCE_MASK
                producer.batches.append(
                    ProducedBatch(base_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms)
                )
        return producers


def _out_of_order(header: BatchHeader, problem: str) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} in epoch {header.producer_epoch}: {problem}",
    )
