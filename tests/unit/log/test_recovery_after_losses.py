"""Start with missing or damaged files: folder, producers, epochs, transactions."""

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
    data = folder(stage)[log_name(base)]
    data[at] ^= 9
    return lambda: data.__setitem__(at, data[at] ^ 9)


def bases(stage):
    return [segment.base_offset for segment in stage.log.segments]


def flush(stage):
    stage.log.flush()
    stage.clock.advance(60_000)
    stage.topics.tick(stage.now_ms)


def lose(stage, ending):
    for name in stage.files(ending):
        del folder(stage)[name]


def send(stage, sequence, *values, pid=7, **how):
    return stage.append(*(values or ("v",)), producer_id=pid, producer_epoch=0, base_sequence=sequence, **how)


def base_sequences(stage, pid=7):
    return [produced.base_sequence for produced in stage.log.producers.get(pid).batches]


# ---------------------------------------------------------------- files


class Unsorted(MemoryStorage):
    def files(self, folder=""):
        return dict(reversed(super().files(folder).items()))


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_segment_list_order_does_not_matter(how):
    stage = LogStage(Unsorted())
    names = stage.fill(40)
    before = bases(stage)

    getattr(stage, how)()

    assert bases(stage) == before
    assert values_from(stage.log, 0) == names
    stage.check()


def test_orphan_indexes_and_unfinished_files_are_deleted():
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


def test_start_creates_no_empty_txnindex():
    stage = LogStage()
    stage.fill(30)

    stage.restart()

    assert stage.files(".txnindex") == []


def test_unreadable_swap_replaces_its_segment():
    stage = LogStage()
    stage.fill(60)
    stage.topics.close()
    first, second = bases(stage)[:2]
    stage.storage.replace(f"orders-0/{log_name(first)}.swap", b"nothing that could be a batch" * 4)

    (note,) = map(str, finish_interrupted(stage.storage, "orders-0"))

    assert note == f"finished an interrupted compaction: {log_name(first)} replaces 1 segments"
    remaining = [name for name in stage.files() if name.startswith(f"{first:020d}.")]
    assert remaining == [log_name(first)]
    assert f"{second:020d}.index" in stage.files()


# ---------------------------------------------------------------- notes


def test_clean_stop_contradiction_is_reported_first():
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


def test_gaps_after_damaged_segment_are_reported():
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
def test_damaged_flushed_segment_is_reported_during_replay(policy):
    stage = LogStage(cleanup_policy=policy)
    while len(stage.log.segments) < 4:
        send(stage, 0, "x" * 100, pid=stage.log.log_end_offset, key=b"k")
    spoilt, after, _ = bases(stage)[1:]
    end = stage.log.log_end_offset
    flush(stage)
    lose(stage, ".snapshot")
    mend = damage(stage, spoilt)

    notes = stage.crash()

    (report,) = [note for note in notes if "reads of this batch fail" in note]
    assert report.startswith(f"orders-0: orders-0/{log_name(spoilt)}: ")
    assert report.endswith("; not repaired, reads of this batch fail")
    assert [pid for pid, _ in stage.log.producers] == [*range(spoilt), *range(after, end)]
    mend()


def test_damaged_segment_before_snapshot_is_not_read():
    stage = LogStage(cleanup_policy="compact")
    stage.fill(30, key=b"k")
    flush(stage)
    segment = stage.log.segments[-2]
    at = [position for position, _ in segment.headers()][-1]
    damage(stage, segment.base_offset, at + 8)  # the length of its last batch

    assert stage.crash() == [UNCLEAN]


def test_recovery_detects_changed_bytes():
    stage = LogStage()
    stage.fill(3)
    check_invariants(stage.log)
    folder(stage)[log_name(0)][-1] ^= 1

    with pytest.raises(CorruptRecord, match="CRC"):
        check_invariants(stage.log)


# ---------------------------------------------------------------- missing checkpoints


def test_log_without_checkpoint_has_zero_recovery_point():
    stage = LogStage()
    stage.fill(3)
    stage.topics.close()
    del folder(stage)[log_name(0)][-5:]

    log = PartitionLog(stage.log.tp, stage.storage, stage.log.config, stage.now_ms)

    assert (log.log_start_offset, log.recovery_point, log.log_end_offset) == (0, 0, 2)
    assert LogCheckpoint() == (False, 0, 0)


def test_empty_folder_without_checkpoint_begins_at_0():
    stage = LogStage()
    stage.topics.close()

    log = PartitionLog(stage.log.tp, stage.storage, stage.log.config, stage.now_ms)

    assert (log.log_start_offset, log.recovery_point, log.log_end_offset) == (0, 0, 0)
    log.append(batch(), stage.now_ms)
    assert stage.files(".log") == [log_name(0)]


