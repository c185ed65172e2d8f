"""Which part of a log waits for compaction, and whether that is worth it now: Kafka's rules (LogCleanerManager).

A compacted log has a clean part, in which every key stands once, a dirty part behind it, and a part that may not be
touched: the segment that is appended to, what is younger than ``min.compaction.lag.ms``, and what a transaction that is
open may yet take back. It is compacted when the dirty part is more than ``min.cleanable.dirty.ratio`` of both, or when
its oldest record has waited for ``max.compaction.lag.ms``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.log.partition import PartitionLog
from kohort.log.segment import Segment

LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF


class Dirty(NamedTuple):
    """What could be compacted: the offsets ``start`` to ``end``; ``ratio`` is its share of what lies before ``end``."""

    start: int
    end: int
    ratio: float
    overdue: bool

    def is_worth_it(self, min_ratio: float) -> bool:
        return self.start < self.end and (self.overdue or self.ratio > min_ratio)


def dirty_part(log: PartitionLog, clean_until: int, now_ms: int) -> Dirty:
    """Return the dirty part of ``log``, which was compacted up to ``clean_until``."""
    start = log.log_start_offset
    if start < clean_until <= log.log_end_offset:  # beyond the end: the tail was lost, and nothing is sure
        start = clean_until
    closed = log.segments[:-1]
    end = _first_untouchable(log, closed, start, now_ms)
    clean = sum(segment.size for segment, after in _with_ends(closed, end) if after <= start)
    dirty = [segment for segment, after in _with_ends(closed, end) if after > start]
    dirty_bytes = sum(segment.size for segment in dirty)
    ratio = dirty_bytes / (clean + dirty_bytes) if dirty_bytes else 0.0
    return Dirty(start, end, ratio, _is_overdue(dirty, log.config.max_compaction_lag_ms, now_ms))


def _with_ends(segments: tuple[Segment, ...], end: int) -> list[tuple[Segment, int]]:
    """Return the segments that begin before ``end``, each with the offset where the next begins."""
    held = [segment for segment in segments if segment.base_offset < end]
    ends = [segment.base_offset for segment in held[1:]] + [end] * bool(held)
    return list(zip(held, ends, strict=True))


def _first_untouchable(log: PartitionLog, segments: tuple[Segment, ...], start: int, now_ms: int) -> int:
    active = log.segments[-1].base_offset
    lag_ms, stable = log.config.min_compaction_lag_ms, log.last_stable_offset
    for i, segment in enumerate(segments):
        after = segments[i + 1].base_offset if i + 1 < len(segments) else active
        is_young = lag_ms > 0 and segment.max_timestamp > now_ms - lag_ms
        if after > start and (is_young or after > stable):
            return segment.base_offset
    return active


def _is_overdue(dirty: list[Segment], lag_ms: int, now_ms: int) -> bool:
    """Tell whether the oldest dirty segment has waited too long, by the time of its first batch."""
    if lag_ms >= LONG_MAX:
        return False
    first = min((t for segment in dirty if (t := segment.first_timestamp()) > 0), default=now_ms)
    return first < now_ms - lag_ms
