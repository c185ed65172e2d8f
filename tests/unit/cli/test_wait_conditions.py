from __future__ import annotations

from kohort.cli.group.wait import WaitConditions
from kohort.errors import ConnectionFailed
from support.machines.group_looks import look, member, part

A, B = member("a", 0), member("b", 1)
READ = {0: (9, 9), 1: (9, 9)}
BEHIND = {0: (5, 9), 1: (9, 9)}


def conditions(*, stable=True, max_lag=None):
    return WaitConditions("g", stable, 30_000, max_lag)


def met_at(wait, *samples):
    return [at_s for at_s, snapshot in samples if wait.check(snapshot, 100.0 + at_s)]


def test_wait_ends_after_group_was_stable_for_requested_time():
    steady = look(0, [A, B], READ)

    assert met_at(conditions(), (0, steady), (29, steady), (30, steady)) == [30]


def test_change_of_members_or_assignment_restarts_wait():
    steady, moved = look(0, [A, B], READ), look(0, [member("a", 0, 1), member("b")], READ)
    joined = look(0, [A, B, member("c")], READ)

    assert met_at(conditions(), (0, steady), (20, moved), (31, moved), (49, moved), (50, moved)) == [50]
    assert met_at(conditions(), (0, steady), (20, joined), (40, steady), (69, steady), (70, steady)) == [70]
    epochs = [look(0, [A, B], READ, epoch=epoch) for epoch in (7, 8)]
    assert met_at(conditions(), (0, epochs[0]), (20, epochs[1]), (40, epochs[1]), (50, epochs[1])) == [50]


def test_partition_without_commit_does_not_count_as_lag_zero():
    silent = look(0, [A, B], [part(0, 9, 9), part(1, None, 1_000)])
    empty = look(0, [A, B], [part(0, 9, 9), part(1, None, 0)])

    assert met_at(conditions(max_lag=10), (0, silent), (30, silent), (60, silent)) == []
    assert met_at(conditions(), (0, silent), (30, silent)) == [30]
    assert met_at(conditions(max_lag=0), (0, empty), (30, empty)) == [30]


def test_rebalance_restarts_wait():
    steady = look(0, [A, B], READ)
    rebalancing = look(0, [A, B], READ, state="PreparingRebalance")

    assert met_at(conditions(), (0, steady), (29, rebalancing), (30, steady), (59, steady), (60, steady)) == [60]
    assert met_at(conditions(), (0, rebalancing), (60, rebalancing)) == []
    assert met_at(conditions(), (0, look(0, [], READ)), (60, look(0, [], READ))) == []


def test_large_lag_restarts_wait_but_group_counts_as_stable():
    read, behind = look(0, [A, B], READ), look(0, [A, B], BEHIND)
    wait = conditions(max_lag=3)

    assert met_at(wait, (0, read), (20, behind), (40, read), (69, read)) == []
    assert wait.was_stable
    assert met_at(wait, (70, read)) == [70]
    never = conditions(max_lag=3)
    met_at(never, (0, behind), (20, behind))
    assert not never.was_stable


def test_unknown_lag_does_not_meet_max_lag():
    unknown = look(0, [A], {})

    assert met_at(conditions(max_lag=1000), (0, unknown), (60, unknown)) == []


def test_wait_without_stable_option_checks_only_lag():
    read = look(0, [], READ)

    assert met_at(conditions(stable=False, max_lag=0), (0, read), (30, read)) == [30]


def test_failed_sample_restarts_wait():
    steady, wait = look(0, [A, B], READ), conditions()

    met_at(wait, (0, steady))
    wait.sample_failed(ConnectionFailed("no answer"))
    assert wait.summary == "no answer"
    assert met_at(wait, (29, steady), (31, steady), (59, steady)) == [59]
