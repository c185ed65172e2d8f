"""Start after an unclean stop: the torn end is truncated, whole batches stay, and notes report it."""

import pytest

from kohort.log.epochs import LeaderEpochs
from kohort.log.storage import MemoryStorage
from support.machines.log_stage import LogStage, batch, values_from

FIRST_LOG = f"{0:020d}.log"
UNCLEAN = "the last stop was not clean: checked 1 logs from their recovery points"


@pytest.fixture
def stage():
    stage = LogStage()
    yield stage
    stage.check()


def file(stage, name):
    return stage.storage._folders["orders-0"][name]


def folder(stage):
    return stage.storage._folders["orders-0"]


def test_crash_loses_no_written_records(stage):
    names = stage.fill(30)

    assert stage.crash() == [UNCLEAN]
    assert values_from(stage.log, 0) == names
    assert stage.log.log_end_offset == 30


def test_clean_restart_has_no_notes(stage):
    names = stage.fill(30)

    assert stage.restart() == []
    assert values_from(stage.log, 0) == names
    assert stage.append("next").base_offset == 30


def test_torn_batch_is_truncated_at_any_byte():
    whole = batch(["last"], at_ms=1)
    for kept in range(len(whole)):
        stage = LogStage()
        names = stage.fill(3)
        size = stage.log.size_bytes
        stage.log.append(whole, stage.now_ms)
        del file(stage, FIRST_LOG)[size + kept :]

        notes = stage.crash()

        cut = [f"orders-0: truncated {kept} bytes at offset 3 from {FIRST_LOG}: "] if kept else []
        assert [note[: len(cut[0])] for note in notes if "truncated" in note] == cut
        assert values_from(stage.log, 0) == names
        assert stage.append("again").base_offset == 3
        stage.check()


def test_damaged_last_batch_is_truncated():
    whole = batch(["last"], at_ms=1)
    for damaged in range(16, len(whole)):
        stage = LogStage()
        names = stage.fill(3)
        size = stage.log.size_bytes
        stage.log.append(whole, stage.now_ms)
        file(stage, FIRST_LOG)[size + damaged] ^= 0x55

        notes = stage.crash()

        assert any(f"truncated {len(whole)} bytes at offset 3 from {FIRST_LOG}" in note for note in notes)
        assert values_from(stage.log, 0) == names
        stage.check()


def test_truncation_note_has_its_cause(stage):
    stage.fill(2)
    file(stage, FIRST_LOG).extend(batch(["torn"])[:-1])

    notes = stage.crash()

    size = len(batch(["torn"]))
    cause = f"batch incomplete: {size - 1} of {size} bytes"
    assert notes[0] == f"orders-0: truncated {size - 1} bytes at offset 2 from {FIRST_LOG}: {cause}"


def test_batch_with_wrong_offset_is_truncated(stage):
    stage.fill(2)
    file(stage, FIRST_LOG).extend(batch(["again"], base_offset=1))

    notes = stage.crash()

    assert "batch has offsets 1 to 1, expected 2" in notes[0]
    assert stage.log.log_end_offset == 2


def test_trailing_zeros_are_truncated(stage):
    names = stage.fill(2)
    file(stage, FIRST_LOG).extend(bytes(5000))

    assert "truncated 5000 bytes at offset 2" in stage.crash()[0]
    assert values_from(stage.log, 0) == names


def test_bad_batch_in_older_segment_deletes_later_segments(stage):
    names = stage.fill(30)
    bases = [segment.base_offset for segment in stage.log.segments]
    assert len(bases) > 3
    file(stage, stage.log.segments[1].log_name)[-1] ^= 1
    lost = sum(segment.size for segment in stage.log.segments[2:])

    notes = stage.crash()

    end = bases[2] - 1
    assert f"at offset {end} from {bases[1]:020d}.log: CRC" in notes[0]
    later = f"deleted {len(bases) - 2} later segments ({lost} bytes), from {bases[2]:020d}.log on"
    assert notes[1] == f"orders-0: {later}; the log ended at offset 30"
    assert values_from(stage.log, 0) == names[:end]
    assert stage.files(".log") == [f"{base:020d}.log" for base in bases[:2]]
    assert stage.log.leader_epoch == 1
    assert stage.log.end_of_epoch(0) == (0, end)


