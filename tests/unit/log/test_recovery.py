"""A start after an unclean stop: the torn tail goes, all that is whole stays, and it is said."""

import pytest

from kohort.log.epochs import LeaderEpochs
from kohort.log.storage import MemoryStorage
from support.machines.log_stage import LogRoom, batch, values_from

FIRST_LOG = f"{0:020d}.log"
UNCLEAN = "the last stop was not clean: checked 1 logs from their recovery points"


@pytest.fixture
def room():
    room = LogRoom()
    yield room
    room.check()


def file(room, name):
    return room.storage._folders["orders-0"][name]


def folder(room):
    return room.storage._folders["orders-0"]


def test_a_crash_loses_nothing_that_was_written(room):
    names = room.fill(30)

    assert room.crash() == [UNCLEAN]
    assert values_from(room.log, 0) == names
    assert room.log.log_end_offset == 30


def test_a_clean_restart_checks_nothing_and_says_nothing(room):
    names = room.fill(30)

    assert room.restart() == []
    assert values_from(room.log, 0) == names
    assert room.append("next").base_offset == 30


def test_a_torn_batch_is_cut_at_every_byte_of_it():
    whole = batch(["last"], at_ms=1)
    for kept in range(len(whole)):
        room = LogRoom()
        names = room.fill(3)
        size = room.log.size_bytes
        room.log.append(whole, room.now_ms)
        del file(room, FIRST_LOG)[size + kept :]

        notes = room.crash()

        cut = [f"orders-0: cut {kept} bytes at offset 3 from {FIRST_LOG}: "] if kept else []
        assert [note[: len(cut[0])] for note in notes if "cut" in note] == cut
        assert values_from(room.log, 0) == names
        assert room.append("again").base_offset == 3
        room.check()


def test_garbage_in_any_byte_of_the_last_batch_that_the_crc_covers_cuts_it():
    whole = batch(["last"], at_ms=1)
    for damaged in range(16, len(whole)):
        room = LogRoom()
        names = room.fill(3)
        size = room.log.size_bytes
        room.log.append(whole, room.now_ms)
        file(room, FIRST_LOG)[size + damaged] ^= 0x55

        notes = room.crash()

        assert any(f"cut {len(whole)} bytes at offset 3 from {FIRST_LOG}" in note for note in notes)
        assert values_from(room.log, 0) == names
        room.check()


def test_the_cut_names_its_cause(room):
    room.fill(2)
    file(room, FIRST_LOG).extend(batch(["torn"])[:-1])

    notes = room.crash()

    size = len(batch(["torn"]))
    assert (
        notes[0]
        == f"orders-0: cut {size - 1} bytes at offset 2 from {FIRST_LOG}: batch incomplete: {size - 1} of {size} bytes"
    )


def test_a_batch_out_of_sequence_is_cut(room):
    room.fill(2)
    file(room, FIRST_LOG).extend(batch(["again"], base_offset=1))

    notes = room.crash()

    assert "batch of offsets 1 to 1 where 2 is next" in notes[0]
    assert room.log.log_end_offset == 2


def test_zeros_after_the_end_are_cut(room):
    names = room.fill(2)
    file(room, FIRST_LOG).extend(bytes(5000))

    assert "cut 5000 bytes at offset 2" in room.crash()[0]
    assert values_from(room.log, 0) == names


def test_a_bad_batch_in_an_older_segment_ends_the_log_there(room):
    names = room.fill(30)
    bases = [segment.base_offset for segment in room.log.segments]
    assert len(bases) > 3
    file(room, room.log.segments[1].log_name)[-1] ^= 1
    lost = sum(segment.size for segment in room.log.segments[2:])

    notes = room.crash()

    end = bases[2] - 1
    assert f"at offset {end} from {bases[1]:020d}.log: CRC" in notes[0]
    later = f"deleted {len(bases) - 2} later segments ({lost} bytes), from {bases[2]:020d}.log on"
    assert notes[1] == f"orders-0: {later}"
    assert values_from(room.log, 0) == names[:end]
    assert room.files(".log") == [f"{base:020d}.log" for base in bases[:2]]
    assert room.log.leader_epoch == 1
    assert room.log.end_of_epoch(0) == (0, end)


def test_segments_before_the_recovery_point_are_believed(room):
    room.fill(30)
    room.log.flush()
    room.clock.advance(60_000)
    room.topics.tick(room.now_ms)
    older = room.log.segments[1]
    file(room, older.log_name)[-1] ^= 1

    assert room.crash() == [UNCLEAN]
    assert room.log.log_end_offset == 30
    file(room, older.log_name)[-1] ^= 1


def test_missing_indexes_are_made_anew_and_it_is_said(room):
    names = room.fill(30)
    room.restart()
    room.topics.close()
    for name in list(folder(room)):
        if name.endswith("index"):
            del folder(room)[name]

    room.crash()

    assert values_from(room.log, 0) == names
    notes = [str(note) for note in room.log.take_notes()]
    assert any(".index is missing; made anew from 00000000000000000000.log" in note for note in notes)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda index: index.extend(b"\0"), "no multiple of 8"),
        (lambda index: index.extend(bytes(8)), "do not grow"),
        (lambda index: index.extend(b"\0\0\1\0\x7f\xff\0\0"), "beyond the log's"),
    ],
)
def test_an_index_that_cannot_be_one_is_made_anew(room, damage, said):
    names = room.fill(10)
    room.topics.close()
    damage(file(room, f"{0:020d}.index"))

    notes = room.crash()

    assert values_from(room.log, 0) == names
    assert any(said in note for note in [*notes, *map(str, room.log.take_notes())])


