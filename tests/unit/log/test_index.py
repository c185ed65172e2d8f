"""Indexes of a segment, entry by entry."""

import struct

import pytest

from kohort.log.index import OffsetIndex, TimeIndex


def test_offset_lookup_returns_position_at_or_before():
    index = OffsetIndex()
    for offset, position in ((9, 100), (19, 250), (29, 400)):
        index.append(offset, position)

    assert [index.lookup(offset) for offset in (0, 8, 9, 10, 19, 28, 29, 1000)] == [0, 0, 100, 100, 250, 250, 400, 400]
    assert (len(index), index.last_position) == (3, 400)


def test_empty_index_lookup_returns_start():
    index = OffsetIndex()

    assert (len(index), index.last_position, index.lookup(5), list(index.floors(5)), list(index)) == (0, 0, 0, [], [])


@pytest.mark.parametrize(
    ("entry", "is_taken"),
    [((20, 251), True), ((19, 251), False), ((20, 250), False), ((15, 300), False), ((25, 200), False)],
)
def test_offset_index_accepts_only_increasing_entries(entry, is_taken):
    index = OffsetIndex()
    index.append(9, 100)
    index.append(19, 250)

    index.append(*entry)

    assert list(index) == [(9, 100), (19, 250), *([entry] if is_taken else [])]


def test_offset_index_has_kafka_format():
    index = OffsetIndex()
    index.append(9, 100)
    assert index.unsaved() == struct.pack(">ii", 9, 100)
    index.saved = 1
    index.append(19, 250)

    assert index.unsaved() == struct.pack(">ii", 19, 250)
    again = OffsetIndex.parse(struct.pack(">4i", 9, 100, 19, 250), 300)
    assert list(again) == [(9, 100), (19, 250)]
    assert again.unsaved() == b""


@pytest.mark.parametrize(
    "entries",
    [
        (1,),
        (1, 5, 1, 6),
        (1, 5, 2, 5),
        (-1, 5),
        (1, -5),
        (1, 999),
        (5, 50, 0, 0),
        (1, 5, 2),
        (1, 5, 9, 6, 4, 7),
        (-1, 5, 1, 6),
        (1, -5, 2, 6),
    ],
)
def test_malformed_offset_index_is_rejected(entries):
    with pytest.raises(ValueError, match=r"bytes|entries|entry|position"):
        OffsetIndex.parse(struct.pack(f">{len(entries)}i", *entries), 999)


def test_time_lookup_uses_greatest_earlier_entry():
    index = TimeIndex()
    for timestamp, offset in ((1000, 4), (2000, 9), (1500, 14), (2000, 15), (3000, 19)):
        index.maybe_append(timestamp, offset)

    assert len(index) == 3
    assert [index.lookup(t) for t in (999, 1000, 1999, 2000, 2001, 9999)] == [None, 4, 4, 9, 9, 19]
    assert index.last == (3000, 19)


def test_batch_without_timestamp_is_not_in_time_index():
    index = TimeIndex()
    index.maybe_append(-1, 4)

    assert (len(index), index.last, index.lookup(5)) == (0, None, None)


def test_timestamp_zero_is_in_time_index():
    index = TimeIndex()
    index.maybe_append(0, 4)
    index.maybe_append(1, 9)

    assert [index.lookup(t) for t in (-1, 0, 1)] == [None, 4, 9]


def test_time_index_has_kafka_format():
    index = TimeIndex()
    index.maybe_append(1000, 4)
    index.maybe_append(2000, 4)

    data = index.unsaved()

    assert data == struct.pack(">qiqi", 1000, 4, 2000, 4)
    assert TimeIndex.parse(data).last == (2000, 4)


def test_loaded_time_index_entries_are_not_rewritten():
    index = TimeIndex.parse(struct.pack(">qi", 1000, 4))
    index.maybe_append(2000, 9)

    assert index.unsaved() == struct.pack(">qi", 2000, 9)


def test_index_floors_are_in_descending_order():
    index = OffsetIndex()
    for offset, position in ((9, 100), (19, 250), (29, 400)):
        index.append(offset, position)

    assert list(index.floors(19)) == [(19, 250), (9, 100)]
    assert list(index.floors(8)) == []


def test_index_accepts_zero_timestamp_and_offset():
    assert TimeIndex.parse(struct.pack(">qi", 0, 0)).last == (0, 0)
    assert list(OffsetIndex.parse(struct.pack(">ii", 0, 0), 100)) == [(0, 0)]


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        struct.pack(">qiqi", 5, 1, 5, 2),
        struct.pack(">qiqi", 5, 3, 6, 2),
        struct.pack(">qi", -1, 2),
        struct.pack(">qi", 1, -2),
        struct.pack(">qiqi", -1, 2, 5, 3),
        struct.pack(">qiqi", 1, -2, 5, 3),
        struct.pack(">qiqiqi", 5, 3, 6, 4, 7, 2),
    ],
)
def test_malformed_time_index_is_rejected(data):
    with pytest.raises(ValueError, match=r"bytes|entries|entry|position"):
        TimeIndex.parse(data)
