"""Transactions of one log: last stable offset, aborted transactions, and their state after a restart."""

import random

import pytest

from kohort.errors import ApiError, CorruptLog, ErrorCode
from kohort.log.aborted import (
    ENTRY_BYTES,
    NO_PAGES,
    PAGE_ENTRIES,
    AbortedPages,
    AbortedTransaction,
    AbortedTransactions,
)
from kohort.log.segment import segment_name
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import Marker, build_marker, parse_batch_header, parse_marker, read_batch, split_batches
from support.machines.counted_reads import CountedReads
from support.machines.log_stage import LogStage

ABORT, COMMIT = False, True


@pytest.fixture
def stage():
    return LogStage()


def write(stage, producer, *values, sequence=0, epoch=0):
    return stage.append(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    ).base_offset


def end(stage, producer, committed, *, epoch=0, coordinator_epoch=0):
    marker = Marker(producer, epoch, committed, coordinator_epoch)
    return stage.log.end_transaction(marker, stage.now_ms).base_offset


def aborted(stage):
    return [tuple(entry) for entry in stage.log.aborted]


def test_transaction_marker_round_trips():
    marker = Marker(7, 3, True, 11)
    batch = build_marker(marker, 5)
    header = parse_batch_header(batch)

    assert parse_marker(batch, header) == marker
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)


def test_last_stable_offset_is_start_of_first_open_transaction(stage):
    stage.append("before")
    write(stage, 1, "a", "b")
    write(stage, 2, "c")
    stage.append("not of a transaction")
    assert stage.log.last_stable_offset == 1

    end(stage, 1, COMMIT)
    assert stage.log.last_stable_offset == 3
    end(stage, 2, COMMIT)

    assert stage.log.last_stable_offset == stage.log.log_end_offset == 7
    assert aborted(stage) == []


def test_aborted_transactions_are_listed_by_producer_and_offsets(stage):
    write(stage, 1, "a")
    write(stage, 2, "b")
    assert end(stage, 2, ABORT) == 2
    assert end(stage, 1, ABORT) == 3

    assert aborted(stage) == [(2, 1, 2, 0), (1, 0, 3, 4)]
    assert [entry.producer_id for entry in stage.log.aborted.between(0, 1)] == [1]
    assert [entry.producer_id for entry in stage.log.aborted.between(1, 3)] == [2, 1]
    assert stage.log.aborted.between(4, 9) == []


@pytest.mark.parametrize("cleanly", [True, False])
def test_restart_restores_open_and_aborted_transactions(stage, cleanly):
    for turn in range(12):  # over several segments
        write(stage, 1, "x" * 200, sequence=turn)
        end(stage, 1, turn % 3 != 0)
    write(stage, 2, "open")
    before = aborted(stage)
    stable = stage.log.last_stable_offset
    assert len(stage.files(".log")) > 2
    assert len(before) == 4

    stage.restart() if cleanly else stage.crash()

    assert (aborted(stage), stage.log.last_stable_offset) == (before, stable)
    stage.check()
    end(stage, 2, ABORT)
    assert stage.log.last_stable_offset == stage.log.log_end_offset


@pytest.mark.parametrize("damage", [b"", b"short", bytes(34)[:-1] + b"\x09" + bytes(34)])
def test_damaged_txnindex_file_is_rebuilt(stage, damage):
    write(stage, 1, "a")
    end(stage, 1, ABORT)
    before = aborted(stage)
    stage.topics.close()
    if damage:
        stage.storage.replace(f"orders-0/{stage.files('.txnindex')[0]}", damage)

    notes = stage.crash()

    assert aborted(stage) == before
    assert any("cannot read" in note and "txnindex" in note for note in notes) == bool(damage)


