"""A start that finds less, or other, than was left: what it makes of the folder, of producers, epochs, transactions."""

import pytest

from kohort.errors import CorruptRecord
from kohort.log.partition import LogCheckpoint, PartitionLog
from kohort.log.recovery import LogToRecover, recover
from kohort.log.segment_queries import gaps_between
from kohort.log.segment_swap import finish_interrupted
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import Marker, with_offset
from kohort_lab.sim.checks.log_invariants import check_invariants
from support.machines.log_stage import LogStage, batch, values_from

UNCLEAN = "the last stop was not clean: checked 1 logs from their recovery points"
RECALLED_BYTES = 256 * 1024


def folder(stage):
    return stage.storage._folders["orders-0"]


def log_name(base):
    return f"{base:020d}.log"


def damage(stage, base, at=16):
    """Spoil the format of a batch, in a segment, so that nobody reads from there on; returns how to mend it."""
    data = folder(stage)[log_name(base)]
    data[at] ^= 9
    return lambda: data.__setitem__(at, data[at] ^ 9)


def bases(stage):
    return [segment.base_offset for segment in stage.log.segments]


def flush(stage):
    """Have all on the disk, and the recovery points say so."""
    stage.log.flush()
    stage.clock.advance(60_000)
    stage.topics.tick(stage.now_ms)


def lose(stage, ending):
    for name in stage.files(ending):
        del folder(stage)[name]


def send(stage, sequence, *values, pid=7, **how):
    return stage.append(*(values or ("v",)), producer_id=pid, producer_epoch=0, base_sequence=sequence, **how)


def known(stage, pid=7):
    return [produced.base_sequence for produced in stage.log.producers.get(pid).batches]


# ---------------------------------------------------------------- files


class Unsorted(MemoryStorage):
    """Lists files as a file system may: in no order."""

    def files(self, folder=""):
        return dict(reversed(super().files(folder).items()))


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_in_whatever_order_a_disk_lists_the_segments_the_log_is_the_same(how):
    stage = LogStage(Unsorted())
    names = stage.fill(40)
    before = bases(stage)

    getattr(stage, how)()

    assert bases(stage) == before
    assert values_from(stage.log, 0) == names
    stage.check()


def test_an_index_whose_log_is_missing_and_a_leftover_are_gone_after_the_start():
    stage = LogStage()
    stage.fill(3)
    stage.topics.close()
    strays = [f"{9:020d}.index", f"{9:020d}.timeindex", f"{9:020d}.txnindex", f"{0:020d}.log.cleaned", "a.tmp"]
    for name in strays:
        stage.storage.replace(f"orders-0/{name}", bytes(12))

    notes = stage.crash()

    assert [name for name in strays if name in stage.files()] == []
    assert sorted(notes) == sorted(
        [f"orders-0: deleted the unfinished file {name}" for name in strays[3:]]
        + [f"orders-0: deleted {name}: its log is missing" for name in strays[:3]]
    )


def test_a_start_makes_no_file_of_aborted_transactions_where_there_are_none():
    stage = LogStage()
    stage.fill(30)

    stage.restart()

    assert stage.files(".txnindex") == []


def test_a_swap_of_which_nothing_can_be_read_replaces_the_segment_of_its_name_with_its_indexes():
    stage = LogStage()
    stage.fill(60)
    stage.topics.close()
    first, second = bases(stage)[:2]
    stage.storage.replace(f"orders-0/{log_name(first)}.swap", b"nothing that could be a batch" * 4)

    (note,) = map(str, finish_interrupted(stage.storage, "orders-0"))

    assert note == f"finished an interrupted compaction: {log_name(first)} replaces 1 segments"
    left = [name for name in stage.files() if name.startswith(f"{first:020d}.")]
    assert left == [log_name(first)]
    assert f"{second:020d}.index" in stage.files()


# ---------------------------------------------------------------- what is told


