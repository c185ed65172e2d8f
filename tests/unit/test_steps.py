import random

from kohort.steps import FIRST_US, STEP_US, Pace, at_once, each, in_order


def pauses(steps) -> int:
    return sum(1 for _ in steps)


def test_first_step_of_a_long_request_is_longer_than_later_steps():
    pace = Pace()

    due = [pace.is_due(1000) for _ in range(40)]

    first, second, *_ = (i for i, is_due in enumerate(due, 1) if is_due)
    assert (first, second - first) == (FIRST_US / 1000, STEP_US / 1000)


def test_small_request_takes_one_step_and_large_request_several():
    assert pauses(each(range(10), str, 100)) == 0
    assert pauses(each(range(10_000), str, 100)) > 100
    assert at_once(each(range(10_000), str, 100)) == [str(i) for i in range(10_000)]


def test_names_are_sorted_without_duplicates():
    names = [f"n{i}" for i in range(20_000)] * 2
    random.Random(1).shuffle(names)

    assert pauses(in_order(names * 3)) > 3
    assert list(at_once(in_order(names))) == sorted(set(names))
    assert list(at_once(in_order([]))) == []