def test_log_recovered_alone_is_checked_from_start():
    stage = LogStage()
    names = stage.fill(60)
    missing, after = bases(stage)[1:3]
    for name in [name for name in stage.files() if name.startswith(f"{missing:020d}.") and "snapshot" not in name]:
        del folder(stage)[name]

    found = recover(LogToRecover(stage.storage, "orders-0", stage.log.segments[0].limits, clean=False), stage.now_ms)

    assert (found.start_offset, found.recovery_point, found.next_offset) == (0, 0, len(names))
    assert [str(note) for note in found.notes] == [
        f"offsets {missing} to {after - 1} are missing: {log_name(0)} ends before {log_name(after)} begins"
    ]


def test_empty_folder_recovered_alone_begins_at_0():
    stage = LogStage()
    storage = MemoryStorage()
    storage.make_folder("orders-0")

    found = recover(LogToRecover(storage, "orders-0", stage.log.segments[0].limits, clean=False), stage.now_ms)

    assert [segment.base_offset for segment in found.segments] == [0]
    assert (found.start_offset, found.recovery_point, found.next_offset) == (0, 0, 0)


def test_segment_ending_at_recovery_point_is_not_checked():
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


def test_empty_segment_after_several_is_deleted():
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
def test_lost_recovery_point_checks_first_segment(flushed):
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


def test_batch_overlapping_next_segment_is_truncated():
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


def test_checked_batches_without_epoch_add_no_epoch():
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
def test_epoch_beyond_log_end_is_dropped(begins, entries):
    stage = LogStage()
    stage.fill(3)
    stage.topics.close()
    stage.storage.replace("orders-0/leader-epoch-checkpoint", b"0\n2\n0 0\n1 %d\n" % begins)

    stage.crash()

    assert stage.log.epochs.entries == entries


# ---------------------------------------------------------------- producers


def test_interleaved_in_flight_batches_are_recalled():
    stage = LogStage(segment_bytes="100000")
    for sequence in range(7):
        stage.append("of nobody")
        send(stage, sequence)
    stage.append("of nobody")

    stage.restart()

    assert base_sequences(stage) == [2, 3, 4, 5, 6]


def test_producers_survive_crash_without_snapshots():
    stage = LogStage()
    send(stage, 0, pid=1)
    stage.fill(30)
    send(stage, 0, pid=2)
    flush(stage)
    lose(stage, ".snapshot")

    stage.crash()

    assert [pid for pid, _ in stage.log.producers] == [1, 2]


def test_snapshot_before_unflushed_part_survives_crash():
    stage = LogStage()
    send(stage, 0)
    stage.fill(30)
    flush(stage)
    kept = stage.files(".snapshot")[-1]
    assert kept == f"{bases(stage)[-1]:020d}.snapshot"

    stage.crash()

    assert kept in stage.files(".snapshot")


def of_size(size, **how):
    spare = size - len(batch(["x" * (size - 100)], at_ms=0, **how))
    made = batch(["x" * (size - 100 + spare)], at_ms=0, **how)
    assert len(made) == size
    return made


@pytest.mark.parametrize(("more", "recalled"), [(0, [0, 1, 2, 3, 4]), (1, [1, 2, 3, 4]), (2, [1, 2, 3, 4])])
def test_recall_reads_exactly_256_kilobytes(more, recalled):
    stage = LogStage(segment_bytes="10000000")
    sizes = [RECALLED_BYTES // 4 + more, *[RECALLED_BYTES // 4] * 3, 1_000]
    for sequence, size in enumerate(sizes):
        made = of_size(size, producer_id=7, producer_epoch=0, base_sequence=sequence)
        stage.log.append(made, stage.now_ms)
    last, position = stage.log.segments[0].index_entries()[-1]
    assert (last, position) == (4, RECALLED_BYTES + more)

    stage.restart()

    assert base_sequences(stage) == recalled


# ---------------------------------------------------------------- transactions


def test_transaction_with_torn_abort_marker_is_open():
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


def test_aborted_transactions_of_flushed_segments_survive_crash():
    stage = LogStage()
    send(stage, 0, is_transactional=True)
    stage.log.end_transaction(Marker(7, 0, committed=False, coordinator_epoch=0), stage.now_ms)
    before = stage.log.aborted_between(0, 10)
    stage.fill(40)
    flush(stage)

    stage.crash()

    assert stage.log.aborted_between(0, 10) == before != []
