"""Interrupted deletions, compactions and growth: no files are left, and notes are exact."""

import random

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.catalogue import CATALOGUE_FILE
from kohort.log.producers import Producers
from kohort.log.segment_swap import finish_interrupted
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.log.topics import Topics
from kohort.wire.record_batch import Marker
from support.machines.log_stage import LogStage

NOW = 1_700_000_000_000


class FullStorage(MemoryStorage):
    full = False

    def replace(self, name, content, **how):
        if self.full and name == CATALOGUE_FILE:
            raise StorageError("the disk is full")
        super().replace(name, content, **how)


def opened(storage: MemoryStorage) -> Topics:
    return Topics(storage, BrokerConfig(), random.Random(1), NOW)


def test_folders_being_deleted_are_not_reported_as_unknown():
    storage = MemoryStorage()
    topics = opened(storage)
    topics.create("t", 600, {}, NOW)
    next(topics.delete_all(["t"], NOW))
    assert any(not name.endswith("-delete") for name in storage.folders()), "some folders are not yet renamed"

    again = opened(storage)

    assert [str(note) for note in again.recovery_notes if "untouched" in str(note)] == []


def test_failed_partitions_error_has_the_topic():
    storage = FullStorage()
    topics = opened(storage)
    topic = topics.create("orders", 1, {}, NOW)
    storage.full = True

    with pytest.raises(ApiError, match=r"topic 'orders': .*the disk is full") as refused:
        topics.add_partitions("orders", 3, NOW)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(topic.partitions) == 1


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_recovered_producers_count_towards_limit(how):
    stage = LogStage()
    for producer_id in (7, 8):
        stage.append(producer_id=producer_id, producer_epoch=0, base_sequence=0)

    getattr(stage, how)()

    assert stage.topics.producer_room.at_most == 2


def test_snapshot_keeps_producer_with_only_a_marker():
    producers = Producers()
    producers.end(Marker(5, 3, committed=True, coordinator_epoch=2), 40, NOW)

    entry = producers.build_snapshot()[10:]

    assert entry.hex() == (
        "00000000000000050003ffffffffffffffffffffffff000000000000018bcfe5680000000002ffffffffffffffff"
    )


def test_interrupted_compaction_note_counts_replaced_segments():
    stage = LogStage()
    stage.fill(60)
    first, second = (f"orders-0/{segment.base_offset:020}" for segment in stage.log.segments[:2])
    made = b"".join(stage.storage.read(f"{name}.log") for name in (first, second))
    stage.storage.replace(f"{first}.log.swap", made)

    notes = finish_interrupted(stage.storage, "orders-0")

    assert [str(note) for note in notes] == [
        f"finished an interrupted compaction: {first.partition('/')[2]}.log replaces 2 segments"
    ]
    assert stage.storage.read(f"{first}.log") == made
    assert f"{second.partition('/')[2]}.log" not in stage.storage.files("orders-0")


class CountingStorage(MemoryStorage):
    open_files = 0

    def open(self, name):
        self.open_files += 1
        return CountedFile(super().open(name)._data, self)


class CountedFile(MemoryFile):
    __slots__ = ("_storage",)

    def __init__(self, data, storage):
        super().__init__(data)
        self._storage = storage

    def close(self):
        self._storage.open_files -= 1


def test_finished_swap_closes_its_file():
    stage = LogStage()
    stage.fill(5)
    storage = CountingStorage()
    made = stage.storage.read(f"orders-0/{0:020}.log")
    storage.make_folder("orders-0")
    storage.replace(f"orders-0/{0:020}.log.swap", made)

    finish_interrupted(storage, "orders-0")

    assert storage.read(f"orders-0/{0:020}.log") == made
    assert storage.open_files == 0


def compacting() -> LogStage:
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="10000000")
    for number in range(3_000):
        stage.append(f"{number:060}", key=b"%d" % (number % 2_000))
    stage.log.roll(stage.now_ms)
    stage.clock.advance(15_000)
    while not cleaned(stage):
        stage.clock.advance(max(0, stage.topics.wake_at_ms - stage.now_ms))
        stage.topics.tick(stage.now_ms)
    return stage


def cleaned(stage: LogStage) -> list[str]:
    return [name for name in stage.storage.files("orders-0") if name.endswith(".cleaned")]


def test_abandoned_compaction_leaves_no_files():
    stage = compacting()

    stage.topics.alter_config("orders", {**stage.topics.get("orders").overrides, "cleanup.policy": "delete"})
    for _ in range(5):
        stage.clock.advance(1_000)
        stage.topics.tick(stage.now_ms)

    assert cleaned(stage) == []


def test_stop_during_compaction_leaves_no_files():
    stage = compacting()
    assert stage.topics.close() == []
    assert cleaned(stage) == []


def test_freed_bytes_of_compaction_are_counted():
    stage = compacting()
    before = stage.log.size_bytes

    while cleaned(stage):
        stage.clock.advance(1_000)
        stage.topics.tick(stage.now_ms)

    assert stage.topics.counters.compactions == 1
    assert stage.topics.counters.compacted_bytes == before - stage.log.size_bytes > 0


def test_timestamps_of_1970_do_not_age_segment_by_clock():
    stage = LogStage(segment_ms="1000", segment_bytes="1000000")
    stage.append("first", at_ms=0)
    stage.clock.advance(60_000)

    stage.append("second", at_ms=0)
    assert len(stage.log.segments) == 1

    stage.append("third", at_ms=1_001)
    assert len(stage.log.segments) == 2
