"""Compaction: the last value of every key stays, at its offset; a crash does no harm."""

import pytest

from kohort.errors import ApiError, ErrorCode, RecordsRefused, StorageError
from kohort.log.storage import MemoryStorage
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from support.machines.log_stage import LogRoom

DAY_MS = 86_400_000
PAD = "x" * 60


def room_of(storage=None, **options):
    return LogRoom(storage, **{"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", **options})


def put(room, *pairs, codec=Codec.NONE, **producer):
    """One batch of (key, value) pairs; a value of None is a tombstone."""
    records = [
        NewRecord(k and k.encode(), v and f"{v} {PAD}".encode(), (("h", b"1"),), room.now_ms + i)
        for i, (k, v) in enumerate(pairs)
    ]
    return room.log.append(build_batch(records, codec=codec, **producer), room.now_ms)


def batches_of(log):
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = b"".join(log.read(offset, 1 << 20))
        assert data, f"nothing at {offset}, though the log ends at {log.log_end_offset}"
        for at, header in split_batches(data):
            found.append((header, read_batch(data, at)))
            offset = header.next_offset
    return found


def records_of(log):
    return [(r.offset, r.key.decode(), r.value and r.value.decode().split()[0]) for _, b in batches_of(log) for r in b]


def roll(room):
    room.log.roll(room.now_ms)


def compact(room, seconds=30):
    """Let the cleaner do what it wants to; returns what it told."""
    notes = []
    end_ms = room.now_ms + seconds * 1000
    while room.topics.wake_at_ms <= end_ms:
        room.clock.advance(max(room.topics.wake_at_ms - room.now_ms, 0))
        notes += map(str, room.topics.tick(room.now_ms))
    room.check()
    return notes


def test_the_last_value_of_every_key_stays_at_its_offset():
    room = room_of()
    for n in range(40):
        put(room, (f"k{n % 4}", f"v{n}"))
    roll(room)
    put(room, ("k0", "in the active segment"))

    notes = compact(room)

    assert records_of(room.log) == [
        (36, "k0", "v36"), (37, "k1", "v37"), (38, "k2", "v38"), (39, "k3", "v39"), (40, "k0", "in")
    ]  # fmt: skip
    assert room.log.size_bytes < 1200
    assert room.log.log_end_offset == 41
    assert len(notes) == 1
    assert notes[0].startswith("orders-0: compacted up to offset 40: ")
    assert ", 40 records 4, in " in notes[0]


def test_what_is_appended_to_is_not_compacted():
    room = room_of()
    for n in range(5):
        put(room, ("k", f"v{n}"))

    assert compact(room) == []

    assert len(records_of(room.log)) == 5


def test_it_waits_until_the_dirty_part_is_large_enough():
    room = room_of(min_cleanable_dirty_ratio="0.9")
    for n in range(60):
        put(room, (f"k{n}", "v"))
    roll(room)
    assert len(compact(room)) == 1
    for n in range(20):
        put(room, (f"k{n}", "w"))
    roll(room)

    assert compact(room) == []

    room.topics.alter_config("orders", {**room.topics.get("orders").overrides, "min.cleanable.dirty.ratio": "0.1"})
    assert len(compact(room)) == 1
    assert len(records_of(room.log)) == 60


def test_young_records_wait_for_min_compaction_lag():
    room = room_of(min_compaction_lag_ms=str(DAY_MS))
    for n in range(20):
        put(room, ("k", f"v{n}"))
    roll(room)

    assert compact(room) == []
    room.clock.advance(DAY_MS)

    assert len(compact(room)) == 1
    assert records_of(room.log) == [(19, "k", "v19")]


def test_old_records_do_not_wait_longer_than_max_compaction_lag():
    room = room_of(min_cleanable_dirty_ratio="1", max_compaction_lag_ms=str(DAY_MS))
    put(room, ("k", "v0"))
    put(room, ("k", "v1"))
    assert compact(room) == []
    room.clock.advance(DAY_MS + 1)

    put(room, ("j", "rolls the segment, as its first record is a day old"))

    assert len(compact(room)) == 1
    assert [r[:2] for r in records_of(room.log)] == [(1, "k"), (2, "j")]


def test_a_tombstone_stays_for_delete_retention_and_then_goes():
    room = room_of(delete_retention_ms=str(DAY_MS))
    put(room, ("a", "v"), ("b", "v"))
    put(room, ("a", None), ("b", "w"))
    roll(room)
    compacted_ms = room.now_ms + 15_000

    compact(room)

    assert records_of(room.log) == [(2, "a", None), (3, "b", "w")]
    (header, records), *_ = [b for b in batches_of(room.log) if b[1]]
    assert compacted_ms + DAY_MS <= header.delete_horizon_ms <= compacted_ms + DAY_MS + 100
    assert [r.timestamp_ms for r in records] == [room.clock.now_ms() - 30_000 + i for i in (0, 1)]
    assert records[0].headers == [("h", b"1")]
    put(room, ("c", "v"))
    roll(room)
    compact(room)
    assert (2, "a", None) in records_of(room.log)
    room.clock.advance(DAY_MS)
    put(room, ("c", "w"))
    roll(room)

    compact(room)

    assert records_of(room.log) == [(3, "b", "w"), (5, "c", "w")]


