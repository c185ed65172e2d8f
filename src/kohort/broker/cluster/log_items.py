"""Reading of an internal topic's log, in offset order; transactional batches and markers are one item each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kohort.coordinator.records import InTransaction, LogItem, TransactionEnded
from kohort.coordinator.replay import Skipped
from kohort.errors import ApiError, CorruptLog, CorruptRecord
from kohort.log.partition import PartitionLog
from kohort.wire.record_batch import BatchHeader, check_crc, parse_marker, read_pairs, split_batches

READ_BYTES: Final = 1 << 20
BATCH_MAX_BYTES: Final = 1 << 28
"""Maximum size of a decompressed batch, in bytes."""
SLICE_RECORDS: Final = 1000
"""Minimum number of records to load between two events, which takes a few milliseconds."""


def slices_of(log: PartitionLog, skipped: Skipped) -> Iterator[list[LogItem]]:
    """Yield lists of a log's records, oldest record first; each list contains whole batches.

    Each list has at least ``SLICE_RECORDS`` records, except the last, which may be empty. A transactional batch or a
    marker counts as one record. Records that cannot be replayed (unreadable, or without a key) go to
    ``skipped``. Raises CorruptLog for a damaged batch.
    """
    found: list[LogItem] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            chunk = b"".join(log.read(offset, READ_BYTES))
            before = offset
            for at, header in split_batches(chunk):
                offset = header.next_offset
                check_crc(chunk, at, header)
                found += _items_of(chunk, at, header, skipped)
                if len(found) >= SLICE_RECORDS:
                    yield found
                    found = []
        except (CorruptRecord, ApiError) as error:
            raise CorruptLog(f"{log.tp} at offset {offset}: {error}") from error
        if offset == before:
            raise CorruptLog(
                f"{log.tp} has an incomplete batch at offset {offset}, before its end offset {log.log_end_offset}"
            )
    yield found


def _items_of(chunk: bytes, at: int, header: BatchHeader, skipped: Skipped) -> list[LogItem]:
    try:
        if header.is_control:
            marker = parse_marker(chunk[at : at + header.size], header)
            return [(b"", TransactionEnded(marker.producer_id, marker.committed))] if marker else []
        pairs = read_pairs(chunk, at, header, max_bytes=BATCH_MAX_BYTES)
    except (CorruptRecord, ApiError) as error:
        skipped.add(f"the batch at offset {header.base_offset}: {error}")
        return []
    records = [(key, value) for key, value in pairs if key is not None]
    for _ in range(len(pairs) - len(records)):
        skipped.add(f"a record without a key in the batch at offset {header.base_offset}")
    return [(b"", InTransaction(header.producer_id, records))] if header.is_transactional else [*records]
