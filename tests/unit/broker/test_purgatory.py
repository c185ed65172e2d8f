"""Waiting fetches: woken by bytes and time, dropped with their connection."""

from kohort.broker.purgatory import Parked, Purgatory
from kohort.broker.request import ReplyTo

A0, A1 = (b"a" * 16, 0), (b"a" * 16, 1)


def parked(connection: int, *keys, missing: int = 1) -> Parked:
    return Parked(ReplyTo(connection, 1, 1, 12), list(keys), missing, None)


def woken(purgatory: Purgatory, now_ms: int = 0) -> list[int]:
    purgatory.wake_due(now_ms)
    return [p.reply_to.connection for p in purgatory.take_woken()]


def test_fetch_is_woken_by_enough_bytes_over_all_its_partitions():
    purgatory = Purgatory()
    purgatory.park(parked(1, A0, A1, missing=100), 1000)

    purgatory.appended(A0, 60)
    assert woken(purgatory) == []
    purgatory.appended(A1, 40)

    assert woken(purgatory) == [1]
    assert len(purgatory) == 0
    assert purgatory.wake_at_ms is None


def test_expired_fetches_are_woken_in_the_order_of_their_deadlines():
    purgatory = Purgatory()
    purgatory.park(parked(1, A0), 200)
    purgatory.park(parked(2, A0), 100)
    assert purgatory.wake_at_ms == 100

    assert woken(purgatory, 99) == []
    assert woken(purgatory, 200) == [2, 1]


def test_deleted_or_moved_partition_wakes_all_its_fetches():
    purgatory = Purgatory()
    purgatory.park(parked(1, A0, missing=10**9), 200)
    purgatory.park(parked(2, A1), 200)

    purgatory.changed([A0])

    assert woken(purgatory) == [1]


def test_waiting_fetch_of_a_lost_connection_is_removed():
    purgatory = Purgatory()
    purgatory.park(parked(1, A0), 200)
    purgatory.park(parked(2, A0), 200)
    purgatory.forget(1)
    purgatory.appended(A0, 5)
    purgatory.forget(2)

    assert woken(purgatory, 500) == []
    assert len(purgatory) == 0


def test_append_checks_only_the_fetches_of_its_partition():
    purgatory = Purgatory()
    others = [parked(n, (b"b" * 16, n), missing=5) for n in range(1000)]
    for other in others:
        purgatory.park(other, 1000)

    purgatory.appended(A0, 100)

    assert all(other.missing_bytes == 5 for other in others)
    assert len(purgatory._by_partition) == 1000
    for n in range(1000):
        purgatory.forget(n)
    assert purgatory._by_partition == {}
