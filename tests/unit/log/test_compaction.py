"""Compaction: the last value of every key stays at its offset; crashes lose nothing."""

from dataclasses import replace

import pytest

from kohort.errors import ApiError, ErrorCode, RecordsRefused, StorageError
from kohort.log.storage import MemoryStorage
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from support.machines.log_stage import LogStage

DAY_MS = 86_400_000
PAD = "x" * 60


def stage_of(storage=None, **options):
    return LogStage(storage, **{"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", **options})


def put(stage, *pairs, codec=Codec.NONE, **producer):
    records = [
        NewRecord(k and k.encode(), v and f"{v} {PAD}".encode(), (("h", b"1"),), stage.now_ms + i)
        for i, (k, v) in enumerate(pairs)
    ]
    return stage.log.append(build_batch(records, codec=codec, **producer), stage.now_ms)


def batches_of(log):
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = b"".join(log.read(offset, 1 << 20))
        assert data, f"no batch at {offset}, but the log ends at {log.log_end_offset}"
        for at, header in split_batches(data):
            found.append((header, read_batch(data, at)))
            offset = header.next_offset
    return found


def records_of(log):
    return [(r.offset, r.key.decode(), r.value and r.value.decode().split()[0]) for _, b in batches_of(log) for r in b]


def roll(stage):
    stage.log.roll(stage.now_ms)


def compact(stage, seconds=30):
    notes = []
    end_ms = stage.now_ms + seconds * 1000
    while stage.topics.wake_at_ms <= end_ms:
        stage.clock.advance(max(stage.topics.wake_at_ms - stage.now_ms, 0))
        notes += map(str, stage.topics.tick(stage.now_ms))
    stage.check()
    return notes


def test_the_last_value_of_every_key_stays_at_its_offset():
    stage = stage_of()
    for n in range(40):
        put(stage, (f"k{n % 4}", f"v{n}"))
    roll(stage)
    put(stage, ("k0", "in the active segment"))

    notes = compact(stage)

    assert records_of(stage.log) == [
        (36, "k0", "v36"), (37, "k1", "v37"), (38, "k2", "v38"), (39, "k3", "v39"), (40, "k0", "in")
    ]  # fmt: skip
    assert stage.log.size_bytes < 1200
    assert stage.log.log_end_offset == 41
    assert len(notes) == 1
    assert notes[0].startswith("orders-0: compacted up to offset 40: ")
    assert ", 40 records 4, in " in notes[0]


def test_active_segment_is_not_compacted():
    stage = stage_of()
    for n in range(5):
        put(stage, ("k", f"v{n}"))

    assert compact(stage) == []

    assert len(records_of(stage.log)) == 5


def test_compaction_waits_for_min_cleanable_dirty_ratio():
    stage = stage_of(min_cleanable_dirty_ratio="0.9")
    for n in range(60):
        put(stage, (f"k{n}", "v"))
    roll(stage)
    assert len(compact(stage)) == 1
    for n in range(20):
        put(stage, (f"k{n}", "w"))
    roll(stage)

    assert compact(stage) == []

    stage.topics.alter_config("orders", {**stage.topics.get("orders").overrides, "min.cleanable.dirty.ratio": "0.1"})
    assert len(compact(stage)) == 1
    assert len(records_of(stage.log)) == 60


def test_young_records_wait_for_min_compaction_lag():
    stage = stage_of(min_compaction_lag_ms=str(DAY_MS))
    for n in range(20):
        put(stage, ("k", f"v{n}"))
    roll(stage)

    assert compact(stage) == []
    stage.clock.advance(DAY_MS)

    assert len(compact(stage)) == 1
    assert records_of(stage.log) == [(19, "k", "v19")]


def test_old_records_are_compacted_after_max_compaction_lag():
    stage = stage_of(min_cleanable_dirty_ratio="1", max_compaction_lag_ms=str(DAY_MS))
    put(stage, ("k", "v0"))
    put(stage, ("k", "v1"))
    assert compact(stage) == []
    stage.clock.advance(DAY_MS + 1)

    put(stage, ("j", "rolls the segment, as its first record is a day old"))

    assert len(compact(stage)) == 1
    assert [r[:2] for r in records_of(stage.log)] == [(1, "k"), (2, "j")]


