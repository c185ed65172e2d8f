"""Concurrency within a partition: records of a key in order, marks before the first unfinished record."""

from __future__ import annotations

import random

import pytest

from kohort.client.handling.keyed_records import KeyedRecords
from kohort.model import Record


def record(offset: int, key: bytes | None) -> Record:
    return Record("t", 0, offset, 0, key, b"")


def test_records_of_one_key_run_in_order_and_other_keys_concurrently():
    work = KeyedRecords(concurrency=8, most=100)
    work.add([record(0, b"a"), record(1, b"a"), record(2, b"b"), record(3, None), record(4, None)])

    started = [work.next() for _ in range(5)]

    assert [r.offset if r else None for r in started] == [0, 2, 3, 4, None]


def test_mark_stays_before_first_unfinished_record():
    work = KeyedRecords(concurrency=8, most=100)
    work.add([record(5, b"a"), record(7, b"b"), record(9, b"c")])
    first, second, third = work.next(), work.next(), work.next()
    assert first is not None
    assert second is not None
    assert third is not None

    assert work.finish(second) is None
    assert work.finish(third) is None
    assert work.finish(first) is third
    assert work.count == 0


def test_concurrency_and_room_are_bounded():
    work = KeyedRecords(concurrency=2, most=3)
    work.add([record(n, b"%d" % n) for n in range(3)])

    assert (work.room, work.startable) == (0, 2)
    first = work.next()
    work.next()
    assert work.next() is None
    assert first is not None
    work.finish(first)
    assert (work.room, work.startable) == (1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_finishes_keeps_keys_in_order_and_marks_safe(seed):
    rng = random.Random(seed)
    work = KeyedRecords(concurrency=rng.randint(1, 6), most=rng.randint(6, 30))
    keys = [None, *(b"%d" % n for n in range(rng.randint(1, 8)))]
    records = [record(n * 2, rng.choice(keys)) for n in range(300)]
    waiting, running, done, marked = list(records), [], [], -1
    while waiting or running or work.count:
        room = rng.randint(0, work.room)
        work.add(waiting[:room])
        waiting = waiting[room:]
        while rng.random() < 0.7 and (started := work.next()) is not None:
            running.append(started)
        if running:
            finished = running.pop(rng.randrange(len(running)))
            done.append(finished)
            last = work.finish(finished)
            if last is not None:
                assert last.offset > marked
                marked = last.offset
            assert {r.offset for r in records if r.offset <= marked} <= {r.offset for r in done}

    assert marked == records[-1].offset
    for key in keys[1:]:
        offsets = [r.offset for r in done if r.key == key]
        assert offsets == sorted(offsets)
