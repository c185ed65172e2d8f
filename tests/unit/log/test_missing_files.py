"""Files missing at a start: lost offsets are reported, other files are recreated."""

import pytest

from kohort.log.data_folder import PARTITION_METADATA_FILE, RECOVERY_POINTS_FILE
from kohort.log.epochs import EPOCHS_FILE
from support.machines.log_stage import LogStage, values_from

UNCLEAN = "the last stop was not clean: checked 1 logs from their recovery points"


@pytest.fixture
def stage():
    stage = LogStage()
    yield stage
    stage.check()


def folder(stage):
    return stage.storage._folders["orders-0"]


def lose(stage, base):
    for name in [name for name in folder(stage) if name.startswith(f"{base:020d}.") and "snapshot" not in name]:
        del folder(stage)[name]


def flush(stage):
    stage.log.flush()
    stage.clock.advance(60_000)
    stage.topics.tick(stage.now_ms)


@pytest.mark.parametrize("flushed", [True, False])
def test_missing_middle_segment_is_reported_by_offsets(stage, flushed):
    names = stage.fill(30)
    bases = [segment.base_offset for segment in stage.log.segments]
    if flushed:
        flush(stage)
    lose(stage, bases[1])

    notes = stage.crash()

    missing = f"orders-0: offsets {bases[1]} to {bases[2] - 1} are missing"
    assert notes == [f"{missing}: {bases[0]:020d}.log ends before {bases[2]:020d}.log begins", UNCLEAN]
    assert values_from(stage.log, 0) == names[: bases[1]] + names[bases[2] :]
    assert stage.append("next").base_offset == 30


def test_truncated_closed_segment_is_reported():
    stage = LogStage()
    names = stage.fill(30)
    bases = [segment.base_offset for segment in stage.log.segments]
    flush(stage)
    cut_at, header = list(stage.log.segments[1].headers())[-2]
    del folder(stage)[f"{bases[1]:020d}.log"][cut_at:]
    del folder(stage)[f"{bases[1]:020d}.index"][:]
    del folder(stage)[f"{bases[1]:020d}.timeindex"][:]

    notes = stage.crash()

    end = header.base_offset
    missing = f"orders-0: offsets {end} to {bases[2] - 1} are missing"
    assert notes[0] == f"{missing}: {bases[1]:020d}.log ends before {bases[2]:020d}.log begins"
    assert values_from(stage.log, 0) == names[:end] + names[bases[2] :]


def test_closed_segment_with_partial_batch_is_reported():
    stage = LogStage()
    stage.fill(30)
    flush(stage)
    second = stage.log.segments[1].log_name
    del folder(stage)[second][-20:]

    notes = stage.crash()

    assert second in notes[0]
    assert notes[0].endswith("not repaired, reads of this batch fail")
    assert stage.log.log_end_offset == 30


def test_log_end_before_recovery_point_is_reported(stage):
    names = stage.fill(30)
    last = stage.log.segments[-1].base_offset
    flush(stage)
    lose(stage, last)

    notes = stage.crash()

    note = f"orders-0: offsets {last} to 29 are missing: {RECOVERY_POINTS_FILE} lists them as flushed"
    assert notes == [note, UNCLEAN]
    assert values_from(stage.log, 0) == names[:last]
    assert stage.append("next").base_offset == last


def test_compaction_gaps_are_not_reported():
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", delete_retention_ms="0")
    for _ in range(5):
        stage.fill(20, key=b"k")
        stage.clock.advance(60_000)
        stage.topics.tick(stage.now_ms)

    notes = stage.crash()

    assert not [note for note in notes if "missing" in note]
    assert len(values_from(stage.log, 0)) < 100


def test_missing_epochs_and_topic_ids_are_recreated(stage):
    names = stage.fill(30)
    del folder(stage)[EPOCHS_FILE]
    del folder(stage)[PARTITION_METADATA_FILE]

    notes = stage.crash()

    assert notes == [
        f"orders-0: {PARTITION_METADATA_FILE} was missing or damaged; recreated",
        f"orders-0: {EPOCHS_FILE} is missing; rebuilt it from the batches",
        UNCLEAN,
    ]
    assert values_from(stage.log, 0) == names
    assert PARTITION_METADATA_FILE in stage.files()
    assert EPOCHS_FILE in stage.files()