def test_what_made_a_clean_stop_a_lie_is_told_before_what_was_mended():
    stage = LogStage()
    stage.fill(3)
    stage.topics.close()
    stage.storage.replace("orders-0/notes.txt", b"mine")
    del folder(stage)[log_name(0)][-5:]

    first, second, third, fourth = stage.crash()

    assert first.startswith("orders-0: checked the log after a clean stop: ")
    assert second == "orders-0: ignored files that do not belong to a log: notes.txt"
    assert third.startswith("orders-0: truncated ")
    assert fourth.startswith("orders-0: offsets 2 to 2 are missing: ")


def test_every_gap_is_told_though_a_segment_before_it_cannot_be_read():
    stage = LogStage()
    stage.fill(60)
    stage.topics.close()
    stage.crash()
    first, damaged, third, _, fifth = stage.log.segments[:5]
    lose(stage, "index")
    damage(stage, damaged.base_offset)

    one, two = map(str, gaps_between([first, damaged, third, fifth]))

    assert log_name(damaged.base_offset) in one
    assert one.endswith("not repaired, reads of this batch fail")
    assert two.startswith(f"offsets {third.end_offset()} to {fifth.base_offset - 1} are missing: ")


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_flushed_segment_that_is_damaged_is_told_where_its_producers_are_to_be_read_again(policy):
    stage = LogStage(cleanup_policy=policy)
    while len(stage.log.segments) < 4:
        send(stage, 0, "x" * 100, pid=stage.log.log_end_offset, key=b"k")
    spoilt, after, _ = bases(stage)[1:]
    end = stage.log.log_end_offset
    flush(stage)
    lose(stage, ".snapshot")
    mend = damage(stage, spoilt)

    notes = stage.crash()

    (told,) = [note for note in notes if "reads of this batch fail" in note]
    assert told.startswith(f"orders-0: orders-0/{log_name(spoilt)}: ")
    assert told.endswith("; not repaired, reads of this batch fail")
    assert [pid for pid, _ in stage.log.producers] == [*range(spoilt), *range(after, end)]
    mend()


def test_a_damaged_segment_before_the_snapshot_of_a_compacted_log_is_nobodys_business_at_a_start():
    stage = LogStage(cleanup_policy="compact")
    stage.fill(30, key=b"k")
    flush(stage)
    segment = stage.log.segments[-2]
    at = [position for position, _ in segment.headers()][-1]
    damage(stage, segment.base_offset, at + 8)  # the length of its last batch

    assert stage.crash() == [UNCLEAN]


def test_a_check_of_a_log_notices_a_batch_whose_bytes_have_changed():
    stage = LogStage()
    stage.fill(3)
    check_invariants(stage.log)
    folder(stage)[log_name(0)][-1] ^= 1

    with pytest.raises(CorruptRecord, match="CRC"):
        check_invariants(stage.log)


# ---------------------------------------------------------------- what is known of it


def test_of_a_log_of_which_nothing_is_known_nothing_is_believed_to_be_on_the_disk_or_deleted():
    stage = LogStage()
    stage.fill(3)
    stage.topics.close()
    del folder(stage)[log_name(0)][-5:]

    log = PartitionLog(stage.log.tp, stage.storage, stage.log.config, stage.now_ms)

    assert (log.log_start_offset, log.recovery_point, log.log_end_offset) == (0, 0, 2)
    assert LogCheckpoint() == (False, 0, 0)


def test_an_empty_folder_of_which_nothing_is_known_begins_at_the_first_offset():
    stage = LogStage()
    stage.topics.close()

    log = PartitionLog(stage.log.tp, stage.storage, stage.log.config, stage.now_ms)

    assert (log.log_start_offset, log.recovery_point, log.log_end_offset) == (0, 0, 0)
    log.append(batch(), stage.now_ms)
    assert stage.files(".log") == [log_name(0)]


