"""Invariants of a partition log, for tests and the simulator."""

from __future__ import annotations

from contextlib import suppress

from kohort.errors import CorruptRecord
from kohort.log.partition import PartitionLog
from kohort.log.segment import Segment
from kohort.wire.record_batch import check_crc, parse_marker


def check_invariants(log: PartitionLog) -> None:
    """Raise AssertionError with the violated invariant; reads the whole log."""
    segments = log.segments
    assert segments, f"{log}: no segment to append to"
    bases = [segment.base_offset for segment in segments]
    assert bases == sorted(set(bases)), f"{log}: segments out of order: {bases}"
    assert bases[0] <= log.log_start_offset <= log.log_end_offset, f"{log}: it starts outside of its segments"
    assert 0 <= log.recovery_point <= log.log_end_offset, f"{log}: recovery point {log.recovery_point}"
    end = bases[0]
    unended: set[int] = set()
    for segment in segments:
        assert end <= segment.base_offset, f"{log}: {segment} begins before {end}, where the one before it ends"
        end = max(end, _check_segment(log, segment, unended))
    assert end == log.log_end_offset, f"{log}: its batches end at {end}"
    unended = {producer_id for producer_id in unended if not log.producers.is_open(producer_id)}
    assert not unended, (
        f"{log}: transactions of producers {sorted(unended)} are closed, and their batches have no marker"
    )
    starts = [start for _, start in log.epochs.entries]
    assert all(start <= log.log_end_offset for start in starts), f"{log}: an epoch begins beyond the end: {starts}"
    for producer_id, producer in log.producers:
        for batch in producer.batches:
            assert batch.last_offset < log.log_end_offset, f"{log}: producer {producer_id} is ahead of the log: {batch}"


def _check_segment(log: PartitionLog, segment: Segment, unended: set[int]) -> int:
    end, size, latest, ends = segment.base_offset, 0, -1, {}
    for position, header in segment.headers():
        assert position == size, f"{log}: {segment} has a hole at {size}"
        assert header.base_offset >= end, f"{log}: {segment} goes back from {end} to {header.base_offset}"
        batch = segment.batch(position, header)
        check_crc(batch, 0, header)
        if header.is_control:
            with suppress(CorruptRecord):  # recovery skips it, too
                if parse_marker(batch, header) is not None:
                    unended.discard(header.producer_id)
        elif header.is_transactional:
            unended.add(header.producer_id)
        epoch = header.partition_leader_epoch
        assert 0 <= epoch <= log.leader_epoch, f"{log}: epoch {epoch} at {header.base_offset}"
        end, size, latest = header.next_offset, position + header.size, max(latest, header.max_timestamp)
        ends[header.last_offset] = position
    assert size == segment.size, f"{log}: {segment} holds batches of {size} bytes"
    if size:
        assert segment.max_timestamp == latest, f"{log}: {segment} says {segment.max_timestamp}, its batches {latest}"
        for last_offset, position in segment.index_entries():
            assert ends.get(last_offset) == position, f"{log}: {segment} indexes {last_offset} at {position}"
    return end
