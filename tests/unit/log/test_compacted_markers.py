"""Transaction markers in a compacted log (KIP-98, KIP-534)."""

import pytest

from kohort.wire.record_batch import (
    BatchHeader,
    Marker,
    NewRecord,
    build_batch,
    build_marker,
    parse_marker,
    split_batches,
)
from support.machines.log_stage import LogStage

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def stage():
    return stage_of()


def stage_of(**options):
    all_options = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0", "delete_retention_ms": str(HOUR_MS)}
    return LogStage(**(all_options | options))


def write(stage, pid, key, value="v", sequence=-1):
    options = {"producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    record = NewRecord(key.encode(), value.encode(), (), stage.now_ms)
    return stage.log.append(
        build_batch([record], producer_id=pid, **options), stage.now_ms, from_client=sequence >= 0
    ).base_offset


def end(stage, pid, *, committed=True, epoch=0):
    return stage.log.end_transaction(Marker(pid, epoch, committed, 0), stage.now_ms).base_offset


def compact(stage, seconds=30):
    stage.append("filler", key=b"filler")
    stage.log.roll(stage.now_ms)
    work(stage, seconds)


def work(stage, seconds=30):
    end_ms = stage.now_ms + seconds * 1000
    while stage.topics.wake_at_ms <= end_ms:
        stage.clock.advance(max(stage.topics.wake_at_ms - stage.now_ms, 0))
        stage.topics.tick(stage.now_ms)
    stage.check()


def batches(stage) -> list[tuple[bytes, BatchHeader]]:
    found = []
    for segment in stage.log.segments:
        data = segment.file().read(0, segment.size)
        found += [(bytes(data[at : at + header.size]), header) for at, header in split_batches(data)]
    return found


def markers(stage, pid=1) -> list[int]:
    return [h.base_offset for data, h in batches(stage) if h.producer_id == pid and h.is_control and h.record_count]


def lose_snapshots(stage, count=100):
    for name in sorted(stage.files(".snapshot"))[::-1][:count]:
        stage.storage.delete(f"orders-0/{name}")


def test_marker_stays_while_its_transaction_has_records(stage):
    write(stage, 1, "k")
    at = end(stage, 1)

    for _ in range(4):
        compact(stage)
        stage.clock.advance(2 * HOUR_MS)

    assert markers(stage) == [at]
    assert [h.delete_horizon_ms for _, h in batches(stage) if h.base_offset == at] == [None]


@pytest.mark.parametrize("committed", [True, False])
def test_marker_without_records_is_dropped_after_delete_retention(committed):
    stage = stage_of()
    write(stage, 1, "k")
    first = end(stage, 1, committed=committed)
    written_ms = stage.now_ms
    write(stage, 1, "k", "w")
    second = end(stage, 1)

    compact(stage)
    assert markers(stage) == [first, second]  # compaction dropped the records
    assert all(h.delete_horizon_ms is None for _, h in batches(stage) if h.is_control)

    before_ms = stage.now_ms
    compact(stage)
    ((data, header),) = [(data, h) for data, h in batches(stage) if h.base_offset == first]
    assert before_ms + HOUR_MS <= header.delete_horizon_ms <= stage.now_ms + HOUR_MS
    assert parse_marker(data, header) == Marker(1, 0, committed, 0)
    assert header.max_timestamp == written_ms

    stage.clock.advance(HOUR_MS - 60_000)
    compact(stage)
    assert markers(stage) == [first, second]

    stage.clock.advance(60_000)
    compact(stage)
    assert markers(stage) == [second]
    assert stage.log.last_stable_offset == stage.log.log_end_offset


def test_compacted_log_of_many_transactions_stays_small(stage):
    for n in range(300):
        write(stage, 1 + n % 3, f"group-{n % 3}", f"{n}")
        end(stage, 1 + n % 3, committed=n % 5 > 0)

    for _ in range(6):
        compact(stage)
        stage.clock.advance(HOUR_MS)

    remaining = sum(len(markers(stage, pid)) for pid in (1, 2, 3))
    assert 3 <= remaining <= 5  # kept batches, and an empty batch at the end of a segment
    assert stage.log.size_bytes < 2_000


def test_last_batch_of_producer_keeps_its_marker(stage):
    write(stage, 1, "k", sequence=0)
    at = end(stage, 1)
    for n in range(3):
        stage.append(f"{n}", key=b"k")
        compact(stage)
        stage.clock.advance(HOUR_MS)
    assert markers(stage) == [at]

    lose_snapshots(stage)
    stage.crash()

    assert stage.log.producers.get(1).last_sequence == 0
    assert stage.log.last_stable_offset == stage.log.log_end_offset


def test_producer_with_only_markers_keeps_one_marker(stage):
    earlier = end(stage, 1, epoch=3)
    at = end(stage, 1, epoch=4)
    for _ in range(3):
        compact(stage)
        stage.clock.advance(HOUR_MS)

    assert earlier not in markers(stage)
    assert markers(stage) == [at]
    lose_snapshots(stage)
    stage.crash()
    assert stage.log.producers.get(1).epoch == 4


def test_expired_producer_keeps_no_marker(stage):
    end(stage, 1)
    stage.clock.advance(2 * DAY_MS)

    for _ in range(3):
        compact(stage)
        stage.clock.advance(HOUR_MS)

    assert stage.log.producers.get(1) is None
    assert markers(stage) == []


def test_dropped_marker_at_segment_end_leaves_empty_batch(stage):
    end(stage, 1)
    at = stage.log.log_end_offset - 1
    stage.log.roll(stage.now_ms)
    stage.clock.advance(2 * DAY_MS)
    for _ in range(3):
        stage.append("x" * 900, key=f"{stage.now_ms}".encode())  # too large to share the first segment
        compact(stage)
        stage.clock.advance(HOUR_MS)
    assert [(h.base_offset, h.record_count) for _, h in batches(stage) if h.is_control] == [(at, 0)]

    stage.topics.alter_config("orders", {**stage.topics.get("orders").overrides, "segment.bytes": "100000"})
    compact(stage)

    assert [h for _, h in batches(stage) if h.is_control] == []
    lose_snapshots(stage)
    stage.crash()
    assert stage.log.last_stable_offset == stage.log.log_end_offset


def control_batch(stage, key: bytes):
    batch = build_batch(
        [NewRecord(key, b"", (), stage.now_ms)], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True
    )
    return stage.log.append(batch, stage.now_ms, from_client=False).base_offset


@pytest.mark.parametrize("key", [b"\x00\x00\x00\x07", b"\x00"], ids=["another kind", "too short"])
def test_control_batch_of_other_type_stays(stage, key):
    write(stage, 1, "k")
    at = control_batch(stage, key)
    last = end(stage, 1)

    for _ in range(3):
        compact(stage)
        stage.clock.advance(HOUR_MS)

    assert markers(stage) == [at, last]


def test_restart_without_snapshot_does_not_reopen_ended_transaction():
    stage = stage_of(compaction_bytes=1, delete_retention_ms="0")  # each compaction ends after a batch
    write(stage, 1, "k")
    stage.log.roll(stage.now_ms)  # with a snapshot that says: open
    at = end(stage, 1)
    for n in range(6):
        stage.append(f"{n}", key=b"k")
    stage.log.roll(stage.now_ms)
    stage.append("in the active segment", key=b"k")
    stage.clock.advance(2 * DAY_MS)  # the producer expires

    work(stage, 600)

    assert at not in markers(stage)
    lose_snapshots(stage, 1)
    stage.crash()
    assert stage.log.last_stable_offset == stage.log.log_end_offset


def test_marker_bytes_are_unchanged():
    assert len(build_marker(Marker(1, 0, True, 0), 1_700_000_000_000)) == 78