def test_segments_before_recovery_point_are_not_checked(stage):
    stage.fill(30)
    stage.log.flush()
    stage.clock.advance(60_000)
    stage.topics.tick(stage.now_ms)
    older = stage.log.segments[1]
    file(stage, older.log_name)[-1] ^= 1

    assert stage.crash() == [UNCLEAN]
    assert stage.log.log_end_offset == 30
    file(stage, older.log_name)[-1] ^= 1


def test_missing_indexes_are_rebuilt_with_a_note(stage):
    names = stage.fill(30)
    stage.restart()
    stage.topics.close()
    for name in list(folder(stage)):
        if name.endswith("index"):
            del folder(stage)[name]

    stage.crash()

    assert values_from(stage.log, 0) == names
    notes = [str(note) for note in stage.log.take_notes()]
    assert any(".index is missing; rebuilt it from 00000000000000000000.log" in note for note in notes)


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda index: index.extend(b"\0"), "not a multiple of 8"),
        (lambda index: index.extend(bytes(8)), "do not increase"),
        (lambda index: index.extend(b"\0\0\1\0\x7f\xff\0\0"), "beyond the log's"),
    ],
)
def test_malformed_index_is_rebuilt(stage, damage, cause):
    names = stage.fill(10)
    stage.topics.close()
    damage(file(stage, f"{0:020d}.index"))

    notes = stage.crash()

    assert values_from(stage.log, 0) == names
    assert any(cause in note for note in [*notes, *map(str, stage.log.take_notes())])


def test_clean_shutdown_file_does_not_hide_torn_batch(stage):
    names = stage.fill(3)
    stage.topics.close()
    file(stage, FIRST_LOG).extend(b"torn")

    notes = stage.crash()

    assert "after a clean stop" in notes[0]
    assert "truncated 4 bytes at offset 3" in notes[1]
    assert values_from(stage.log, 0) == names


def test_log_continues_in_empty_last_segment(stage):
    names = stage.fill(3)
    folder(stage)[f"{3:020d}.log"] = bytearray()

    assert stage.crash() == [UNCLEAN]
    assert stage.append("next").base_offset == 3
    assert values_from(stage.log, 0) == [*names, "next"]


def test_empty_segment_before_log_end_is_deleted(stage):
    names = stage.fill(3)
    folder(stage)[f"{2:020d}.log"] = bytearray()

    assert stage.crash()[0] == f"orders-0: deleted the empty {2:020d}.log: the log ends at offset 3"
    assert values_from(stage.log, 0) == names
    folder(stage)[f"{2:020d}.log"] = bytearray()

    assert "overlaps" in stage.restart()[0]
    assert values_from(stage.log, 0) == names


@pytest.mark.parametrize("before_the_last", [False, True])
def test_empty_middle_segment_is_deleted(stage, before_the_last):
    names = stage.fill(20)
    base = stage.log.segments[-1].base_offset - 1 if before_the_last else 1
    folder(stage)[f"{base:020d}.log"] = bytearray()

    assert stage.crash()[0] == f"orders-0: deleted the empty {base:020d}.log"
    assert f"{base:020d}.log" not in folder(stage)
    assert values_from(stage.log, 0) == names