def test_a_log_that_is_recovered_by_itself_has_all_its_offsets_and_is_checked_from_its_beginning():
    stage = LogStage()
    names = stage.fill(60)
    gone, after = bases(stage)[1:3]
    for name in [name for name in stage.files() if name.startswith(f"{gone:020d}.") and "snapshot" not in name]:
        del folder(stage)[name]

    found = recover(LogToRecover(stage.storage, "orders-0", stage.log.segments[0].limits, clean=False), stage.now_ms)

    assert (found.start_offset, found.recovery_point, found.next_offset) == (0, 0, len(names))
    assert [str(note) for note in found.notes] == [
        f"offsets {gone} to {after - 1} are missing: {log_name(0)} ends before {log_name(after)} begins"
    ]


def test_a_folder_without_files_that_is_recovered_by_itself_begins_at_the_first_offset():
    stage = LogStage()
    storage = MemoryStorage()
    storage.make_folder("orders-0")

    found = recover(LogToRecover(storage, "orders-0", stage.log.segments[0].limits, clean=False), stage.now_ms)

    assert [segment.base_offset for segment in found.segments] == [0]
    assert (found.start_offset, found.recovery_point, found.next_offset) == (0, 0, 0)


def test_a_segment_that_ends_where_the_recovery_point_is_is_believed():
    stage = LogStage()
    stage.fill(30)
    stage.log.roll(stage.now_ms)
    flush(stage)
    stage.append("not flushed")
    before, last = stage.log.segments[-2:]
    assert stage.log.recovery_point == last.base_offset
    folder(stage)[before.log_name][-1] ^= 1

    assert stage.crash() == [UNCLEAN]
    assert stage.log.log_end_offset == 31


def test_behind_several_segments_too_an_empty_one_that_the_log_has_outgrown_goes():
    stage = LogStage()
    names = stage.fill(30)
    before = bases(stage)
    empty = log_name(29)
    assert len(before) > 2
    assert before[-1] < 29
    stage.storage.replace(f"orders-0/{empty}", b"")

    notes = stage.crash()

    assert notes == [f"orders-0: deleted the empty {empty}: the log ends at offset 30", UNCLEAN]
    assert values_from(stage.log, 0) == names
    assert bases(stage) == before


@pytest.mark.parametrize("flushed", [False, True])
def test_where_the_recovery_point_is_lost_the_first_segment_is_checked_whatever_its_offset(flushed):
    stage = LogStage()
    stage.fill(60)
    first = bases(stage)[2]
    stage.log.delete_records_before(first)
    stage.log.retain(stage.now_ms)
    if flushed:
        flush(stage)
    stage.storage.delete("recovery-point-offset-checkpoint")
    folder(stage)[log_name(first)][-1] ^= 1

    notes = stage.crash()

    assert "CRC" in notes[0]
    assert bases(stage) == [first]
    stage.check()


def test_a_batch_that_reaches_into_the_next_segment_is_cut():
    stage = LogStage()
    stage.topics.close()
    five = b"".join(with_offset(batch(["v"] * 5, at_ms=stage.now_ms), 0, 0))
    one = b"".join(with_offset(batch(at_ms=stage.now_ms), 3, 0))
    stage.storage.replace(f"orders-0/{log_name(0)}", five)
    stage.storage.replace(f"orders-0/{log_name(3)}", one)
    stage.storage.delete(".kafka_cleanshutdown")

    notes = stage.crash()

    cut = f"orders-0: truncated {len(five)} bytes at offset 0 from {log_name(0)}"
    assert f"{cut}: batch ends at offset 4, but the next segment begins at 3" in notes
    assert stage.log.log_end_offset == 0
    stage.check()


# ---------------------------------------------------------------- epochs


def test_batches_that_bear_no_epoch_begin_none_when_they_are_checked():
    stage = LogStage()
    stage.topics.close()
    stage.storage.replace(f"orders-0/{log_name(0)}", b"".join(with_offset(batch(), 0, -1)))
    stage.storage.delete(".kafka_cleanshutdown")

    stage.crash()

    assert stage.log.epochs.entries == []
    assert stage.log.log_end_offset == 1
    stage.append("the first of an epoch")
    assert stage.log.epochs.entries == [(0, 1)]


