"""What compaction reads of a batch: keys, tombstones and places, from records that are sound."""

import mmap

import pytest

from kohort.errors import CorruptRecord
from kohort.log.keyed_records import body_of, keyed_records
from kohort.wire.compression import DEFAULT_MAX_BYTES
from kohort.wire.record_batch import HEADER_BYTES, SMALLEST_LENGTH, NewRecord, build_batch, parse_batch_header
from kohort.wire.varints import varint_bytes
from support.machines.log_stage import batch

ONE = parse_batch_header(batch(["v"], key=b"k"))
DOES_NOT_FIT = "^a record that does not fit its length or its batch$"


def record(*, size=None, delta=0, key=b"k", value=b"v", value_size=None, key_size=None):
    """The bytes of a record, which may say other sizes than it has."""
    inner = b"\x00" + varint_bytes(0) + varint_bytes(delta)
    for data, said in ((key, key_size), (value, value_size)):
        own = -1 if data is None else len(data)
        inner += varint_bytes(own if said is None else said) + (data or b"")
    inner += varint_bytes(0)
    return varint_bytes(len(inner) if size is None else size) + inner


def read(body, header=ONE):
    return list(keyed_records(body, header))


def test_a_record_is_told_by_key_and_place():
    records = [NewRecord(b"a", b"1", (), 50), NewRecord(None, b"2", (), 51), NewRecord(b"c", None, (), 52)]
    given = build_batch([*records, NewRecord(b"", b"", (), 53)])
    header = parse_batch_header(given)
    body = body_of(given, header)

    found = read(body, header)

    assert [(r.offset_delta, r.timestamp_delta, r.key, r.is_tombstone) for r in found] == [
        (0, 0, b"a", False),
        (1, 1, None, False),
        (2, 2, b"c", True),
        (3, 3, b"", False),
    ]
    assert [(r.start, r.end) for r in found] == [(0, 9), (9, 17), (17, 25), (25, 32)]
    assert b"".join(body[r.start : r.end] for r in found) == body
    assert [body[r.rest] for r in found] == [0, 2, 4, 6], "where its offset delta begins"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (record(size=-1), "^a record of -1 bytes with 8 left$"),
        (record(size=-2), "^a record of -2 bytes with 8 left$"),
        (record(size=9), "^a record of 9 bytes with 8 left$"),
        (record(size=0), DOES_NOT_FIT),
        (record(size=5), DOES_NOT_FIT),
        (record(delta=-1), DOES_NOT_FIT),
        (record(delta=1), DOES_NOT_FIT),
        (record(value_size=3), DOES_NOT_FIT),
        (record(key=b"", key_size=40) + bytes(40), DOES_NOT_FIT),
        (record(key=b"", key_size=1 << 20) + bytes(60), "^a record runs past the end of its batch$"),
        (record()[:3] + b"\xff" * 11, "^a varint of more than ten bytes$"),
        (record() + b"\x00", "^1 bytes after the last record$"),
        (b"", "^a count of 1 records in 0 bytes$"),
        (bytes(6), "^a count of 1 records in 6 bytes$"),
    ],
)
def test_what_is_no_record_is_told_by_what_is_wrong_with_it(body, said):
    with pytest.raises(CorruptRecord, match=said):
        read(body)


def test_a_record_may_be_the_last_of_its_batch_and_no_later_one():
    header = ONE._replace(last_offset_delta=5)
    assert [r.offset_delta for r in read(record(delta=5), header)] == [5]
    with pytest.raises(CorruptRecord, match=DOES_NOT_FIT):
        read(record(delta=6), header)


def test_a_null_is_a_tombstone_and_an_empty_value_is_none():
    assert [read(record(value=value))[0].is_tombstone for value in (None, b"", b"v")] == [True, False, False]


def test_a_batch_is_opened_that_holds_more_than_readers_take_and_refused_at_twice_that():
    def opened(size: int) -> int:
        header = ONE._replace(batch_length=SMALLEST_LENGTH + size)
        given = mmap.mmap(-1, HEADER_BYTES + size, flags=mmap.MAP_PRIVATE)  # takes no memory: nobody writes to it
        return len(body_of(given, header))

    assert opened(DEFAULT_MAX_BYTES + 1) == DEFAULT_MAX_BYTES + 1
    with pytest.raises(CorruptRecord, match=f"more than the {2 * DEFAULT_MAX_BYTES} accepted"):
        opened(2 * DEFAULT_MAX_BYTES + 1)
