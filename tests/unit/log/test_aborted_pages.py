"""Pages of aborted transactions: the page cache, reads from disk, malformed files."""

import struct

import pytest

from kohort.log.aborted import (
    NO_PAGES,
    PAGE_ENTRIES,
    PAGE_OVERHEAD,
    AbortedPages,
    AbortedTransaction,
    AbortedTransactions,
    build_entry,
    parse_page,
)
from kohort.log.segment import segment_name
from kohort.wire.record_batch import Marker
from support.machines.counted_reads import CountedReads
from support.machines.log_stage import LogStage


def entry(number: int) -> AbortedTransaction:
    return AbortedTransaction(number, number * 10, number * 10 + 9, number * 10 + 10)


def aborted_transactions(storage, pages=NO_PAGES):
    made = AbortedTransactions(storage, "p-0")
    made.pages = pages
    return made


# ---------------------------------------------------------------- page cache


def test_page_cache_returns_cached_page_only():
    pages, of = AbortedPages(), object()
    pages.put(of, 3, [entry(0)])

    assert pages.get(of, 3) == [entry(0)]
    assert (pages.get(of, 2), pages.get(object(), 3)) == (None, None)


def test_page_cache_replaces_page_with_same_key():
    pages, of = AbortedPages(), object()
    for count in (3, 2, 2):
        pages.put(of, 0, [entry(number) for number in range(count)])

    assert pages.used == 2 + PAGE_OVERHEAD
    pages.forget(of, 0)
    assert (pages.used, pages.get(of, 0)) == (0, None)


def test_page_cache_limit_holds_for_new_and_growing_pages():
    pages, first, second = AbortedPages(most_entries=10), object(), object()
    pages.put(first, 0, [entry(0)])
    pages.put(second, 0, [entry(0)])
    for number in range(1, 5):
        pages.add(second, 0, entry(number))
    assert pages.used == 10
    assert pages.get(first, 0) == [entry(0)]
    pages.get(second, 0)

    pages.add(second, 0, entry(5))

    assert pages.get(first, 0) is None, "the least recently used page is dropped"
    assert (pages.used, pages.get(second, 0)) == (8, [entry(number) for number in range(6)])


def test_page_cache_keeps_40000_entries_by_default():
    pages, of = AbortedPages(), object()
    pages.put(of, 0, [entry(0)] * (40_000 - PAGE_OVERHEAD))
    assert pages.used == 40_000

    pages.add(of, 0, entry(1))

    assert (pages.used, pages.get(of, 0)) == (0, None)


def test_entry_of_uncached_page_is_not_cached():
    pages = AbortedPages()
    pages.add(object(), 0, entry(0))
    assert pages.used == 0


def test_new_entries_are_cached_when_written():
    storage, pages = CountedReads(), AbortedPages()
    kept = aborted_transactions(storage, pages)
    count = 2 * PAGE_ENTRIES + 5
    for number in range(count):
        kept.add(entry(number), segment_name(0))

    assert [found.producer_id for found in kept.between(0, count * 10)] == list(range(count))
    assert [found.producer_id for found in kept.between(PAGE_ENTRIES * 10, PAGE_ENTRIES * 10 + 1)] == [PAGE_ENTRIES]

    assert storage.read_bytes == 0
    assert pages.used == count + 3 * PAGE_OVERHEAD


def test_read_pages_are_cached():
    storage = CountedReads()
    writing = aborted_transactions(storage)
    for number in range(2 * PAGE_ENTRIES):
        writing.add(entry(number), segment_name(0))
    kept = aborted_transactions(storage, AbortedPages())
    kept.load(segment_name(0))
    assert list(kept) == [entry(number) for number in range(2 * PAGE_ENTRIES)]
    storage.read_bytes = 0

    assert kept.between(0, 5) == [entry(0)]
    assert kept.between(PAGE_ENTRIES * 10, PAGE_ENTRIES * 10 + 5) == [entry(PAGE_ENTRIES)]
    assert storage.read_bytes == 0


