"""How many of a log's oldest segments may go. Segments go whole and in order, and only where a rule says so.

The last segment counts only by time: when even its latest record is too old the partition rolls, and it goes too,
as in Kafka. A log whose cleanup.policy is compact alone is not cut by time or size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kohort.log.segment import Segment


def below_start(segments: Sequence[Segment], start_offset: int) -> int:
    """Return segments of which no record may be read any more (DeleteRecords)."""
    gone = 0
    while gone + 1 < len(segments) and segments[gone + 1].base_offset <= start_offset:
        gone += 1
    return gone


def too_old(segments: Sequence[Segment], now_ms: int, retention_ms: int) -> int:
    """Return segments whose latest record is older than ``retention_ms``; a negative one keeps all."""
    if retention_ms < 0:
        return 0
    return _leading(segments, lambda segment: now_ms - segment.aged_from_ms() > retention_ms)


def too_many(segments: Sequence[Segment], retention_bytes: int) -> int:
    """Return segments without which the log still has ``retention_bytes``; a negative number keeps all."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes

    def spare(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _leading(segments, spare)


def _leading(segments: Sequence[Segment], may_go: Callable[[Segment], bool]) -> int:
    gone = 0
    for segment in segments:
        if (segment is segments[-1] and not segment.size) or not may_go(segment):
            break
        gone += 1
    return gone
