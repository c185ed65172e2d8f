"""Compaction of one batch by Kafka's rules (Cleaner, MemoryRecords.filterTo; KIP-98, KIP-534).

- A record after the dirty part stays.
- A record with a value stays if no later record has its key.
- A tombstone also needs a delete horizon that has not passed. The first compaction of its batch sets the horizon,
  ``delete.retention.ms`` later.
- A record without a key is dropped.
- A transaction marker stays while a batch of its transaction remains, and until the delete horizon passes. The first
  compaction that finds no batch of the transaction sets the horizon.
- Aborted records are dropped and replace no other record.

A batch keeps its offsets, sequence and leader epoch. A batch without records is dropped, unless recovery needs its
header for the sequence of its producer or the end of the segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kohort.errors import CorruptRecord
from kohort.log.aborted import AbortedTransactions
from kohort.log.keyed_records import KeyedRecord, body_of, keyed_records
from kohort.wire.codec import Buffer
from kohort.wire.compression import Codec, compress
from kohort.wire.record_batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
    parse_marker,
)
from kohort.wire.varints import varint_bytes


class EndedTransactions:
    """Transactions that still have batches, tracked while the log is read from its start."""

    __slots__ = ("_met",)

    def __init__(self) -> None:
        self._met: set[int] = set()
        """Ids of producers with a transactional batch and no marker so far."""

    def meet(self, header: BatchHeader) -> None:
        if header.is_transactional:
            self._met.add(header.producer_id)

    def end(self, batch: Buffer, header: BatchHeader) -> bool:
        """Process a marker, which ends a transaction; return True if the log has no batch of that transaction."""
        if not header.record_count:
            return True
        try:
            marker = parse_marker(batch, header)
        except CorruptRecord:
            return False  # recovery reports a malformed marker and ignores it
        if marker is None:
            return False
        if marker.producer_id in self._met:
            self._met.remove(marker.producer_id)
            return False
        return True


NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Keys, offsets and times that decide which records one compaction keeps."""

    latest: Mapping[bytes, int]
    latest_offset: int
    aborted: AbortedTransactions
    ended: EndedTransactions
    """Transactions so far: batches must be filtered in log order, from the log's start."""
    now_ms: int
    delete_retention_ms: int


class FilteredBatch(NamedTuple):
    """Result for one batch. ``batch``: None if no record is kept, the same object if all are kept unchanged."""

    batch: bytes | memoryview | None
    max_timestamp: int
    kept: int
    unpacked_bytes: int


def is_aborted_batch(header: BatchHeader, aborted: AbortedTransactions) -> bool:
    return (
        header.is_transactional and not header.is_control and aborted.is_aborted(header.producer_id, header.base_offset)
    )


def filter_batch(batch: bytes | memoryview, header: BatchHeader, record_filter: RecordFilter) -> FilteredBatch:
    """Filter one complete batch. Raises CorruptRecord."""
    if header.is_control:
        return _filter_marker(batch, header, record_filter)
    record_filter.ended.meet(header)
    if is_aborted_batch(header, record_filter.aborted):
        return FilteredBatch(None, NO_TIMESTAMP, 0, 0)
    if header.base_offset > record_filter.latest_offset:
        return _whole(batch, header)
    body = body_of(batch, header)
    kept = [record for record in keyed_records(body, header) if _stays(record, header, record_filter)]
    if not kept:
        return FilteredBatch(None, NO_TIMESTAMP, 0, len(body))
    sets_horizon = header.delete_horizon_ms is None and any(record.is_tombstone for record in kept)
    if len(kept) == header.record_count and not sets_horizon:
        return _whole(batch, header, len(body))
    made, max_timestamp = _rebuilt(body, header, kept, record_filter, sets_horizon=sets_horizon)
    return FilteredBatch(made, max_timestamp, len(kept), len(body))


def _filter_marker(batch: bytes | memoryview, header: BatchHeader, record_filter: RecordFilter) -> FilteredBatch:
    if not record_filter.ended.end(batch, header):
        return _whole(batch, header)
    horizon_ms = header.delete_horizon_ms
    if not header.record_count or (horizon_ms is not None and record_filter.now_ms >= horizon_ms):
        return FilteredBatch(None, NO_TIMESTAMP, 0, 0)
    if horizon_ms is not None:
        return _whole(batch, header)
    body = body_of(batch, header)
    kept = list(keyed_records(body, header))
    made, max_timestamp = _rebuilt(body, header, kept, record_filter, sets_horizon=True)
    return FilteredBatch(made, max_timestamp, len(kept), len(body))


def _whole(batch: bytes | memoryview, header: BatchHeader, unpacked_bytes: int = 0) -> FilteredBatch:
    return FilteredBatch(batch, header.max_timestamp, header.record_count, unpacked_bytes)


def _stays(record: KeyedRecord, header: BatchHeader, record_filter: RecordFilter) -> bool:
    offset = header.base_offset + record.offset_delta
    if offset > record_filter.latest_offset:
        return True
    if record.key is None or offset < record_filter.latest.get(record.key, -1):
        return False
    horizon_ms = header.delete_horizon_ms
    return not record.is_tombstone or horizon_ms is None or record_filter.now_ms < horizon_ms


def _rebuilt(
    body: bytes, header: BatchHeader, kept: list[KeyedRecord], record_filter: RecordFilter, *, sets_horizon: bool
) -> tuple[bytes, int]:
    base_timestamp, attributes = header.base_timestamp, header.attributes
    if sets_horizon:
        base_timestamp = record_filter.now_ms + record_filter.delete_retention_ms
        attributes |= DELETE_HORIZON_BIT
        payload = b"".join(_moved(body, record, _time_of(record, header) - base_timestamp) for record in kept)
    else:
        payload = b"".join(body[record.start : record.end] for record in kept)
    max_timestamp = header.max_timestamp
    if header.timestamp_type != LOG_APPEND_TIME:
        max_timestamp = max(_time_of(record, header) for record in kept)
    if header.codec is not Codec.NONE:
        payload = compress(header.codec, payload)
    made = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(kept)
    )
    return pack_batch(made, payload), max_timestamp


def _time_of(record: KeyedRecord, header: BatchHeader) -> int:
    return header.base_timestamp + record.timestamp_delta if header.base_timestamp >= 0 else NO_TIMESTAMP


def _moved(body: bytes, record: KeyedRecord, timestamp_delta: int) -> bytes:
    """Replace a record's timestamp delta, because the delete horizon replaces the batch's base timestamp."""
    delta, rest = varint_bytes(timestamp_delta), body[record.rest : record.end]
    return b"".join((varint_bytes(1 + len(delta) + len(rest)), b"\x00", delta, rest))


def empty_batch(header: BatchHeader) -> bytes:
    """Return the batch without records, timestamp and compression; Kafka keeps the timestamp."""
    attributes = header.attributes & (TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    made = header._replace(
        attributes=attributes, base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP, record_count=0
    )
    return pack_batch(made, b"")