def test_tombstone_is_dropped_after_delete_retention():
    stage = stage_of(delete_retention_ms=str(DAY_MS))
    put(stage, ("a", "v"), ("b", "v"))
    put(stage, ("a", None), ("b", "w"))
    roll(stage)
    compacted_ms = stage.now_ms + 15_000

    compact(stage)

    assert records_of(stage.log) == [(2, "a", None), (3, "b", "w")]
    (header, records), *_ = [b for b in batches_of(stage.log) if b[1]]
    assert compacted_ms + DAY_MS <= header.delete_horizon_ms <= compacted_ms + DAY_MS + 100
    assert [r.timestamp_ms for r in records] == [stage.clock.now_ms() - 30_000 + i for i in (0, 1)]
    assert records[0].headers == [("h", b"1")]
    put(stage, ("c", "v"))
    roll(stage)
    compact(stage)
    assert (2, "a", None) in records_of(stage.log)
    stage.clock.advance(DAY_MS)
    put(stage, ("c", "w"))
    roll(stage)

    compact(stage)

    assert records_of(stage.log) == [(3, "b", "w"), (5, "c", "w")]


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_batch_keeps_its_codec(codec):
    stage = stage_of(delete_retention_ms="0")
    put(stage, ("a", "1"), ("b", "1"), ("c", "1"), codec=codec)
    put(stage, ("b", "2"), ("d", None), codec=codec)
    roll(stage)

    compact(stage)

    assert records_of(stage.log) == [(0, "a", "1"), (2, "c", "1"), (3, "b", "2"), (4, "d", None)]
    assert {header.codec for header, records in batches_of(stage.log) if records} == {codec}


def test_last_batch_of_segment_stays_empty():
    stage = stage_of(delete_retention_ms="0")
    put(stage, ("a", "1"))
    put(stage, ("b", None))
    roll(stage)
    compact(stage)
    stage.clock.advance(1)
    put(stage, ("a", "2"))
    roll(stage)

    compact(stage)

    assert records_of(stage.log) == [(2, "a", "2")]
    assert stage.log.log_start_offset == 0
    assert stage.restart() == []
    assert stage.log.log_end_offset == 3
    stage.check()