@pytest.mark.parametrize(("begins", "entries"), [(3, [(0, 0), (1, 3)]), (4, [(0, 0)]), (5, [(0, 0)])])
def test_an_epoch_that_begins_beyond_the_end_of_the_log_is_forgotten(begins, entries):
    stage = LogStage()
    stage.fill(3)
    stage.topics.close()
    stage.storage.replace("orders-0/leader-epoch-checkpoint", b"0\n2\n0 0\n1 %d\n" % begins)

    stage.crash()

    assert stage.log.epochs.entries == entries


# ---------------------------------------------------------------- producers


def test_batches_in_flight_are_known_again_though_others_wrote_in_between():
    stage = LogStage(segment_bytes="100000")
    for sequence in range(7):
        stage.append("of nobody")
        send(stage, sequence)
    stage.append("of nobody")

    stage.restart()

    assert known(stage) == [2, 3, 4, 5, 6]


def test_producers_of_flushed_segments_are_known_after_a_crash_that_took_the_snapshots():
    stage = LogStage()
    send(stage, 0, pid=1)
    stage.fill(30)
    send(stage, 0, pid=2)
    flush(stage)
    lose(stage, ".snapshot")

    stage.crash()

    assert [pid for pid, _ in stage.log.producers] == [1, 2]


def test_the_snapshot_of_the_roll_before_what_was_not_flushed_is_kept_after_a_crash():
    stage = LogStage()
    send(stage, 0)
    stage.fill(30)
    flush(stage)
    kept = stage.files(".snapshot")[-1]
    assert kept == f"{bases(stage)[-1]:020d}.snapshot"

    stage.crash()

    assert kept in stage.files(".snapshot")


def of_size(size, **how):
    """A batch of so many bytes."""
    spare = size - len(batch(["x" * (size - 100)], at_ms=0, **how))
    made = batch(["x" * (size - 100 + spare)], at_ms=0, **how)
    assert len(made) == size
    return made


@pytest.mark.parametrize(("more", "recalled"), [(0, [0, 1, 2, 3, 4]), (1, [1, 2, 3, 4]), (2, [1, 2, 3, 4])])
def test_a_quarter_of_a_megabyte_is_looked_through_before_the_last_batch_to_the_byte(more, recalled):
    stage = LogStage(segment_bytes="10000000")
    sizes = [RECALLED_BYTES // 4 + more, *[RECALLED_BYTES // 4] * 3, 1_000]
    for sequence, size in enumerate(sizes):
        made = of_size(size, producer_id=7, producer_epoch=0, base_sequence=sequence)
        stage.log.append(made, stage.now_ms)
    last, position = stage.log.segments[0].index_entries()[-1]
    assert (last, position) == (4, RECALLED_BYTES + more)

    stage.restart()

    assert known(stage) == recalled


# ---------------------------------------------------------------- transactions


def test_a_transaction_whose_abort_was_torn_off_is_open_and_can_be_committed():
    stage = LogStage()
    send(stage, 0, is_transactional=True)
    size = stage.log.size_bytes
    stage.log.end_transaction(Marker(7, 0, committed=False, coordinator_epoch=0), stage.now_ms)
    assert stage.files(".txnindex") == [f"{0:020d}.txnindex"]
    del folder(stage)[log_name(0)][size + 10 :]

    stage.crash()

    assert stage.log.aborted_between(0, 10) == []
    assert stage.log.last_stable_offset == 0
    stage.log.end_transaction(Marker(7, 0, committed=True, coordinator_epoch=0), stage.now_ms)
    assert stage.log.aborted_between(0, 10) == []
    assert stage.log.last_stable_offset == 2


def test_what_was_taken_back_in_flushed_segments_is_known_after_a_crash():
    stage = LogStage()
    send(stage, 0, is_transactional=True)
    stage.log.end_transaction(Marker(7, 0, committed=False, coordinator_epoch=0), stage.now_ms)
    before = stage.log.aborted_between(0, 10)
    stage.fill(40)
    flush(stage)

    stage.crash()

    assert stage.log.aborted_between(0, 10) == before != []
