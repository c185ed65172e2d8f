"""From a time to an offset: ListOffsets by timestamp, and by the latest timestamp.

This is the one place where the log opens a batch: the answer is a record's offset, and only the records know their
times. A batch that cannot be opened answers with its first offset, so that a reader of it meets the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.errors import CorruptRecord
from kohort.log.segment import Segment
from kohort.wire.record_batch import LOG_APPEND_TIME, BatchHeader, read_batch


class FoundOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_by_time(segments: Sequence[Segment], timestamp_ms: int, start_offset: int) -> FoundOffset | None:
    """Return the first record from ``start_offset`` on that is not earlier than ``timestamp_ms``."""
    for segment in segments:
        if segment.size and segment.max_timestamp >= timestamp_ms:
            for position, header in segment.first_reaching(timestamp_ms, start_offset):
                if not header.record_count:
                    continue
                found = _first_record(segment, position, header, timestamp_ms, start_offset)
                if found is not None:
                    return found
    return None


def find_max_timestamp(segments: Sequence[Segment], start_offset: int) -> FoundOffset | None:
    """Return the first record that bears the latest timestamp of the log."""
    latest = max((_latest(segment, start_offset) for segment in segments), default=-1)
    if latest >= 0:
        return find_by_time(segments, latest, start_offset)
    return next((found for one in segments if (found := _first_without_time(one, start_offset))), None)


def _first_without_time(segment: Segment, start_offset: int) -> FoundOffset | None:
    """Return the first record of a segment whose batches all have the time -1."""
    for _, header in segment.headers(start_offset) if segment.size else ():
        if header.record_count:
            return FoundOffset(max(header.base_offset, start_offset), -1, header.partition_leader_epoch)
    return None


def _latest(segment: Segment, start_offset: int) -> int:
    """Return the latest timestamp in a segment; where the log starts inside it, the index knows of records that are
    gone."""
    if segment.base_offset >= start_offset or not segment.size:
        return segment.max_timestamp
    latest = -1
    for position, header in segment.headers(start_offset):
        if header.base_offset >= start_offset or header.timestamp_type == LOG_APPEND_TIME:
            latest = max(latest, header.max_timestamp)
        elif header.last_offset >= start_offset:
            latest = max(latest, _latest_record(segment, position, header, start_offset))
    return latest


def _latest_record(segment: Segment, position: int, header: BatchHeader, start_offset: int) -> int:
    try:
        records = read_batch(segment.batch(position, header))
    except CorruptRecord:
        return header.max_timestamp
    return max((record.timestamp_ms for record in records if record.offset >= start_offset), default=-1)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> FoundOffset | None:
    epoch = header.partition_leader_epoch
    first = max(header.base_offset, start_offset)
    if header.timestamp_type == LOG_APPEND_TIME:
        return FoundOffset(first, header.max_timestamp, epoch)
    try:
        records = read_batch(segment.batch(position, header))
    except CorruptRecord:
        return FoundOffset(first, header.max_timestamp, epoch)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return FoundOffset(record.offset, record.timestamp_ms, epoch)
    return None