def test_last_batch_of_producer_keeps_its_sequence():
    stage = stage_of()
    put(stage, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(stage, ("a", "2"))
    for n in range(30):
        put(stage, ("b", f"{n}"))
    roll(stage)

    compact(stage)
    for name in stage.files(".snapshot"):
        stage.storage.delete(f"orders-0/{name}")
    stage.crash()

    assert stage.log.producers.get(7).last_sequence == 0
    again = put(stage, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    assert again.duplicate
    empty = [header for header, records in batches_of(stage.log) if not records and header.producer_id == 7]
    assert [(h.base_offset, h.base_sequence, h.record_count) for h in empty] == [(0, 0, 0)]


def test_record_without_key_in_compacted_topic_is_rejected():
    stage = stage_of()

    with pytest.raises(ApiError, match="record 1 has no key") as error:
        put(stage, ("a", "1"), (None, "2"))

    assert error.value.code is ErrorCode.INVALID_RECORD
    assert stage.log.log_end_offset == 0


def test_rejected_records_without_key_are_listed_up_to_a_limit():
    stage = stage_of(segment_bytes="1000000")

    with pytest.raises(RecordsRefused, match="1999 records of the batch were refused: record 1 has") as error:
        put(stage, ("a", "1"), *[(None, "2")] * 1999)

    assert [index for index, _ in error.value.refused] == list(range(1, 1001))
    assert stage.log.log_end_offset == 0


def test_keys_beyond_memory_need_several_compactions():
    stage = stage_of(compaction_bytes=10 * 160)
    for n in range(60):
        put(stage, (f"k{n % 30}", f"v{n}"))
    roll(stage)

    notes = compact(stage, 60)

    assert len(notes) > 2
    assert [r[1] for r in records_of(stage.log)] == [f"k{n}" for n in range(30)]
    assert {r[2] for r in records_of(stage.log)} == {f"v{n}" for n in range(30, 60)}


def test_policy_compact_and_delete_does_both():
    stage = stage_of(cleanup_policy="compact,delete", retention_ms=str(DAY_MS))
    for n in range(20):
        put(stage, (f"k{n % 2}", f"v{n}"))
    roll(stage)
    compact(stage)
    assert len(records_of(stage.log)) == 2
    stage.clock.advance(DAY_MS)
    put(stage, ("late", "v"))

    compact(stage, 301)

    assert [r[1] for r in records_of(stage.log)] == ["late"]


def test_segments_deleted_by_retention_end_the_compaction():
    stage = stage_of(cleanup_policy="compact,delete")
    for n in range(40):
        put(stage, (f"k{n % 2}", f"v{n}"))
    roll(stage)
    stage.clock.advance(15_000)
    stage.topics.tick(stage.now_ms)
    stage.log.delete_records_before(35)
    stage.log.retain(stage.now_ms)

    notes = compact(stage, 100)

    assert any("was deleted during its compaction" in note for note in notes)
    assert [r[1:] for r in records_of(stage.log)] == [("k0", "v38"), ("k1", "v39")]


def test_topic_deleted_during_compaction_leaves_no_progress():
    stage = stage_of()
    overrides = stage.topics.get("orders").overrides
    for n in range(20):
        put(stage, ("k", f"v{n}"))
    roll(stage)
    compact(stage)
    for n in range(20):
        put(stage, ("k", f"v{n}"))
    roll(stage)
    stage.clock.advance(15_000)
    stage.topics.tick(stage.now_ms)

    stage.topics.delete("orders", stage.now_ms)
    compact(stage)
    stage.topics.create("orders", 1, overrides, stage.now_ms)
    for n in range(20):
        put(stage, ("k", f"w{n}"))
    roll(stage)
    compact(stage)

    assert records_of(stage.log) == [(19, "k", "w19")]


def test_changed_cleanup_policy_ends_the_compaction():
    stage = stage_of()
    for n in range(20):
        put(stage, ("k", f"v{n}"))
    roll(stage)
    stage.clock.advance(15_000)
    stage.topics.tick(stage.now_ms)

    stage.topics.alter_config("orders", {**stage.topics.get("orders").overrides, "cleanup.policy": "delete"})

    assert compact(stage) == ["orders-0: compaction abandoned: cleanup.policy has changed"]
    assert len(records_of(stage.log)) == 20


def test_compaction_step_is_limited_in_decompressed_bytes():
    stage = stage_of(segment_bytes="10000000")
    for n in range(50):
        put(stage, *((f"k{i}", f"{n}{PAD * 4}") for i in range(100)), codec=Codec.ZSTD)
    roll(stage)

    (note,) = compact(stage)

    steps = int(note.split(" in ")[1].split()[0])
    assert steps >= 2 * (50 * 100 * 300) // (2 << 16)


class DyingStorage(MemoryStorage):
    def __init__(self):
        super().__init__()
        self.remaining_changes = 10**9

    def _use(self):
        self.remaining_changes -= 1
        if self.remaining_changes < 0:
            raise KeyboardInterrupt

    def rename(self, name, new):
        self._use()
        super().rename(name, new)

    def start_delete(self, name):
        self._use()
        super().start_delete(name)


@pytest.mark.parametrize("cleanly", [False, True])
@pytest.mark.parametrize("changes", range(40))
def test_crash_during_segment_swap_loses_no_records(changes, cleanly):
    storage = DyingStorage()
    stage = stage_of(storage, segment_bytes="1024")
    for n in range(60):
        put(stage, (f"k{n % 7}", f"v{n}"))
    roll(stage)
    if cleanly:
        stage.restart()
    storage.remaining_changes = changes

    try:
        compact(stage)
    except KeyboardInterrupt:
        storage.remaining_changes = 10**9
        notes = stage.crash()
        assert not any("truncated" in note or "missing" in note for note in notes), notes
        stage.check()
        latest = {key: value for _, key, value in records_of(stage.log)}
        assert latest == {f"k{n % 7}": f"v{n}" for n in range(53, 60)}
        assert stage.log.log_end_offset == 60
    else:
        storage.remaining_changes = 10**9
    compact(stage)
    assert [r[2] for r in records_of(stage.log)] == [f"v{n}" for n in range(53, 60)]


class RefusingStorage(MemoryStorage):
    refuses = False

    def rename(self, name, new):
        if self.refuses:
            raise StorageError(f"cannot rename {name}: the disk refused")
        super().rename(name, new)


def test_failed_compaction_is_retried_later():
    stage = stage_of(RefusingStorage())
    for n in range(30):
        put(stage, ("k", f"v{n}"))
    roll(stage)
    stage.storage.refuses = True

    notes = compact(stage)

    assert notes[0].startswith("orders-0: compaction failed: cannot rename")
    assert len(records_of(stage.log)) == 30
    stage.storage.refuses = False
    compact(stage, 90)
    assert records_of(stage.log) == [(29, "k", "v29")]


def test_corrupt_batch_stops_compaction_until_restart():
    stage = stage_of()
    for n in range(30):
        put(stage, ("k", f"v{n}"))
    roll(stage)
    segment = stage.log.segments[0]
    stage.storage._folders["orders-0"][segment.log_name][100] ^= 0xFF

    stage.clock.advance(15_000)
    (note,) = map(str, stage.topics.tick(stage.now_ms))
    stage.clock.advance(600_000)

    assert note.startswith("orders-0 cannot be compacted: ")
    assert note.endswith("compaction is tried again after the next broker start")
    assert stage.topics.tick(stage.now_ms) == []
    assert stage.files(".cleaned") == []


def test_compaction_progress_survives_restart():
    stage = stage_of(min_cleanable_dirty_ratio="0.5")
    for n in range(30):
        put(stage, (f"k{n}", "v"))
    roll(stage)
    assert len(compact(stage)) == 1

    stage.restart()

    assert compact(stage) == []
    assert stage.topics._upkeep.cleaner.clean_until[stage.log.tp] == 30


def test_disabled_cleaner_compacts_nothing():
    stage = stage_of()
    stage.config = replace(stage.config, log_cleaner_enable=False)
    stage.restart()
    for n in range(30):
        put(stage, ("k", f"v{n}"))
    roll(stage)

    assert compact(stage, 120) == []
    assert len(records_of(stage.log)) == 30


def test_empty_key_is_a_valid_key():
    stage = stage_of()
    for value in (b"first", b"last"):
        stage.log.append(build_batch([NewRecord(b"", value, (), stage.now_ms)]), stage.now_ms)
    roll(stage)
    put(stage, ("k", "in the active segment"))

    compact(stage)

    assert [(offset, key) for offset, key, _ in records_of(stage.log)] == [(1, ""), (2, "k")]
