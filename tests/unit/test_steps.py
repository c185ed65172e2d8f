"""Work in steps: when it yields, and that nothing is lost by it."""

import random

import pytest

from kohort.steps import FIRST_US, STEP_US, Pace, SpreadDict, at_once, counted, each, in_order


def pauses(steps) -> int:
    """How often it gives way to others."""
    return sum(1 for _ in steps)


def test_the_first_step_is_longer_than_the_others():
    pace = Pace()

    due = [pace.is_due(1000) for _ in range(40)]

    first, second, *_ = (i for i, is_due in enumerate(due, 1) if is_due)
    assert (first, second - first) == (FIRST_US / 1000, STEP_US / 1000)


def test_little_is_done_at_once_and_much_in_steps():
    assert pauses(each(range(10), str, 100)) == 0
    assert pauses(each(range(10_000), str, 100)) > 100
    assert at_once(each(range(10_000), str, 100)) == [str(i) for i in range(10_000)]


def test_what_is_counted_in_steps_is_counted():
    keys = [i % 7 for i in range(100_000)]

    assert pauses(counted(keys)) > 3
    times = at_once(counted(keys))
    assert {i: times.part(i).get(i) for i in range(8)} == {**{i: keys.count(i) for i in range(7)}, 7: None}


@pytest.mark.parametrize("keys", [range(100_000), range(0, 25_600_000, 256), [f"n{i}" for i in range(100_000)]])
def test_a_large_dictionary_is_one_of_small_ones(keys):
    spread = SpreadDict()

    assert [spread.add(key, -key if isinstance(key, int) else key) for key in keys] == [True] * len(keys)
    assert not any(spread.add(key, None) for key in keys)

    sizes = [len(part) for part in spread._parts.values()]
    assert (sum(sizes), len(sizes)) == (100_000, 256)
    assert max(sizes) < 1_000


def test_names_come_in_order_and_once_however_many():
    names = [f"n{i}" for i in range(20_000)] * 2
    random.Random(1).shuffle(names)

    assert pauses(in_order(names * 3)) > 3
    assert list(at_once(in_order(names))) == sorted(set(names))
    assert list(at_once(in_order([]))) == []
