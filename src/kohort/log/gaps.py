"""What a log that was not stopped cleanly lacks, told by what is left: offsets between segments, and behind the last.

Offsets that are gone with a file leave no batch that could be wrong, so reading what is there finds nothing. What
tells of them is the name of the next segment, where nothing compacts the log, and the recovery point, up to which the
log was on the disk. A first segment that is gone cannot be told from one that retention has deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kohort.errors import CorruptLog
from kohort.log.checkpoints import RECOVERY_POINTS_FILE
from kohort.log.segment import Segment
from kohort.notes import Note, warning


def gaps_between(segments: Sequence[Segment]) -> Iterator[Note]:
    """Yield a note for each pair of segments between which offsets are missing; for logs that nothing compacts."""
    for segment, following in pairwise(segments):
        try:
            end = segment.end_offset()
        except CorruptLog as error:
            yield warning(f"{error}; left as it is, and cannot be read there")
            continue
        if end < following.base_offset:
            missing = f"offsets {end} to {following.base_offset - 1} are missing"
            yield warning(f"{missing}: {segment.log_name} ends before {following.log_name} begins")


def gap_at_the_end(next_offset: int, recovery_point: int) -> Iterator[Note]:
    """Yield a note where the log ends before its recovery point."""
    if next_offset < recovery_point:
        missing = f"offsets {next_offset} to {recovery_point - 1} are missing"
        yield warning(f"{missing}: they were on the disk, by {RECOVERY_POINTS_FILE}")


def end_of(segment: Segment) -> int | None:
    """Return the offset after the last of a segment; None where a damaged batch hides it."""
    try:
        return segment.end_offset()
    except CorruptLog:
        return None