def test_deleted_segments_lose_their_aborted_transactions(stage):
    for turn in range(12):
        write(stage, 1, "x" * 200, sequence=turn)
        end(stage, 1, ABORT)
    stage.log.delete_records_before(stage.log.log_end_offset)

    stage.log.retain(stage.now_ms)

    assert len(stage.log.aborted) < 12
    assert all(entry.last_offset >= stage.log.segments[0].base_offset for entry in stage.log.aborted)
    assert len(stage.files(".txnindex")) == len(stage.log.segments) == 1


def test_producer_with_open_transaction_does_not_expire(stage):
    write(stage, 1, "a")
    stage.append("b", producer_id=2, producer_epoch=0, base_sequence=0)

    assert stage.log.producers.expire(stage.now_ms + 10_000, 1) == 1

    assert stage.log.last_stable_offset == 0


def test_non_transactional_batch_during_open_transaction_is_rejected(stage):
    write(stage, 1, "a")

    with pytest.raises(ApiError, match="has an open transaction") as caught:
        stage.append("b", producer_id=1, producer_epoch=0, base_sequence=1)

    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_marker_with_older_producer_or_coordinator_epoch_is_rejected(stage):
    write(stage, 1, "a", epoch=3)
    end(stage, 1, COMMIT, epoch=3, coordinator_epoch=5)

    with pytest.raises(ApiError) as caught:
        end(stage, 1, ABORT, epoch=2, coordinator_epoch=5)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        end(stage, 1, ABORT, epoch=3, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_marker_with_later_epoch_resets_the_sequence(stage):
    write(stage, 1, "a", "b")
    end(stage, 1, ABORT, epoch=1)

    with pytest.raises(ApiError) as caught:
        write(stage, 1, "late", sequence=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(stage, 1, "c", epoch=1) == 3


def test_compaction_drops_aborted_records_and_keeps_open_transactions():
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")

    def put(producer, sequence, value):
        stage.append(
            value, key=b"k", producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )

    put(1, 0, "kept " + "x" * 100)
    end(stage, 1, COMMIT)
    put(1, 1, "gone " + "x" * 100)
    end(stage, 1, ABORT)
    stage.log.roll(stage.now_ms)
    put(2, 0, "open " + "x" * 100)
    stage.log.roll(stage.now_ms)
    put(3, 0, "in the active segment")
    for _ in range(600):
        stage.clock.advance(100)
        stage.topics.tick(stage.now_ms)

    values = [
        (record.value or b"")[:4].decode()
        for buffer in stage.log.read(0, 1 << 20)
        for at, header in split_batches(buffer)
        if not header.is_control
        for record in read_batch(buffer, at)
    ]
    assert values == ["kept", "open", "in t"]
    assert aborted(stage) == []
    stage.check()
    stage.crash()
    assert stage.log.last_stable_offset == 4


EVERY = 10


@pytest.fixture
def storage():
    made = MemoryStorage()
    made.make_folder("p-0")
    return made


def aborted_transactions(storage, pages=NO_PAGES, folder="p-0"):
    made = AbortedTransactions(storage, folder)
    made.pages = pages
    return made


def one_after_another(kept, count, segment=0, first=0):
    for number in range(first, first + count):
        begin = number * EVERY
        kept.add(AbortedTransaction(number, begin, begin + EVERY - 1, begin + EVERY), segment_name(segment))


def of(found):
    return [entry.producer_id for entry in found]


@pytest.mark.parametrize("pages", [NO_PAGES, AbortedPages(), AbortedPages(most_entries=100)])
def test_query_of_a_deep_page_reads_no_other_pages(storage, pages):
    kept = aborted_transactions(storage, pages)
    count = 3 * PAGE_ENTRIES + 7
    one_after_another(kept, count)

    for number in (0, 1, PAGE_ENTRIES - 1, PAGE_ENTRIES, 2 * PAGE_ENTRIES + 5, count - 1):
        begin = number * EVERY
        assert of(kept.between(begin, begin + EVERY)) == [number]
        assert of(kept.between(begin + EVERY - 1, begin + EVERY + 1)) == [n for n in (number, number + 1) if n < count]
        assert kept.is_aborted(number, begin)
        assert not kept.is_aborted(number + 1, begin)
    assert kept.between(count * EVERY, count * EVERY + 1) == []
    assert len(kept) == len(list(kept)) == count


def test_page_cache_is_limited_over_all_partitions(storage):
    pages = AbortedPages(most_entries=1_000)
    several = []
    for number in range(5):
        storage.make_folder(f"p-{number}")
        several.append(aborted_transactions(storage, pages, f"p-{number}"))
    for kept in several:
        one_after_another(kept, 2 * PAGE_ENTRIES)

    for kept in several:
        assert of(kept.between(0, EVERY)) == [0]
        assert of(kept.between((2 * PAGE_ENTRIES - 1) * EVERY, 2 * PAGE_ENTRIES * EVERY)) == [2 * PAGE_ENTRIES - 1]
        assert 0 < pages.used <= 1_000
    for kept in several:
        kept.forget(0, 1)
        assert (len(kept), kept.between(0, 100)) == (0, [])
    assert pages.used == 0


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_match_a_list_model(storage, seed):
    rng = random.Random(seed)
    kept, expected, is_open, at, base = aborted_transactions(storage, AbortedPages(10)), [], {}, 0, 0
    for _ in range(400):
        producer = rng.randrange(6)
        if producer not in is_open:
            is_open[producer] = at
        elif rng.random() < 0.6:
            first = is_open.pop(producer)
            entry = AbortedTransaction(producer, first, at, min(is_open.values(), default=at + 1))
            if rng.random() < 0.7:
                kept.add(entry, segment_name(base))
                expected.append(entry)
        if rng.random() < 0.05:
            base = at + 1
        at += 1
        if rng.random() < 0.02:  # a restart reads the files
            kept = aborted_transactions(storage, AbortedPages(10))
            for name in sorted(storage.files("p-0")):
                kept.load(name.partition(".")[0])
    assert list(kept) == expected
    stable = min(is_open.values(), default=at)
    for _ in range(200):
        start = rng.randrange(stable)
        end = rng.randrange(start, stable) + 1
        assert kept.between(start, end) == [e for e in expected if e.last_offset >= start and e.first_offset < end]


def test_query_reads_few_bytes_from_disk():
    storage = CountedReads()
    count = 50 * PAGE_ENTRIES
    one_after_another(aborted_transactions(storage), count)
    kept = aborted_transactions(storage)
    kept.load(segment_name(0))
    assert storage.read_bytes == count * ENTRY_BYTES, "loading reads each entry once"

    storage.read_bytes = 0
    assert of(kept.between(0, EVERY)) == [0]
    assert of(kept.between(40 * PAGE_ENTRIES * EVERY, 40 * PAGE_ENTRIES * EVERY + 1)) == [40 * PAGE_ENTRIES]
    assert storage.read_bytes < 3 * PAGE_ENTRIES * ENTRY_BYTES

    storage.read_bytes = 0
    assert kept.between(count * EVERY, count * EVERY + 1) == []
    assert storage.read_bytes == 0, "a query at the log end reads no entry"


def test_truncated_or_changed_txnindex_file_raises_corrupt_log():
    stage = LogStage()
    stage.append("a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    stage.log.end_transaction(Marker(1, 0, False, 0), stage.now_ms)
    name = f"orders-0/{stage.files('.txnindex')[0]}"
    stage.topics.aborted_pages.forget(stage.log.aborted._segments[0], 0)

    for damage in (b"", b"\x00\x07" + bytes(32)):
        stage.storage.replace(name, damage)
        with pytest.raises(CorruptLog):
            stage.log.aborted.between(0, 1)
        with pytest.raises(ApiError) as caught:
            stage.log.aborted_between(0, 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        stage.topics.aborted_pages.forget(stage.log.aborted._segments[0], 0)
    assert stage.log.aborted_between(2, 3) == [], "a query after the last marker reads no file"
