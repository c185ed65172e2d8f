"""Recovery of a partition's log at broker start: list its segments, repair them, report the repairs.

After a clean stop the files are trusted, and only the last batches of producers are read. After an unclean stop header,
CRC and offsets of each batch are checked, from the segment of the recovery point on. At the first bad batch the segment
is truncated and all later segments are deleted, as in Kafka; indexes are rebuilt. All acknowledged records lie before
the bad batch, unless power failed before a flush, or the disk is faulty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import Final

from kohort.errors import CorruptLog, CorruptRecord
from kohort.log.aborted import ENDING, AbortedTransactions
from kohort.log.batches import check_place, checked_headers, original_base_offset
from kohort.log.data_folder import PARTITION_METADATA_FILE
from kohort.log.epochs import EPOCHS_FILE, LeaderEpochs
from kohort.log.producers import Producers
from kohort.log.segment import Segment, SegmentLimits, segment_name
from kohort.log.segment_queries import end_of, gap_at_the_end, gaps_between
from kohort.log.segment_swap import NAME_DIGITS, finish_interrupted
from kohort.log.storage import Storage
from kohort.notes import Note, info, warning
from kohort.wire.record_batch import BatchHeader, Marker, parse_marker

Replay = Callable[[Segment, int, BatchHeader], None]

RECALLED_BYTES: Final = 256 << 10
"""Number of bytes before a producer snapshot that are read for the batches that the snapshot omits."""
LEFTOVERS: Final = (".tmp", ".deleted", ".cleaned", ".swap")


@dataclass(frozen=True, slots=True)
class LogToRecover:
    """Folder of a log, and its checkpoints. ``clean``: the last stop of the broker was clean."""

    storage: Storage
    folder: str
    limits: SegmentLimits
    clean: bool
    recovery_point: int = 0
    start_offset: int = 0
    contiguous: bool = True
    """True for a log without compaction: offsets have no gaps."""
    ended_at: int | None = None
    """Log end according to the last producer snapshot, if known."""


@dataclass(slots=True)
class Recovered:
    """Recovered log; appends go to its last segment."""

    segments: list[Segment]
    next_offset: int
    start_offset: int
    recovery_point: int
    producers: Producers
    aborted: AbortedTransactions
    epochs: LeaderEpochs
    new_epoch: bool
    snapshots: list[int]
    notes: list[Note]


@dataclass(slots=True)
class _Files:
    """Files of a partition folder. Base offsets are keys to log sizes, and to names and sizes of indexes."""

    segments: dict[int, int]
    indexes: dict[int, list[tuple[str, int]]]
    snapshots: list[int]
    epochs: bool = False


def recover(source: LogToRecover, now_ms: int) -> Recovered:
    """Open the log in the folder of ``source``. Raises StorageError if the disk fails."""
    try:
        return _recover(source, now_ms)
    except CorruptLog as error:
        if not source.clean:
            raise
        ended_at = max(_sort_files(source, []).snapshots, default=None)
        found = _recover(replace(source, clean=False, ended_at=ended_at), now_ms)
        found.notes.insert(0, warning(f"checked the log after a clean stop: {error}"))
        return found


def _recover(source: LogToRecover, now_ms: int) -> Recovered:
    notes = finish_interrupted(source.storage, source.folder)
    files = _sort_files(source, notes)
    segments = _segments_of(source, files, now_ms, notes)
    epochs = _read_epochs(source, segments, files, notes)
    first_unflushed = len(segments) - 1
    if not source.clean:
        flushed = (i for i, segment in enumerate(segments) if segment.base_offset <= source.recovery_point)
        first_unflushed = max(flushed, default=0)
        if first_unflushed and not segments[first_unflushed].size:
            first_unflushed -= 1
    snapshot_limit = None if source.clean else segments[first_unflushed].base_offset
    producers, replay_from = _read_snapshot(source, files.snapshots, snapshot_limit, notes)
    _recall(segments, producers, replay_from)
    trusted = len(segments) if source.clean else first_unflushed
    aborted = _read_aborted(source, segments, files, trusted, notes)
    if aborted is None:
        aborted, producers, replay_from = AbortedTransactions(source.storage, source.folder), Producers(), 0

    def replay(segment: Segment, position: int, header: BatchHeader) -> None:
        if header.partition_leader_epoch >= 0:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.last_offset >= replay_from:
            producers.record(header, header.base_offset, header.max_timestamp, now_ms)
            if header.is_control and (marker := _marker_of(segment, position, header, notes)) is not None:
                entry = producers.aborted_by(marker, header.base_offset)
                if entry is not None:
                    aborted.add(entry, segment_name(segment.base_offset))
                producers.end(marker, header.max_timestamp, now_ms)

    if source.clean:
        ended_at = max(files.snapshots, default=None)
        next_offset = _open_clean(segments, ended_at, replay_from, replay, notes)
    else:
        _replay_headers(segments, first_unflushed, replay_from, replay, notes)
        next_offset = _recover_unflushed(source, segments, first_unflushed, replay, notes)
        if source.contiguous:
            notes += (note for note in gaps_between(segments) if note not in notes)
        notes += gap_at_the_end(next_offset, source.recovery_point)
    start_offset = max(source.start_offset, segments[0].base_offset)
    if start_offset > next_offset:
        notes.append(
            warning(f"log start {start_offset} of the checkpoint is beyond the log's end: using the end {next_offset}")
        )
        start_offset = next_offset
    latest = epochs.latest
    epochs.truncate_end(next_offset + 1)
    return Recovered(
        segments=segments,
        next_offset=next_offset,
        start_offset=start_offset,
        recovery_point=next_offset if source.clean else min(source.recovery_point, next_offset),
        producers=producers,
        aborted=aborted,
        epochs=epochs,
        new_epoch=latest is not None and not source.clean and epochs.assign(latest + 1, next_offset),
        snapshots=sorted(offset for offset in files.snapshots if offset <= replay_from),
        notes=notes,
    )


def _marker_of(segment: Segment, position: int, header: BatchHeader, notes: list[Note]) -> Marker | None:
    """Return the marker of a control batch; None with a note if it is malformed."""
    try:
        return parse_marker(segment.batch(position, header), header)
    except CorruptRecord as error:
        notes.append(warning(f"ignored the control batch at offset {header.base_offset}: {error.problem}"))
        return None


# ---------------------------------------------------------------- files


def _sort_files(source: LogToRecover, notes: list[Note]) -> _Files:
    found = _Files({}, {}, [])
    foreign = []
    for name, size in source.storage.files(source.folder).items():
        stem, _, ending = name.partition(".")
        base = int(stem) if len(stem) == NAME_DIGITS and stem.isascii() and stem.isdigit() else None
        if name.endswith(LEFTOVERS):
            source.storage.delete(f"{source.folder}/{name}")
            notes.append(info(f"deleted the unfinished file {name}"))
        elif base is not None and ending == "log":
            found.segments[base] = size
        elif base is not None and ending in ("index", "timeindex", "txnindex"):
            found.indexes.setdefault(base, []).append((name, size))
        elif base is not None and ending == "snapshot":
            found.snapshots.append(base)
        elif name == EPOCHS_FILE:
            found.epochs = True
        elif name != PARTITION_METADATA_FILE:
            foreign.append(name)
    if foreign:
        notes.append(info(f"ignored files that do not belong to a log: {', '.join(foreign)}"))
    for base, indexes in found.indexes.items():
        if base not in found.segments:
            for name, _ in indexes:
                source.storage.delete(f"{source.folder}/{name}")
                notes.append(warning(f"deleted {name}: its log is missing"))
    found.segments = dict(sorted(found.segments.items()))
    return found


def _segments_of(source: LogToRecover, files: _Files, now_ms: int, notes: list[Note]) -> list[Segment]:
    """Return the segments, oldest first. Delete empty ones except the last: appends continue there."""
    segments = [
        Segment(source.storage, source.folder, base, source.limits, now_ms, size)
        for base, size in files.segments.items()
    ]
    for segment in segments[:-1]:
        if not segment.size:
            segment.delete()
            notes.append(warning(f"deleted the empty {segment.log_name}"))
    segments = [segment for segment in segments if segment.size or segment is segments[-1]]
    if not segments:
        return [Segment(source.storage, source.folder, source.start_offset, source.limits, now_ms)]
    if not segments[-1].size:
        for name, size in files.indexes.get(segments[-1].base_offset, []):
            if size:  # preallocated by Kafka: new entries must not follow the zeros
                source.storage.delete(f"{source.folder}/{name}")
    return segments


def _read_epochs(source: LogToRecover, segments: list[Segment], files: _Files, notes: list[Note]) -> LeaderEpochs:
    data = source.storage.read(f"{source.folder}/{EPOCHS_FILE}") if files.epochs else None
    if data is not None:
        try:
            return LeaderEpochs.parse(data)
        except ValueError as error:
            notes.append(warning(f"cannot read {EPOCHS_FILE} ({error}); rebuilt it from the batches"))
    if not files.epochs and any(segment.size for segment in segments):
        notes.append(warning(f"{EPOCHS_FILE} is missing; rebuilt it from the batches"))
    return _epochs_of([segment for segment in segments if segment.size])


def _epochs_of(segments: list[Segment]) -> LeaderEpochs:
    """Return the epochs of the batches.

    Epochs increase, so a segment is read to its end only if the next segment begins with another epoch.
    """
    epochs = LeaderEpochs()
    firsts = [_first_epoch(segment) for segment in segments]
    for segment, first, after in zip_longest(segments, firsts, firsts[1:]):
        with suppress(CorruptLog):  # an append needs only the latest epoch
            for _, header in segment.headers():
                if header.partition_leader_epoch >= 0:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
                if first == after:
                    break
    return epochs


def _first_epoch(segment: Segment) -> int | None:
    try:
        return next(segment.headers())[1].partition_leader_epoch
    except CorruptLog:
        return None


def _read_snapshot(
    source: LogToRecover, snapshots: list[int], limit: int | None, notes: list[Note]
) -> tuple[Producers, int]:
    """Return the latest valid snapshot up to ``limit``, and the offset of the first batch to replay.

    Later snapshots are deleted: they may cover batches that recovery removes.
    """
    for offset in sorted(snapshots, reverse=True):
        name = f"{segment_name(offset)}.snapshot"
        data = source.storage.read(f"{source.folder}/{name}")
        if data is not None and (limit is None or offset <= limit):
            try:
                return Producers.parse_snapshot(data), offset
            except ValueError as error:
                notes.append(warning(f"deleted the damaged {name}: {error}"))
        source.storage.delete(f"{source.folder}/{name}")
    return Producers(), 0


def _recall(segments: list[Segment], producers: Producers, offset: int) -> None:
    """Read the last bytes of the log before the snapshot, for the batches that the snapshot omits."""
    holding = [segment for segment in segments if segment.size and segment.base_offset < offset]
    if not holding or not len(producers):
        return
    segment = holding[-1]
    with suppress(CorruptLog):  # only retries of these batches are affected; reads report the damaged batch
        entries = [(last, position) for last, position in segment.index_entries() if last < offset]
        far = entries[-1][1] - RECALLED_BYTES if entries else 0
        begin = next((last for last, position in entries if position >= far), 0) if far > 0 else 0
        batches = takewhile(lambda found: found[1].base_offset < offset, segment.headers(begin))
        producers.recall(header for _, header in batches)


def _read_aborted(
    source: LogToRecover, segments: list[Segment], files: _Files, trusted: int, notes: list[Note]
) -> AbortedTransactions | None:
    """Load the entries of the first ``trusted`` segments. None if a file is malformed: all are rebuilt."""
    aborted = AbortedTransactions(source.storage, source.folder)
    problem = ""
    for i, segment in enumerate(segments):
        name = segment_name(segment.base_offset)
        if any(found == f"{name}.{ENDING}" for found, _ in files.indexes.get(segment.base_offset, [])):
            try:
                aborted.load(name) if i < trusted else aborted.reset_segment(name)
            except ValueError as error:
                problem = f"cannot read {name}.{ENDING} ({error}); rebuilt it from the markers"
    if not problem:
        return aborted
    notes.append(warning(problem))
    for segment in segments:
        aborted.reset_segment(segment_name(segment.base_offset))
    return None


# ---------------------------------------------------------------- after a clean stop


def _open_clean(
    segments: list[Segment], ended_at: int | None, replay_from: int, replay: Replay, notes: list[Note]
) -> int:
    """Return the end of the log, found from the index of the last segment. Raises CorruptLog on a contradiction.

    A clean stop leaves a producer snapshot with the log's end, ``ended_at``, in its name.
    """
    last = segments[-1]
    next_offset = last.end_offset()
    if not last.size and len(segments) > 1 and segments[-2].end_offset() > next_offset:
        raise CorruptLog(f"{segments[-2].log_name} overlaps {last.log_name}")
    if ended_at is not None and next_offset != ended_at:
        raise CorruptLog(f"the log ends at {next_offset}, but its last producer snapshot at {ended_at}")
    _replay_headers(segments, len(segments) - 1, replay_from, replay, notes)
    if next_offset > replay_from:
        for position, header in last.headers(replay_from):
            replay(last, position, header)
    return next_offset


def _replay_headers(segments: list[Segment], count: int, replay_from: int, replay: Replay, notes: list[Note]) -> None:
    """Replay the batches of the first ``count`` segments that the snapshot does not cover.

    These segments were flushed. A segment that was damaged after its flush is kept, like the segments after it.
    """
    for i in range(count):
        if segments[i].size and segments[i + 1].base_offset > replay_from:
            try:
                for position, header in segments[i].headers(replay_from, segments[i + 1].base_offset):
                    replay(segments[i], position, header)
            except CorruptLog as error:
                notes.append(warning(f"{error}; not repaired, reads of this batch fail"))


# ---------------------------------------------------------------- after an unclean stop


def _recover_unflushed(
    source: LogToRecover, segments: list[Segment], first: int, replay: Replay, notes: list[Note]
) -> int:
    """Check every batch from ``segments[first]`` on, truncate at the first bad one, return the log's end.

    Repairs a batch if only its base offset is damaged.
    """
    expected = segments[first].base_offset
    for i in range(first, len(segments)):
        segment = segments[i]
        if not segment.size:
            return _begin_at(segments, expected, notes)
        is_last = i + 1 == len(segments) or not segments[i + 1].size
        limit = None if is_last else segments[i + 1].base_offset
        check = _Check(segment, limit, source, replay, notes, segment.base_offset)
        segment.rebuild_indexes(check.good_batches())
        expected = max(expected, check.next_offset)
        if check.problem:
            removed = segment.size - check.good_bytes
            notes.append(
                warning(f"truncated {removed} bytes at offset {expected} from {segment.log_name}: {check.problem}")
            )
            segment.truncate(check.good_bytes)
            later = segments[i + 1 :]
            if later:
                size, first_name = sum(s.size for s in later), later[0].log_name
                end = max((end for s in later if (end := end_of(s)) is not None), default=expected)
                notes.append(
                    warning(
                        f"deleted {len(later)} later segments ({size} bytes), from {first_name} on;"
                        f" the log ended at offset {end}"
                    )
                )
            for deleted in later:
                deleted.delete()
            del segments[i + 1 :]
            break
    return expected


def _begin_at(segments: list[Segment], expected: int, notes: list[Note]) -> int:
    last = segments[-1]
    if expected <= last.base_offset:
        return last.base_offset
    notes.append(info(f"deleted the empty {last.log_name}: the log ends at offset {expected}"))
    segments.pop().delete()
    return expected


@dataclass(slots=True)
class _Check:
    """Check of all batches of a segment. ``limit``: base offset of the next segment, if it has batches.

    The results: end of the good batches as offset and position, and the problem of the first bad batch.
    """

    segment: Segment
    limit: int | None
    source: LogToRecover
    replay: Replay
    notes: list[Note]
    next_offset: int
    good_bytes: int = 0
    problem: str = ""

    def good_batches(self) -> Iterator[tuple[int, BatchHeader]]:
        try:
            for position, found, after in self._with_next():
                header = self._in_place(position, found, after)
                self.replay(self.segment, position, header)
                self.next_offset = header.next_offset
                self.good_bytes = position + header.size
                yield position, header
        except CorruptRecord as error:
            self.problem = error.problem

    def _with_next(self) -> Iterator[tuple[int, BatchHeader, int | None]]:
        """Yield each batch with the base offset of the next one; None at an incomplete batch or the log's end."""
        previous = None
        try:
            for found in checked_headers(self.segment.file(), self.segment.size):
                if previous is not None:
                    yield *previous, found[1].base_offset
                previous = found
        except CorruptRecord:
            if previous is not None:
                yield *previous, None
            raise
        if previous is not None:
            yield *previous, self.source.ended_at if self.limit is None else self.limit

    def _in_place(self, position: int, header: BatchHeader, after: int | None) -> BatchHeader:
        segment_base, contiguous = self.segment.base_offset, self.source.contiguous
        base_offset = original_base_offset(header, self.next_offset, after, segment_base, contiguous=contiguous)
        if base_offset != header.base_offset:
            self.segment.move(position, base_offset)
            before, name = header.base_offset, self.segment.log_name
            self.notes.append(
                warning(f"repaired base offset {before} to {base_offset} of the batch at position {position} in {name}")
            )
            header = header._replace(base_offset=base_offset)
        check_place(header, self.next_offset, self.segment.base_offset, self.limit)
        return header
