"""Queries over the segments of a log: by timestamp, by retention, for gaps.

A lookup by timestamp decompresses one batch, because the header has only the maximum timestamp. If this batch is
damaged, the lookup returns its first offset: a consumer that reads there gets the error.

Retention deletes whole segments, oldest first. The active segment is deleted by time only: when its latest record is
too old the log begins another segment, as in Kafka.

A lost segment file leaves no bad batch. The base offset of the next segment (in a log without compaction) and the
recovery point reveal the missing offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kohort.errors import CorruptLog, CorruptRecord
from kohort.log.data_folder import RECOVERY_POINTS_FILE
from kohort.log.segment import Segment
from kohort.notes import Note, warning
from kohort.wire.record_batch import LOG_APPEND_TIME, BatchHeader, read_batch


class FoundOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_by_time(segments: Sequence[Segment], timestamp_ms: int, start_offset: int) -> FoundOffset | None:
    """Return the first record from ``start_offset`` on whose timestamp is ``timestamp_ms`` or later."""
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
    latest = max((_latest(segment, start_offset) for segment in segments), default=-1)
    if latest >= 0:
        return find_by_time(segments, latest, start_offset)
    return next((found for one in segments if (found := _first_without_time(one, start_offset))), None)


def _first_without_time(segment: Segment, start_offset: int) -> FoundOffset | None:
    for _, header in segment.headers(start_offset) if segment.size else ():
        if header.record_count:
            return FoundOffset(max(header.base_offset, start_offset), -1, header.partition_leader_epoch)
    return None


def _latest(segment: Segment, start_offset: int) -> int:
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


def below_start(segments: Sequence[Segment], start_offset: int) -> int:
    """Count the segments that end before the log start (DeleteRecords)."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= start_offset:
        count += 1
    return count


def too_old(segments: Sequence[Segment], now_ms: int, retention_ms: int) -> int:
    """Count the oldest segments that ``retention_ms`` allows to delete; negative: no limit."""
    if retention_ms < 0:
        return 0
    return _leading(segments, lambda segment: now_ms - segment.aged_from_ms() > retention_ms)


def too_many(segments: Sequence[Segment], retention_bytes: int) -> int:
    """Count the oldest segments that ``retention_bytes`` allows to delete; negative: no limit."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes

    def spare(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _leading(segments, spare)


def _leading(segments: Sequence[Segment], is_expired: Callable[[Segment], bool]) -> int:
    count = 0
    for segment in segments:
        if (segment is segments[-1] and not segment.size) or not is_expired(segment):
            break
        count += 1
    return count


def gaps_between(segments: Sequence[Segment]) -> Iterator[Note]:
    """Yield a note for each pair of segments with missing offsets between them; not meant for compacted logs."""
    for segment, following in pairwise(segments):
        try:
            end = segment.end_offset()
        except CorruptLog as error:
            yield warning(f"{error}; not repaired, reads of this batch fail")
            continue
        if end < following.base_offset:
            last, name, after = following.base_offset - 1, segment.log_name, following.log_name
            yield warning(f"offsets {end} to {last} are missing: {name} ends before {after} begins")


def gap_at_the_end(next_offset: int, recovery_point: int) -> Iterator[Note]:
    """Yield a note if the log ends before its recovery point."""
    if next_offset < recovery_point:
        last = recovery_point - 1
        yield warning(f"offsets {next_offset} to {last} are missing: {RECOVERY_POINTS_FILE} lists them as flushed")


def end_of(segment: Segment) -> int | None:
    """Return the end offset of a segment; None if its last batches are damaged."""
    try:
        return segment.end_offset()
    except CorruptLog:
        return None