def test_a_clean_mark_does_not_hide_a_torn_tail(room):
    names = room.fill(3)
    room.topics.close()
    file(room, FIRST_LOG).extend(b"torn")

    notes = room.crash()

    assert "the stop was clean, but" in notes[0]
    assert "cut 4 bytes at offset 3" in notes[1]
    assert values_from(room.log, 0) == names


def test_an_empty_segment_file_is_where_the_log_goes_on(room):
    names = room.fill(3)
    folder(room)[f"{3:020d}.log"] = bytearray()

    assert room.crash() == [UNCLEAN]
    assert room.append("next").base_offset == 3
    assert values_from(room.log, 0) == [*names, "next"]


def test_an_empty_segment_file_that_the_log_has_outgrown_goes(room):
    names = room.fill(3)
    folder(room)[f"{2:020d}.log"] = bytearray()

    assert room.crash()[0] == f"orders-0: deleted {2:020d}.log, which was empty though the log reaches 3"
    assert values_from(room.log, 0) == names
    folder(room)[f"{2:020d}.log"] = bytearray()

    assert "reaches beyond the beginning of" in room.restart()[0]
    assert values_from(room.log, 0) == names


def test_an_empty_segment_file_between_others_goes(room):
    names = room.fill(20)
    folder(room)[f"{1:020d}.log"] = bytearray()

    assert room.crash()[0] == f"orders-0: deleted {1:020d}.log, which was empty"
    assert values_from(room.log, 0) == names


def test_a_log_cut_after_a_clean_stop_forgets_the_producers_ahead_of_it(room):
    room.append("a", producer_id=1, producer_epoch=0, base_sequence=0)
    size = room.log.size_bytes
    room.append("b", producer_id=1, producer_epoch=0, base_sequence=1)
    room.topics.close()
    del file(room, FIRST_LOG)[size:]
    del file(room, f"{0:020d}.index")[:]

    notes = room.crash()

    assert notes == ["orders-0: the stop was clean, but the log ends at 1, and its last producer snapshot is of 2"]
    assert room.log.producers.get(1).last_sequence == 0
    assert room.log.leader_epoch == 1


def test_the_preallocated_index_of_an_empty_log_is_not_continued(room):
    folder(room)[FIRST_LOG] = bytearray()
    folder(room)[f"{0:020d}.index"] = bytearray(4096)
    folder(room)[f"{0:020d}.timeindex"] = bytearray(4092)
    room.topics.close()
    room.crash()

    names = room.fill(3)

    assert room.restart() == []
    assert values_from(room.log, 0) == names


def test_foreign_files_stay_and_are_named(room):
    room.fill(1)
    folder(room)["notes.txt"] = bytearray(b"mine")
    folder(room)["123.log"] = bytearray(b"not twenty digits")

    assert room.restart() == ["orders-0: left untouched what is no part of a log: 123.log, notes.txt"]
    assert bytes(folder(room)["notes.txt"]) == b"mine"


def test_leftovers_and_indexes_without_a_log_go(room):
    room.fill(1)
    folder(room)[f"{9:020d}.log.deleted"] = bytearray(b"x")
    folder(room)[f"{9:020d}.timeindex"] = bytearray(12)

    assert room.restart() == [
        "orders-0: deleted the leftover 00000000000000000009.log.deleted",
        "orders-0: deleted 00000000000000000009.timeindex, whose log is missing",
    ]


def test_lost_epochs_are_read_from_the_batches(room):
    room.fill(3)
    room.crash()
    room.fill(20)
    room.topics.close()
    folder(room)["leader-epoch-checkpoint"][:] = b"nonsense"

    notes = room.crash()

    assert "leader-epoch-checkpoint cannot be read" in notes[0]
    assert room.log.leader_epoch == 1


def test_an_epoch_never_comes_back_though_its_records_are_cut(room):
    room.fill(3)
    room.crash()
    size = room.log.size_bytes
    room.append("in epoch 1")
    assert room.log.leader_epoch == 1
    del file(room, FIRST_LOG)[size + 5 :]

    room.crash()

    assert room.log.leader_epoch == 2
    assert room.log.end_of_epoch(1) == (0, 3)


def test_a_batch_larger_than_the_window_is_checked_in_pieces():
    room = LogRoom(MemoryStorage(), segment_bytes="8000000", max_message_bytes="8000000")
    room.append("x" * 3_000_000)
    assert room.crash() == [UNCLEAN]
    assert room.log.log_end_offset == 1

    file(room, FIRST_LOG)[2_000_000] ^= 1

    assert "CRC" in room.crash()[0]
    assert room.log.log_end_offset == 0
    assert room.append("again").base_offset == 0


def test_epochs_are_written_as_kafka_writes_them():
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(3, 42)

    assert epochs.build() == b"0\n2\n0 0\n3 42\n"
    assert LeaderEpochs.parse(epochs.build()).entries == [(0, 0), (3, 42)]


@pytest.mark.parametrize("data", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n2\n0 5\n1 5\n", b"0\nx\n", b"0\n1\n0 0"])
def test_what_is_no_epoch_checkpoint_is_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        LeaderEpochs.parse(data)


def test_epochs_are_cut_at_both_ends():
    epochs = LeaderEpochs([(0, 0), (2, 10), (5, 20)])

    assert epochs.truncate_start(12)
    assert epochs.entries == [(2, 12), (5, 20)]
    assert not epochs.truncate_start(12)
    assert epochs.truncate_end(20)
    assert epochs.entries == [(2, 12)]
    assert not epochs.truncate_start(5)
