"""Pages of aborted transactions: what is kept of them in memory, what is read of the disk, what is no such file."""

import struct

import pytest

from kohort.log.aborted import (
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
    """One of many that follow one another, each over ten offsets."""
    return AbortedTransaction(number, number * 10, number * 10 + 9, number * 10 + 10)


def held(storage, pages=None):
    made = AbortedTransactions(storage, "p-0")
    made.pages = pages
    return made


# ---------------------------------------------------------------- what is kept


def test_a_page_that_is_kept_is_given_back_and_another_is_not():
    pages, of = AbortedPages(), object()
    pages.put(of, 3, [entry(0)])

    assert pages.get(of, 3) == [entry(0)]
    assert (pages.get(of, 2), pages.get(object(), 3)) == (None, None)


def test_a_page_that_is_kept_anew_takes_the_place_of_the_old_one():
    pages, of = AbortedPages(), object()
    for count in (3, 2, 2):
        pages.put(of, 0, [entry(number) for number in range(count)])

    assert pages.used == 2 + PAGE_OVERHEAD
    pages.forget(of, 0)
    assert (pages.used, pages.get(of, 0)) == (0, None)


def test_the_bound_holds_whether_pages_come_or_grow():
    pages, first, second = AbortedPages(most_entries=10), object(), object()
    pages.put(first, 0, [entry(0)])
    pages.put(second, 0, [entry(0)])
    for number in range(1, 5):
        pages.add(second, 0, entry(number))
    assert pages.used == 10
    assert pages.get(first, 0) == [entry(0)]
    pages.get(second, 0)

    pages.add(second, 0, entry(5))

    assert pages.get(first, 0) is None, "it was not used for the longest"
    assert (pages.used, pages.get(second, 0)) == (8, [entry(number) for number in range(6)])


def test_of_all_partitions_forty_thousand_entries_are_kept_with_their_pages():
    pages, of = AbortedPages(), object()
    pages.put(of, 0, [entry(0)] * (40_000 - PAGE_OVERHEAD))
    assert pages.used == 40_000

    pages.add(of, 0, entry(1))

    assert (pages.used, pages.get(of, 0)) == (0, None)


def test_an_entry_of_a_page_that_is_not_kept_is_not_kept_either():
    pages = AbortedPages()
    pages.add(object(), 0, entry(0))
    assert pages.used == 0


def test_what_was_written_lately_is_not_read_again():
    storage, pages = CountedReads(), AbortedPages()
    kept = held(storage, pages)
    count = 2 * PAGE_ENTRIES + 5
    for number in range(count):
        kept.add(entry(number), segment_name(0))

    assert [found.producer_id for found in kept.between(0, count * 10)] == list(range(count))
    assert [found.producer_id for found in kept.between(PAGE_ENTRIES * 10, PAGE_ENTRIES * 10 + 1)] == [PAGE_ENTRIES]

    assert storage.read_bytes == 0
    assert pages.used == count + 3 * PAGE_OVERHEAD


def test_what_was_read_once_is_not_read_again():
    storage = CountedReads()
    writing = held(storage)
    for number in range(2 * PAGE_ENTRIES):
        writing.add(entry(number), segment_name(0))
    kept = held(storage, AbortedPages())
    kept.load(segment_name(0))
    assert list(kept) == [entry(number) for number in range(2 * PAGE_ENTRIES)]
    storage.read_bytes = 0

    assert kept.between(0, 5) == [entry(0)]
    assert kept.between(PAGE_ENTRIES * 10, PAGE_ENTRIES * 10 + 5) == [entry(PAGE_ENTRIES)]
    assert storage.read_bytes == 0


def test_of_segments_that_are_gone_nothing_is_kept():
    storage, pages = CountedReads(), AbortedPages()
    kept = held(storage, pages)
    for number in range(2 * PAGE_ENTRIES + 5):
        kept.add(entry(number), segment_name(0))

    kept.forget(0, 1)

    assert (pages.used, len(kept), list(kept)) == (0, 0, [])


# ---------------------------------------------------------------- which are asked for


def test_only_the_segments_that_begin_in_what_is_gone_are_forgotten():
    kept = held(CountedReads())
    for number, base in ((0, 0), (1, 10), (2, 20), (3, 30)):
        kept.add(entry(number), segment_name(base))

    kept.forget(10, 30)

    assert list(kept) == [entry(0), entry(3)]
    assert kept.between(0, 40) == [entry(0), entry(3)]


def test_what_a_producer_wrote_right_before_or_behind_is_not_taken_back():
    kept = held(CountedReads())
    kept.add(AbortedTransaction(7, 10, 19, 20), segment_name(0))

    assert [offset for offset in range(5, 25) if kept.is_aborted(7, offset)] == list(range(10, 20))
    assert not kept.is_aborted(8, 12)


def test_one_that_is_known_is_not_written_again():
    kept = held(CountedReads())
    for number, base in ((0, 0), (1, 0), (1, 0), (0, 0), (2, 20), (2, 20), (1, 20), (3, 20)):
        kept.add(entry(number), segment_name(base))

    assert (len(kept), list(kept)) == (4, [entry(number) for number in range(4)])


# ---------------------------------------------------------------- what is no such file


def test_a_page_is_read_as_it_was_written():
    written = [entry(number) for number in range(3)]
    assert parse_page(b"".join(map(build_entry, written))) == written
    assert build_entry(written[1]) == struct.pack(">hqqqq", 0, 1, 10, 19, 20)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("version", [1, 256, -1])
def test_an_entry_of_another_version_is_refused_wherever_it_stands(which, version):
    data = [build_entry(entry(number)) for number in range(3)]
    data[which] = struct.pack(">h", version) + data[which][2:]

    with pytest.raises(ValueError, match="an entry has a version other than 0"):
        parse_page(b"".join(data))


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 2, 1)])
def test_entries_out_of_their_order_are_refused(order):
    with pytest.raises(ValueError, match="markers of entries do not increase"):
        parse_page(b"".join(build_entry(entry(number)) for number in order))


def test_a_file_with_a_part_of_an_entry_is_refused():
    with pytest.raises(ValueError, match="35 bytes are not a whole number of entries"):
        parse_page(build_entry(entry(0)) + b"x")


def test_entries_of_a_segment_that_are_older_than_those_of_the_one_before_are_made_anew():
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
    said = f"orders-0: cannot read {last} ({problem}); rebuilt it from the markers"
    assert notes == [said]
    assert list(stage.log.aborted) == before
    stage.check()


def test_entries_that_go_back_from_one_page_to_the_next_are_refused():
    storage = CountedReads()
    data = b"".join(build_entry(entry(number)) for number in range(PAGE_ENTRIES))
    kept = held(storage)
    name = f"p-0/{segment_name(0)}.txnindex"
    storage.replace(name, data + build_entry(entry(PAGE_ENTRIES - 1)))

    with pytest.raises(ValueError, match="markers of entries do not follow those of the previous segment"):
        kept.load(segment_name(0))

    storage.replace(name, data + build_entry(entry(PAGE_ENTRIES)))
    kept.load(segment_name(0))
    assert len(kept) == PAGE_ENTRIES + 1