@pytest.mark.parametrize("codec", list(Codec))
def test_what_stays_of_a_compressed_batch_is_compressed_alike(codec):
    room = room_of(delete_retention_ms="0")
    put(room, ("a", "1"), ("b", "1"), ("c", "1"), codec=codec)
    put(room, ("b", "2"), ("d", None), codec=codec)
    roll(room)

    compact(room)

    assert records_of(room.log) == [(0, "a", "1"), (2, "c", "1"), (3, "b", "2"), (4, "d", None)]
    assert {header.codec for header, records in batches_of(room.log) if records} == {codec}


def test_the_end_of_a_segment_stays_as_an_empty_batch_so_that_offsets_never_change():
    room = room_of(delete_retention_ms="0")
    put(room, ("a", "1"))
    put(room, ("b", None))
    roll(room)
    compact(room)
    room.clock.advance(1)
    put(room, ("a", "2"))
    roll(room)

    compact(room)

    assert records_of(room.log) == [(2, "a", "2")]
    assert room.log.log_start_offset == 0
    assert room.restart() == []
    assert room.log.log_end_offset == 3
    room.check()


def test_the_last_batch_of_a_producer_stays_for_its_sequence():
    room = room_of()
    put(room, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(room, ("a", "2"))
    for n in range(30):
        put(room, ("b", f"{n}"))
    roll(room)

    compact(room)
    for name in room.files(".snapshot"):
        room.storage.delete(f"orders-0/{name}")
    room.crash()

    assert room.log.producers.get(7).last_sequence == 0
    again = put(room, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    assert again.duplicate
    empty = [header for header, records in batches_of(room.log) if not records and header.producer_id == 7]
    assert [(h.base_offset, h.base_sequence, h.record_count) for h in empty] == [(0, 0, 0)]


def test_a_record_without_a_key_is_refused():
    room = room_of()

    with pytest.raises(ApiError, match="record 1 has no key") as error:
        put(room, ("a", "1"), (None, "2"))

    assert error.value.code is ErrorCode.INVALID_RECORD
    assert room.log.log_end_offset == 0


def test_all_records_without_a_key_are_named_up_to_a_limit():
    room = room_of(segment_bytes="1000000")

    with pytest.raises(RecordsRefused, match="1999 of the batch's records are refused: record 1 has") as error:
        put(room, ("a", "1"), *[(None, "2")] * 1999)

    assert [index for index, _ in error.value.refused] == list(range(1, 1001))
    assert room.log.log_end_offset == 0


def test_more_keys_than_fit_memory_take_several_goes():
    room = room_of()
    room.topics._upkeep._cleaner._config = dataclass_replace(room.config, log_cleaner_dedupe_buffer_size=10 * 160)
    for n in range(60):
        put(room, (f"k{n % 30}", f"v{n}"))
    roll(room)

    notes = compact(room, 60)

    assert len(notes) > 2
    assert [r[1] for r in records_of(room.log)] == [f"k{n}" for n in range(30)]
    assert {r[2] for r in records_of(room.log)} == {f"v{n}" for n in range(30, 60)}


def dataclass_replace(config, **changes):
    import dataclasses

    return dataclasses.replace(config, **changes)


def test_compact_and_delete_does_both():
    room = room_of(cleanup_policy="compact,delete", retention_ms=str(DAY_MS))
    for n in range(20):
        put(room, (f"k{n % 2}", f"v{n}"))
    roll(room)
    compact(room)
    assert len(records_of(room.log)) == 2
    room.clock.advance(DAY_MS)
    put(room, ("late", "v"))

    compact(room, 301)

    assert [r[1] for r in records_of(room.log)] == ["late"]


def test_segments_that_retention_takes_meanwhile_end_the_compaction_quietly():
    room = room_of(cleanup_policy="compact,delete")
    for n in range(40):
        put(room, (f"k{n % 2}", f"v{n}"))
    roll(room)
    room.clock.advance(15_000)
    room.topics.tick(room.now_ms)
    room.log.delete_records_before(35)
    room.log.retain(room.now_ms)

    notes = compact(room, 100)

    assert any("was deleted meanwhile" in note for note in notes)
    assert [r[1:] for r in records_of(room.log)] == [("k0", "v38"), ("k1", "v39")]


def test_a_topic_deleted_meanwhile_leaves_nothing_and_its_successor_begins_dirty():
    room = room_of()
    overrides = room.topics.get("orders").overrides
    for n in range(20):
        put(room, ("k", f"v{n}"))
    roll(room)
    compact(room)
    for n in range(20):
        put(room, ("k", f"v{n}"))
    roll(room)
    room.clock.advance(15_000)
    room.topics.tick(room.now_ms)

    room.topics.delete("orders", room.now_ms)
    compact(room)
    room.topics.create("orders", 1, overrides, room.now_ms)
    for n in range(20):
        put(room, ("k", f"w{n}"))
    roll(room)
    compact(room)

    assert records_of(room.log) == [(19, "k", "w19")]


def test_a_policy_that_changes_meanwhile_ends_the_compaction():
    room = room_of()
    for n in range(20):
        put(room, ("k", f"v{n}"))
    roll(room)
    room.clock.advance(15_000)
    room.topics.tick(room.now_ms)

    room.topics.alter_config("orders", {**room.topics.get("orders").overrides, "cleanup.policy": "delete"})

    assert compact(room) == ["orders-0: its compaction was left, as its cleanup.policy has changed"]
    assert len(records_of(room.log)) == 20


def test_a_step_is_bounded_whatever_the_batches_unpack_to():
    room = room_of(segment_bytes="10000000")
    for n in range(50):
        put(room, *((f"k{i}", f"{n}{PAD * 4}") for i in range(100)), codec=Codec.ZSTD)
    roll(room)

    (note,) = compact(room)

    steps = int(note.split(" in ")[1].split()[0])
    assert steps >= 2 * (50 * 100 * 300) // (2 << 16)


class DyingStorage(MemoryStorage):
    """Dies before its n-th change of names, as a process does."""

    def __init__(self):
        super().__init__()
        self.left = 10**9

    def _use(self):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def rename(self, name, new):
        self._use()
        super().rename(name, new)

    def start_delete(self, name):
        self._use()
        super().start_delete(name)


@pytest.mark.parametrize("cleanly", [False, True])
@pytest.mark.parametrize("changes", range(40))
def test_a_process_that_dies_anywhere_in_a_swap_loses_nothing(changes, cleanly):
    storage = DyingStorage()
    room = room_of(storage, segment_bytes="1024")
    for n in range(60):
        put(room, (f"k{n % 7}", f"v{n}"))
    roll(room)
    if cleanly:
        room.restart()
    storage.left = changes

    try:
        compact(room)
    except KeyboardInterrupt:
        storage.left = 10**9
        notes = room.crash()
        assert not any("cut" in note or "missing" in note for note in notes), notes
        room.check()
        latest = {key: value for _, key, value in records_of(room.log)}
        assert latest == {f"k{n % 7}": f"v{n}" for n in range(53, 60)}
        assert room.log.log_end_offset == 60
    else:
        storage.left = 10**9
    compact(room)
    assert [r[2] for r in records_of(room.log)] == [f"v{n}" for n in range(53, 60)]


class RefusingStorage(MemoryStorage):
    """Refuses renames while it is told to."""

    refuses = False

    def rename(self, name, new):
        if self.refuses:
            raise StorageError(f"cannot rename {name}: the disk refused")
        super().rename(name, new)


def test_a_disk_that_refuses_is_asked_again_later():
    room = room_of(RefusingStorage())
    for n in range(30):
        put(room, ("k", f"v{n}"))
    roll(room)
    room.storage.refuses = True

    notes = compact(room)

    assert notes[0].startswith("orders-0: compaction failed: cannot rename")
    assert len(records_of(room.log)) == 30
    room.storage.refuses = False
    compact(room, 90)
    assert records_of(room.log) == [(29, "k", "v29")]


def test_a_bad_batch_ends_the_compaction_of_its_log_until_the_next_start():
    room = room_of()
    for n in range(30):
        put(room, ("k", f"v{n}"))
    roll(room)
    segment = room.log.segments[0]
    room.storage._folders["orders-0"][segment.log_name][100] ^= 0xFF

    room.clock.advance(15_000)
    (note,) = map(str, room.topics.tick(room.now_ms))
    room.clock.advance(600_000)

    assert note.startswith("orders-0 cannot be compacted: ")
    assert note.endswith("it is not tried again before the next start")
    assert room.topics.tick(room.now_ms) == []
    assert room.files(".cleaned") == []


def test_how_far_a_log_is_compacted_outlives_a_restart():
    room = room_of(min_cleanable_dirty_ratio="0.5")
    for n in range(30):
        put(room, (f"k{n}", "v"))
    roll(room)
    assert len(compact(room)) == 1

    room.restart()

    assert compact(room) == []
    assert room.topics._upkeep._cleaner.clean_until(room.log.tp) == 30


def test_with_the_cleaner_switched_off_nothing_is_compacted():
    room = room_of()
    room.config = dataclass_replace(room.config, log_cleaner_enable=False)
    room.restart()
    for n in range(30):
        put(room, ("k", f"v{n}"))
    roll(room)

    assert compact(room, 120) == []
    assert len(records_of(room.log)) == 30
