"""The gate of ``kohort group wait``: when it opens, what closes it again. Time is an argument."""

from __future__ import annotations

from kohort.cli.group.wait import Gate
from kohort.errors import ConnectionFailed
from support.machines.group_looks import look, member, part

A, B = member("a", 0), member("b", 1)
READ = {0: (9, 9), 1: (9, 9)}
BEHIND = {0: (5, 9), 1: (9, 9)}


def gate(*, stable=True, max_lag=None):
    return Gate("g", stable, 30_000, max_lag)


def opened(this, *looks):
    """At which of the times it opened; each look is (seconds, snapshot)."""
    return [at_s for at_s, snapshot in looks if this.look(snapshot, 100.0 + at_s)]


def test_it_opens_once_the_group_was_stable_for_long_enough():
    steady = look(0, [A, B], READ)

    assert opened(gate(), (0, steady), (29, steady), (30, steady)) == [30]


def test_whoever_comes_goes_or_moves_closes_it_again():
    steady, moved = look(0, [A, B], READ), look(0, [member("a", 0, 1), member("b")], READ)
    came = look(0, [A, B, member("c")], READ)

    assert opened(gate(), (0, steady), (20, moved), (31, moved), (49, moved), (50, moved)) == [50]
    assert opened(gate(), (0, steady), (20, came), (40, steady), (69, steady), (70, steady)) == [70]
    epochs = [look(0, [A, B], READ, epoch=epoch) for epoch in (7, 8)]
    assert opened(gate(), (0, epochs[0]), (20, epochs[1]), (40, epochs[1]), (50, epochs[1])) == [50]


def test_a_partition_that_nothing_was_ever_committed_for_is_not_a_lag_of_zero():
    silent = look(0, [A, B], [part(0, 9, 9), part(1, None, 1_000)])
    empty = look(0, [A, B], [part(0, 9, 9), part(1, None, 0)])

    assert opened(gate(max_lag=10), (0, silent), (30, silent), (60, silent)) == []
    assert opened(gate(), (0, silent), (30, silent)) == [30]
    assert opened(gate(max_lag=0), (0, empty), (30, empty)) == [30]


def test_a_rebalance_closes_it():
    steady = look(0, [A, B], READ)
    rebalancing = look(0, [A, B], READ, state="PreparingRebalance")

    assert opened(gate(), (0, steady), (29, rebalancing), (30, steady), (59, steady), (60, steady)) == [60]
    assert opened(gate(), (0, rebalancing), (60, rebalancing)) == []
    assert opened(gate(), (0, look(0, [], READ)), (60, look(0, [], READ))) == []


def test_a_lag_closes_it_and_is_told_from_a_group_that_never_was_stable():
    read, behind = look(0, [A, B], READ), look(0, [A, B], BEHIND)
    this = gate(max_lag=3)

    assert opened(this, (0, read), (20, behind), (40, read), (69, read)) == []
    assert this.was_stable
    assert opened(this, (70, read)) == [70]
    never = gate(max_lag=3)
    opened(never, (0, behind), (20, behind))
    assert not never.was_stable


def test_a_lag_that_is_not_known_does_not_pass():
    unknown = look(0, [A], {})

    assert opened(gate(max_lag=1000), (0, unknown), (60, unknown)) == []


def test_without_stable_only_the_lag_counts():
    read = look(0, [], READ)

    assert opened(gate(stable=False, max_lag=0), (0, read), (30, read)) == [30]


def test_what_was_not_seen_does_not_count():
    steady, this = look(0, [A, B], READ), gate()

    opened(this, (0, steady))
    this.lost(ConnectionFailed("nobody answers"))
    assert this.why == "nobody answers"
    assert opened(this, (29, steady), (31, steady), (59, steady)) == [59]
