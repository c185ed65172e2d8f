"""Start after a crash on a full disk: indexes stay in memory, and no record is lost."""

import random

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError, StorageError
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.log.topics import Topics
from support.machines.log_stage import LogStage, batch, values_from

NOW = 1_700_000_000_000
STEM = "orders-0/00000000000000000000"


class FullFile(MemoryFile):
    __slots__ = ("_storage",)

    def __init__(self, data, storage):
        super().__init__(data)
        self._storage = storage

    def append(self, buffers):
        self._storage.check("append")
        return super().append(buffers)


class FullStorage(MemoryStorage):
    is_full = False

    def check(self, name):
        if self.is_full:
            raise StorageError(f"cannot write {name}: No space left on device")

    def open(self, name):
        return FullFile(super().open(name)._data, self)

    def replace(self, name, content, **how):
        self.check(name)
        super().replace(name, content, **how)

    def make_folder(self, folder):
        self.check(folder)
        super().make_folder(folder)


@pytest.fixture
def stage():
    return LogStage(FullStorage())


def crash_on_a_full_disk(stage):
    stage.storage.is_full = True
    stage.storage.delete(".kafka_cleanshutdown")
    stage.crash()
    return [str(note) for note in stage.topics.recovery_notes]


def test_start_on_a_full_disk_keeps_every_record(stage):
    names = stage.fill(40)

    lines = crash_on_a_full_disk(stage)

    assert values_from(stage.log, 0) == names
    assert stage.log.find_by_time(stage.now_ms).offset == 0
    kept = "index: No space left on device; the index stays in memory until the disk has space"
    assert any(kept in line for line in lines)
    assert any(
        "leader-epoch-checkpoint: No space left on device; the next append writes the file" in line for line in lines
    )


def test_stale_index_is_deleted_on_full_disk(stage):
    stage.fill(40)
    stage.topics.close()
    assert f"{STEM}.index".partition("/")[2] in stage.storage.files("orders-0")

    crash_on_a_full_disk(stage)

    last = stage.log.segments[-1].log_name.removesuffix(".log")
    assert f"{last}.index" not in stage.storage.files("orders-0")


def test_appends_fail_on_full_disk_and_succeed_later(stage):
    names = stage.fill(5)
    crash_on_a_full_disk(stage)
    epoch = stage.log.leader_epoch

    with pytest.raises(ApiError, match="No space left on device"):
        stage.append("more")
    stage.storage.is_full = False
    stage.append("more")

    assert values_from(stage.log, 0) == [*names, "more"]
    assert f"\n{epoch} 5\n" in stage.storage.read("orders-0/leader-epoch-checkpoint").decode()
    stage.restart()
    assert values_from(stage.log, 0) == [*names, "more"]
    assert stage.topics.recovery_notes == []


def test_full_disk_fails_only_the_missing_partition():
    storage = FullStorage()
    topics = Topics(storage, BrokerConfig(), random.Random(1), NOW)
    topics.create("a", 1, {}, NOW)
    topics.create("b", 1, {}, NOW)
    topics.log("b", 0).append(batch(at_ms=NOW), NOW)
    storage.delete_folder("a-0")
    storage.is_full = True

    again = Topics(storage, BrokerConfig(), random.Random(2), NOW)

    assert values_from(again.log("b", 0), 0) == ["v"]
    assert any(
        "a-0: cannot write a-0: No space left on device; free disk space" in str(n) for n in again.recovery_notes
    )
    with pytest.raises(ApiError, match="a-0"):
        again.log("a", 0).append(batch(at_ms=NOW), NOW)
