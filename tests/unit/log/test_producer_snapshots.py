"""Which snapshots of its producers a partition keeps: the two latest, and none from before a marker that is gone."""

import pytest

from kohort.log.producers import Producers, ProducerSnapshots
from kohort.log.storage import MemoryStorage


def name(offset):
    return f"{offset:020d}.snapshot"


def kept(*offsets):
    """Snapshots that a start has found."""
    storage = MemoryStorage()
    storage.make_folder("orders-0")
    for offset in offsets:
        storage.replace(f"orders-0/{name(offset)}", Producers().build_snapshot())
    return storage, ProducerSnapshots(storage, "orders-0", list(offsets))


def there(storage):
    return [int(found.partition(".")[0]) for found in storage.files("orders-0")]


def test_of_those_that_a_start_has_found_and_the_new_ones_the_two_latest_stay():
    storage, snapshots = kept(30, 10)

    snapshots.take(Producers(), 40)
    assert there(storage) == [30, 40]
    snapshots.take(Producers(), 50)
    assert there(storage) == [40, 50]


def test_one_that_is_taken_twice_at_an_offset_counts_once():
    storage, snapshots = kept(10)

    snapshots.take(Producers(), 20)
    snapshots.take(Producers(), 20)

    assert there(storage) == [10, 20]


def test_the_latest_are_those_of_the_latest_offsets_in_whatever_order_they_are_taken():
    storage, snapshots = kept(10, 30)

    snapshots.take(Producers(), 20)
    assert there(storage) == [20, 30]
    snapshots.take(Producers(), 40)
    assert there(storage) == [30, 40]


@pytest.mark.parametrize(
    ("offset", "left"), [(10, [10, 20, 30]), (11, [20, 30]), (20, [20, 30]), (25, [30]), (30, [30]), (31, [])]
)
def test_those_that_were_taken_before_an_offset_go(offset, left):
    storage, snapshots = kept(10, 20, 30)

    snapshots.forget_before(offset)

    assert there(storage) == left
    snapshots.take(Producers(), 99)
    assert there(storage) == [*left, 99][-2:]