def test_truncated_log_drops_later_producer_snapshots(stage):
    stage.append("a", producer_id=1, producer_epoch=0, base_sequence=0)
    size = stage.log.size_bytes
    stage.append("b", producer_id=1, producer_epoch=0, base_sequence=1)
    stage.topics.close()
    del file(stage, FIRST_LOG)[size:]
    del file(stage, f"{0:020d}.index")[:]

    notes = stage.crash()

    assert notes == [
        "orders-0: checked the log after a clean stop: the log ends at 1, but its last producer snapshot at 2",
        "orders-0: offsets 1 to 1 are missing: recovery-point-offset-checkpoint lists them as flushed",
    ]
    assert stage.log.producers.get(1).last_sequence == 0
    assert stage.log.leader_epoch == 1


def test_preallocated_index_of_empty_log_is_deleted(stage):
    folder(stage)[FIRST_LOG] = bytearray()
    folder(stage)[f"{0:020d}.index"] = bytearray(4096)
    folder(stage)[f"{0:020d}.timeindex"] = bytearray(4092)
    stage.topics.close()
    stage.crash()

    names = stage.fill(3)

    assert stage.restart() == []
    assert values_from(stage.log, 0) == names


def test_foreign_files_stay_and_are_reported(stage):
    stage.fill(1)
    folder(stage)["notes.txt"] = bytearray(b"mine")
    folder(stage)["123.log"] = bytearray(b"not twenty digits")

    assert stage.restart() == ["orders-0: ignored files that do not belong to a log: 123.log, notes.txt"]
    assert bytes(folder(stage)["notes.txt"]) == b"mine"


@pytest.mark.parametrize("name", ["notes.snapshot", "123.snapshot", f"{1:020d}.txt", f"{1:020d}"])
def test_file_with_partial_snapshot_name_is_foreign(stage, name):
    stage.fill(1)
    folder(stage)[name] = bytearray(b"mine")

    assert stage.restart() == [f"orders-0: ignored files that do not belong to a log: {name}"]
    assert bytes(folder(stage)[name]) == b"mine"


def test_unfinished_files_and_orphan_indexes_are_deleted(stage):
    stage.fill(1)
    folder(stage)[f"{9:020d}.log.deleted"] = bytearray(b"x")
    folder(stage)[f"{9:020d}.timeindex"] = bytearray(12)

    assert stage.restart() == [
        "orders-0: deleted the unfinished file 00000000000000000009.log.deleted",
        "orders-0: deleted 00000000000000000009.timeindex: its log is missing",
    ]


def test_missing_epochs_are_rebuilt_from_batches(stage):
    stage.fill(3)
    stage.crash()
    stage.fill(20)
    stage.topics.close()
    folder(stage)["leader-epoch-checkpoint"][:] = b"nonsense"

    notes = stage.crash()

    assert "cannot read leader-epoch-checkpoint" in notes[0]
    assert stage.log.leader_epoch == 1
    assert stage.log.end_of_epoch(0) == (0, 3)


def test_rebuilt_epochs_are_complete(stage):
    for count in (2, 1, 9, 1, 1, 12):
        stage.fill(count)
        stage.crash()
    epoch_ends = [stage.log.end_of_epoch(epoch) for epoch in range(6)]
    assert epoch_ends == [(0, 2), (1, 3), (2, 12), (3, 13), (4, 14), (5, 26)]
    stage.topics.close()
    del folder(stage)["leader-epoch-checkpoint"]

    stage.crash()

    assert [stage.log.end_of_epoch(epoch) for epoch in range(6)] == epoch_ends
    assert stage.log.epochs.entries == [(0, 0), (1, 2), (2, 3), (3, 12), (4, 13), (5, 14)]


@pytest.mark.parametrize("batches_before", [0, 1])
def test_damaged_segment_hides_no_later_epochs(stage, batches_before):
    stage.fill(3)
    size = stage.log.size_bytes // 3
    stage.crash()
    stage.fill(20)
    second = stage.log.segments[1].base_offset
    stage.topics.close()
    data, at = file(stage, FIRST_LOG), batches_before * size + 16
    data[at] = 9  # the format of a batch
    del folder(stage)["leader-epoch-checkpoint"]

    stage.crash()

    assert stage.log.leader_epoch == 1
    assert stage.log.epochs.entries[-1] == (1, second)
    assert stage.append("next").base_offset == 23
    data[at] = 2


