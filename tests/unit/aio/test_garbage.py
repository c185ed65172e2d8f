import gc
import weakref
from typing import Any

import pytest

from kohort.aio.serving.garbage import ShortCollections


class Node:
    pass


def cycle() -> weakref.ref:
    one: Any = Node()
    one.self = one
    return weakref.ref(one)


@pytest.fixture(autouse=True)
def as_before():
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def full_collections() -> int:
    return gc.get_stats()[2]["collections"]


def test_garbage_collector_skips_old_generation_during_long_request():
    collections = ShortCollections()
    kept = []
    collections.after_event(in_long_work=True)
    before = full_collections()

    for _ in range(50):
        kept.append([[] for _ in range(20_000)])
        collections.after_event(in_long_work=True)

    assert full_collections() == before
    collections.after_event(in_long_work=False)
    assert gc.isenabled()


def test_young_reference_cycles_are_collected_during_long_request():
    collections = ShortCollections()
    collections.after_event(in_long_work=True)
    reference = cycle()

    collections.after_event(in_long_work=True)

    assert reference() is None
    collections.end()
    assert gc.isenabled()


def test_disabled_garbage_collector_stays_disabled():
    gc.disable()
    collections = ShortCollections()

    collections.after_event(in_long_work=True)
    collections.after_event(in_long_work=False)

    assert not gc.isenabled()