def test_pages_of_deleted_segments_leave_the_cache():
    storage, pages = CountedReads(), AbortedPages()
    kept = aborted_transactions(storage, pages)
    for number in range(2 * PAGE_ENTRIES + 5):
        kept.add(entry(number), segment_name(0))

    kept.forget(0, 1)

    assert (pages.used, len(kept), list(kept)) == (0, 0, [])


# ---------------------------------------------------------------- queries


def test_forget_drops_only_segments_within_the_range():
    kept = aborted_transactions(CountedReads())
    for number, base in ((0, 0), (1, 10), (2, 20), (3, 30)):
        kept.add(entry(number), segment_name(base))

    kept.forget(10, 30)

    assert list(kept) == [entry(0), entry(3)]
    assert kept.between(0, 40) == [entry(0), entry(3)]


def test_offsets_next_to_an_aborted_transaction_are_not_aborted():
    kept = aborted_transactions(CountedReads())
    kept.add(AbortedTransaction(7, 10, 19, 20), segment_name(0))

    assert [offset for offset in range(5, 25) if kept.is_aborted(7, offset)] == list(range(10, 20))
    assert not kept.is_aborted(8, 12)


def test_known_aborted_transaction_is_not_written_twice():
    kept = aborted_transactions(CountedReads())
    for number, base in ((0, 0), (1, 0), (1, 0), (0, 0), (2, 20), (2, 20), (1, 20), (3, 20)):
        kept.add(entry(number), segment_name(base))

    assert (len(kept), list(kept)) == (4, [entry(number) for number in range(4)])


# ---------------------------------------------------------------- malformed files


def test_page_round_trips():
    written = [entry(number) for number in range(3)]
    assert parse_page(b"".join(map(build_entry, written))) == written
    assert build_entry(written[1]) == struct.pack(">hqqqq", 0, 1, 10, 19, 20)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("version", [1, 256, -1])
def test_entry_with_other_version_is_rejected(which, version):
    data = [build_entry(entry(number)) for number in range(3)]
    data[which] = struct.pack(">h", version) + data[which][2:]

    with pytest.raises(ValueError, match="an entry has a version other than 0"):
        parse_page(b"".join(data))


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 2, 1)])
def test_unordered_entries_are_rejected(order):
    with pytest.raises(ValueError, match="markers of entries do not increase"):
        parse_page(b"".join(build_entry(entry(number)) for number in order))


def test_file_with_partial_entry_is_rejected():
    with pytest.raises(ValueError, match="35 bytes are not a whole number of entries"):
        parse_page(build_entry(entry(0)) + b"x")


def test_entries_older_than_previous_segment_are_rebuilt():
    stage = LogStage()
    for sequence in range(12):
        stage.append("x" * 200, producer_id=1, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        stage.log.end_transaction(Marker(1, 0, False, 0), stage.now_ms)
    before = list(stage.log.aborted)
    assert stage.topics.close() == []
    first, *_, last = stage.files(".txnindex")
    old = stage.storage.read(f"orders-0/{first}")
    stage.storage.replace(f"orders-0/{last}", old)

    notes = stage.crash()

    problem = "markers of entries do not follow those of the previous segment"
    note = f"orders-0: cannot read {last} ({problem}); rebuilt it from the markers"
    assert notes == [note]
    assert list(stage.log.aborted) == before
    stage.check()


def test_entries_decreasing_between_pages_are_rejected():
    storage = CountedReads()
    data = b"".join(build_entry(entry(number)) for number in range(PAGE_ENTRIES))
    kept = aborted_transactions(storage)
    name = f"p-0/{segment_name(0)}.txnindex"
    storage.replace(name, data + build_entry(entry(PAGE_ENTRIES - 1)))

    with pytest.raises(ValueError, match="markers of entries do not follow those of the previous segment"):
        kept.load(segment_name(0))

    storage.replace(name, data + build_entry(entry(PAGE_ENTRIES)))
    kept.load(segment_name(0))
    assert len(kept) == PAGE_ENTRIES + 1