def test_batches_without_epoch_add_no_epoch(stage):
    stage.fill(1)
    data = file(stage, FIRST_LOG)
    stage.topics.close()
    data[12:16] = b"\xff" * 4
    del folder(stage)["leader-epoch-checkpoint"]

    stage.crash()

    assert stage.log.epochs.entries == []
    data[12:16] = bytes(4)


def test_missing_epoch_checkpoint_is_reported_with_empty_last_segment(stage):
    stage.fill(3)
    stage.log.roll(stage.now_ms)
    stage.topics.close()
    del folder(stage)["leader-epoch-checkpoint"]

    assert "leader-epoch-checkpoint is missing; rebuilt it from the batches" in stage.crash()[0]


def test_unsaved_epochs_are_read_from_batches(stage):
    stage.fill(3)
    folder(stage)["leader-epoch-checkpoint"][:] = LeaderEpochs().build()

    stage.crash()

    assert stage.log.epochs.entries == [(0, 0), (1, 3)]


def test_epoch_without_records_survives_clean_stop(stage):
    stage.fill(3)
    stage.log.begin_leader_epoch()

    stage.restart()

    assert stage.log.epochs.entries == [(0, 0), (1, 3)]


def test_checked_batches_do_not_count_as_flushed(stage):
    stage.fill(3)
    stage.crash()
    assert stage.log.recovery_point == 0

    stage.restart()
    assert stage.log.recovery_point == 3


def test_recovered_records_do_not_count_towards_flush():
    stage = LogStage(flush_messages="5")
    stage.fill(3)
    stage.restart()

    stage.fill(4)
    assert stage.log.recovery_point == 3
    stage.fill(1)
    assert stage.log.recovery_point == 8


def test_truncated_epoch_is_not_reused(stage):
    stage.fill(3)
    stage.crash()
    size = stage.log.size_bytes
    stage.append("in epoch 1")
    assert stage.log.leader_epoch == 1
    del file(stage, FIRST_LOG)[size + 5 :]

    stage.crash()

    assert stage.log.leader_epoch == 2
    assert stage.log.end_of_epoch(1) == (0, 3)


def test_large_batch_is_checked_in_pieces():
    stage = LogStage(MemoryStorage(), segment_bytes="8000000", max_message_bytes="8000000")
    stage.append("x" * 3_000_000)
    assert stage.crash() == [UNCLEAN]
    assert stage.log.log_end_offset == 1

    file(stage, FIRST_LOG)[2_000_000] ^= 1

    assert "CRC" in stage.crash()[0]
    assert stage.log.log_end_offset == 0
    assert stage.append("again").base_offset == 0


def test_epoch_checkpoint_has_kafka_format():
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(3, 42)

    assert epochs.build() == b"0\n2\n0 0\n3 42\n"
    assert LeaderEpochs.parse(epochs.build()).entries == [(0, 0), (3, 42)]


@pytest.mark.parametrize(
    "data",
    [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n2\n0 5\n1 5\n", b"0\nx\n", b"0\n1\n0 0", b"0\n1\n-1 0\n", b"0\n1\n0 -1\n"],
)
def test_malformed_epoch_checkpoint_is_rejected(data):
    with pytest.raises(ValueError, match=r".+"):
        LeaderEpochs.parse(data)


def test_epochs_are_truncated_at_both_ends():
    epochs = LeaderEpochs([(0, 0), (2, 10), (5, 20)])

    assert epochs.truncate_start(12)
    assert epochs.entries == [(2, 12), (5, 20)]
    assert not epochs.truncate_start(12)
    epochs.truncate_end(20)
    assert epochs.entries == [(2, 12)]
    assert not epochs.truncate_start(5)
