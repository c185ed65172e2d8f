"""Timers of log upkeep: due times, notes, and unaffected logs."""

import random

import pytest

from kohort.config import BrokerConfig
from kohort.log.partition import LogCheckpoint, LogHooks, PartitionLog
from kohort.log.storage import MemoryStorage
from kohort.log.topics import Topics
from support.machines.log_stage import LogStage, batch, values_from

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
COMPACTED = "cleaner-offset-checkpoint"


class Writes(MemoryStorage):
    def __init__(self):
        super().__init__()
        self.replaced = []

    def replace(self, name, content, **how):
        self.replaced.append(name)
        super().replace(name, content, **how)


def after(stage, ms):
    stage.clock.advance(ms)
    return [str(note) for note in stage.topics.tick(stage.now_ms)]


def test_unused_files_are_closed_after_30_seconds():
    stage = LogStage()
    stage.append("v")
    segment = stage.log.segments[0]
    is_open = []
    for ms in (29_999, 1, 29_999, 1):
        after(stage, ms)
        is_open.append(segment.is_open)

    assert is_open == [True, True, True, False]


@pytest.mark.parametrize(("every_ms", "first_ms"), [(300_000, 30_000), (10_000, 10_000), (30_001, 30_000)])
def test_first_retention_runs_30_seconds_after_start(every_ms, first_ms):
    storage = MemoryStorage()
    config = BrokerConfig(log_retention_check_interval_ms=every_ms)
    topics = Topics(storage, config, random.Random(1), NOW)
    topics.create("orders", 1, {"retention.ms": str(HOUR_MS)}, NOW)
    log = topics.log("orders", 0)
    log.append(batch(at_ms=NOW - 2 * HOUR_MS), NOW)

    topics.tick(NOW + first_ms - 1)
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    topics.tick(NOW + first_ms)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)

    log.append(batch(at_ms=NOW - 2 * HOUR_MS), NOW)
    topics.tick(NOW + first_ms + every_ms - 1)
    assert log.log_start_offset == 1
    topics.tick(NOW + first_ms + every_ms)
    assert log.log_start_offset == 2


def test_changed_checkpoints_are_written_every_minute():
    stage = LogStage(Writes())
    written = []

    def look(ms):
        stage.storage.replaced.clear()
        after(stage, ms)
        written.append([name for name in (POINTS, STARTS) if name in stage.storage.replaced])

    stage.append("v")
    stage.log.flush()
    look(59_999)
    look(1)
    look(60_000)
    stage.append("v", "v")
    stage.log.flush()
    stage.log.delete_records_before(2)
    look(59_999)
    look(1)
    look(60_000)

    assert written == [[], [POINTS, STARTS], [], [], [POINTS, STARTS], []]


def test_deleted_topic_leaves_cleaner_checkpoint():
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    stage.fill(20, key=b"k")
    stage.log.roll(stage.now_ms)
    while not stage.topics.counters.compactions:
        after(stage, max(stage.topics.wake_at_ms - stage.now_ms, 0))
    assert stage.storage.read(COMPACTED) == b"0\n1\norders 0 20\n"

    stage.topics.delete("orders", stage.now_ms)
    after(stage, 60_000)

    assert stage.storage.read(COMPACTED) == b"0\n0\n"


def test_deleted_topic_cancels_its_flush():
    stage = LogStage(flush_ms="500")
    stage.append("v")
    assert stage.topics.wake_at_ms == stage.now_ms + 500

    stage.topics.delete("orders", stage.now_ms)
    removed = after(stage, 0)

    assert len(removed) == 1
    assert removed[0].startswith("removed orders-0.")
    assert stage.topics.wake_at_ms > stage.now_ms + 500


def test_rebuilt_index_is_reported():
    stage = LogStage()
    names = stage.fill(40)
    stage.restart()
    first = stage.log.segments[0]
    stage.storage.delete(f"orders-0/{0:020d}.index")
    assert values_from(stage.log, 0) == names
    assert not stage.log.notes

    notes = after(stage, 30_000)

    assert notes == [f"orders-0: {0:020d}.index is missing; rebuilt it from {first.log_name}"]
    assert after(stage, 30_000) == []


def log_with(scheduled, flush_ms):
    stage = LogStage(flush_ms=flush_ms) if flush_ms else LogStage()
    listener = LogHooks(on_flush_due=lambda _tp, at_ms: scheduled.append(at_ms))
    return PartitionLog(stage.log.tp, stage.storage, stage.log.config, 1_000, LogCheckpoint(clean=True), listener)


def test_next_flush_interval_begins_with_next_batch():
    scheduled = []
    log = log_with(scheduled, "500")
    log.append(batch(), 1_000)
    log.flush_if_due(1_499)
    log.append(batch(), 1_499)
    log.flush_if_due(1_500)

    log.append(batch(), 1_700)

    assert scheduled == [1_500, 2_200]


def test_without_flush_ms_no_flush_is_scheduled():
    scheduled = []
    log = log_with(scheduled, "")

    log.append(batch(), 1_000)

    assert scheduled == []


def test_removed_folders_share_one_note_key():
    stage = LogStage()
    stage.topics.create("wide", 50, {}, stage.now_ms)

    stage.topics.delete("wide", stage.now_ms)
    notes = [note for _ in range(50) for note in stage.topics.tick(stage.now_ms)]

    assert (len(notes), {note.kind for note in notes}) == (50, {"removed"})
