"""Aborted transactions lie on the disk: what is asked is found there, and no more than a bound of it is in memory."""

import random

import pytest

from kohort.errors import ApiError, CorruptLog, ErrorCode
from kohort.log.aborted import ENTRY_BYTES, PAGE_ENTRIES, AbortedPages, AbortedTransaction, AbortedTransactions
from kohort.log.segment import segment_name
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import Marker
from support.machines.counted_reads import CountedReads
from support.machines.log_stage import LogStage

EVERY = 10
"""Offsets between two markers of the plain histories below."""


@pytest.fixture
def storage():
    made = MemoryStorage()
    made.make_folder("p-0")
    return made


def held(storage, pages=None, folder="p-0"):
    made = AbortedTransactions(storage, folder)
    made.pages = pages
    return made


def one_after_another(kept, count, segment=0, first=0):
    """Add transactions that end before the next begins; each has its marker at its tenth offset."""
    for number in range(first, first + count):
        begin = number * EVERY
        kept.add(AbortedTransaction(number, begin, begin + EVERY - 1, begin + EVERY), segment_name(segment))


def of(found):
    return [entry.producer_id for entry in found]


@pytest.mark.parametrize("pages", [None, AbortedPages(), AbortedPages(most_entries=100)])
def test_what_lies_pages_deep_is_found_without_the_rest(storage, pages):
    kept = held(storage, pages)
    count = 3 * PAGE_ENTRIES + 7
    one_after_another(kept, count)

    for number in (0, 1, PAGE_ENTRIES - 1, PAGE_ENTRIES, 2 * PAGE_ENTRIES + 5, count - 1):
        begin = number * EVERY
        assert of(kept.between(begin, begin + EVERY)) == [number]
        assert of(kept.between(begin + EVERY - 1, begin + EVERY + 1)) == [n for n in (number, number + 1) if n < count]
        assert kept.holds(number, begin)
        assert not kept.holds(number + 1, begin)
    assert kept.between(count * EVERY, count * EVERY + 1) == []
    assert len(kept) == len(list(kept)) == count


def test_what_is_kept_of_all_partitions_is_bounded(storage):
    pages = AbortedPages(most_entries=1_000)
    several = []
    for number in range(5):
        storage.make_folder(f"p-{number}")
        several.append(held(storage, pages, f"p-{number}"))
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
def test_any_history_is_answered_as_from_a_list(storage, seed):
    rng = random.Random(seed)
    kept, known, is_open, at, base = held(storage, AbortedPages(10)), [], {}, 0, 0
    for _ in range(400):
        producer = rng.randrange(6)
        if producer not in is_open:
            is_open[producer] = at
        elif rng.random() < 0.6:
            first = is_open.pop(producer)
            entry = AbortedTransaction(producer, first, at, min(is_open.values(), default=at + 1))
            if rng.random() < 0.7:
                kept.add(entry, segment_name(base))
                known.append(entry)
        if rng.random() < 0.05:
            base = at + 1
        at += 1
        if rng.random() < 0.02:  # a restart reads the files
            kept = held(storage, AbortedPages(10))
            for name in sorted(storage.files("p-0")):
                kept.load(name.partition(".")[0])
    assert list(kept) == known
    stable = min(is_open.values(), default=at)
    for _ in range(200):
        start = rng.randrange(stable)
        end = rng.randrange(start, stable) + 1
        assert kept.between(start, end) == [e for e in known if e.last_offset >= start and e.first_offset < end]


def test_a_look_reads_no_more_of_the_disk_than_it_needs():
    storage = CountedReads()
    count = 50 * PAGE_ENTRIES
    one_after_another(held(storage), count)
    kept = held(storage)
    kept.load(segment_name(0))
    assert storage.read_bytes == count * ENTRY_BYTES, "a start sees that all is in order"

    storage.read_bytes = 0
    assert of(kept.between(0, EVERY)) == [0]
    assert of(kept.between(40 * PAGE_ENTRIES * EVERY, 40 * PAGE_ENTRIES * EVERY + 1)) == [40 * PAGE_ENTRIES]
    assert storage.read_bytes < 3 * PAGE_ENTRIES * ENTRY_BYTES

    storage.read_bytes = 0
    assert kept.between(count * EVERY, count * EVERY + 1) == []
    assert storage.read_bytes == 0, "who reads at the end of the log needs none"


def test_a_file_that_was_cut_or_changed_under_a_broker_is_told_and_not_passed_over():
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
            stage.log.taken_back(0, 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        stage.topics.aborted_pages.forget(stage.log.aborted._segments[0], 0)
    assert stage.log.taken_back(2, 3) == [], "what lies behind the last marker needs no file"
