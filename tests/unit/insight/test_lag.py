"""Lag of sampled groups in records and in time, the cause of the lag, and the time to drain the lag."""

from __future__ import annotations

import pytest

from kohort.insight.lag import lag_of
from support.machines.group_looks import T0, look, member, part, tp

A01 = member("a", 0, 1)


def only(lag):
    (one,) = lag.partitions
    return one


def test_lag_of_one_sample_has_records_time_and_distance_from_log_start():
    one = look(100, [member("a", 0)], [part(0, 40, 100, log_start=30, committed_record_at_ms=T0 + 60_000)])

    lag = lag_of([one])

    found = only(lag)
    assert (found.records, found.stable_records, found.time_ms, found.lead, found.lost) == (60, 60, 40_000, 10, 0)
    assert (found.written_per_s, found.read_per_s, found.eta_ms, found.draining) == (None, None, None, "unknown")
    assert (lag.total.records, lag.total.time_ms, lag.total.time_complete) == (60, 40_000, True)
    assert (lag.blame, lag.blamed) == ("unknown", None)


def test_time_lag_of_group_is_the_longest_of_its_partitions():
    waits = part(0, 1, 5, committed_record_at_ms=T0)
    lag = lag_of([look(30, [A01], [waits, part(1, 1, 5)])])

    assert (lag.total.time_ms, lag.total.time_complete) == (30_000, False)
    assert lag_of([look(30, [A01], [waits, part(1, 5, 5)])]).total.time_complete


def test_time_lag_is_unknown_if_the_record_timestamp_is_missing_or_in_the_future():
    early = part(0, 1, 5, committed_record_at_ms=T0 + 90_000)
    none = part(1, 1, 5, committed_record_at_ms=-1)

    assert [p.time_ms for p in lag_of([look(30, [A01], [early, none])]).partitions] == [None, None]


def test_time_lag_is_zero_if_only_a_transaction_marker_follows_the_offset():
    lag = lag_of([look(0, [member("a", 0)], [part(0, 9, 10, waiting=False)])])

    assert (only(lag).records, only(lag).time_ms, only(lag).blame, lag.total.draining) == (1, 0, "none", "empty")


def test_lag_of_partition_without_commit_is_unknown_not_zero():
    lag = lag_of([look(0, [A01], [part(0, None, 10), part(1, 4, 10)])])

    assert [(p.records, p.unknown) for p in lag.partitions] == [(None, "never committed"), (6, None)]
    assert (lag.total.records, lag.total.unknown, lag.total.time_complete) == (6, 1, False)
    assert lag_of([look(0, [member("a", 0)], [part(0, None, 10)])]).total.records is None


def test_lag_of_empty_partition_without_commit_is_zero():
    lag = lag_of([look(0, [member("a", 0)], [part(0, None, 0)])])

    assert (lag.total.records, lag.total.time_ms, lag.total.unknown, lag.total.draining) == (0, 0, 0, "empty")


def test_time_lag_is_at_least_the_time_between_samples_if_the_producer_clock_is_wrong():
    early = part(0, 1, 5, committed_record_at_ms=T0 + 59_000)

    found = only(lag_of([look(0, [member("a", 0)], {0: (1, 5)}), look(60, [member("a", 0)], [early])]))

    assert (found.time_ms, found.blame) == (60_000, "stopped_member")


def test_unknown_lag_of_partition_has_a_reason():
    lag = lag_of([look(0, [A01], [part(0, 5, None, error="the topic is gone")])])

    assert (only(lag).records, only(lag).unknown, only(lag).blame) == (None, "the topic is gone", "unknown")


def test_time_to_drain_a_lag_is_computed_from_two_samples():
    lag = lag_of([look(0, [member("a", 0)], {0: (0, 1000)}), look(20, [member("a", 0)], {0: (600, 1200)})])

    found = only(lag)
    assert (found.written_per_s, found.read_per_s) == (10.0, 30.0)
    assert (found.records, found.eta_ms, found.draining, found.blame) == (600, 30_000, "draining", "catching_up")


def test_time_to_drain_the_group_lag_is_the_time_of_the_slowest_partition():
    first = look(0, [A01], {0: (0, 100), 1: (0, 1000)})
    lag = lag_of([first, look(10, [A01], {0: (50, 100), 1: (100, 1000)})])

    assert [p.eta_ms for p in lag.partitions] == [10_000, 90_000]
    assert (lag.total.eta_ms, lag.total.draining) == (90_000, "draining")


def test_group_lag_is_growing_if_the_lag_of_one_partition_grows():
    lag = lag_of([look(0, [A01], {0: (0, 100), 1: (0, 100)}), look(20, [A01], {0: (90, 100), 1: (10, 200)})])

    assert (lag.total.eta_ms, lag.total.draining) == (None, "growing")


@pytest.mark.parametrize(
    ("looks", "blame", "blamed"),
    [
        ([({0: (0, 100)}), ({0: (10, 200)})], "slow_member", "a"),
        ([({0: (5, 100)}), ({0: (5, 200)})], "stopped_member", "a"),
        ([({0: (5, 100)}), ({0: (100, 100)})], "none", None),
    ],
)
def test_lag_is_blamed_on_slow_or_stopped_member_or_on_nothing(looks, blame, blamed):
    lag = lag_of([look(20 * i, [member("a", 0)], ends) for i, ends in enumerate(looks)])

    assert (lag.blame, lag.blamed and lag.blamed.client_id) == (blame, blamed)


def test_group_lag_blames_the_member_with_most_lag():
    both = [member("a", 0), member("b", 1)]
    lag = lag_of([look(0, both, {0: (5, 10), 1: (5, 900)}), look(20, both, {0: (5, 11), 1: (5, 901)})])

    assert lag.blamed is not None
    assert lag.blamed.client_id == "b"
    assert {name: s.records for name, s in lag.members.items()} == {"a-id": 6, "b-id": 896}


def test_lag_of_slow_partition_with_highest_produce_rate_is_blamed_on_skew():
    both = [member("a", 0), member("b", 1, 2)]
    first = look(0, both, {0: (0, 0), 1: (0, 0), 2: (0, 0)})
    lag = lag_of([first, look(20, both, {0: (100, 9000), 1: (50, 60), 2: (50, 60)})])

    assert [p.blame for p in lag.partitions] == ["skew", "slow_member", "slow_member"]
    assert (lag.blame, lag.blamed and lag.blamed.client_id) == ("skew", "a")


def test_lag_of_unowned_partition_is_blamed_on_no_owner_or_no_members_or_unknown():
    assert lag_of([look(0, [member("a", 0)], {0: (9, 9), 1: (0, 9)})]).partitions[1].blame == "no_owner"
    assert lag_of([look(0, [], {0: (0, 9)})]).blame == "no_members"
    rebalancing = look(0, [member("a")], {0: (0, 9)}, state="PreparingRebalance")
    assert lag_of([rebalancing]).blame == "unknown"


def test_lag_of_committing_client_without_members_is_draining():
    lag = lag_of([look(0, [], {0: (0, 100)}), look(20, [], {0: (80, 100)})])

    assert (lag.blame, lag.total.draining) == ("catching_up", "draining")


def test_group_lag_excludes_committed_offset_of_unsubscribed_topic():
    old = part(0, 5, 9000, topic="old")
    lag = lag_of([look(0, [member("a", 0)], [part(0, 9, 10), old])])

    assert lag.total.records == 1
    assert [p.blame for p in lag.partitions] == ["unknown", "not_subscribed"]
    by_pattern = member("a", 0, topics=(), regex="o.*")
    assert lag_of([look(0, [by_pattern], [part(0, 9, 10), old])]).total.records == 8996
    looked_up = member("a", 0, topics=(), regex="x.*", matched=("x",))
    assert lag_of([look(0, [looked_up], [part(0, 9, 10), old])]).total.records == 1


def test_lag_of_read_committed_consumer_is_blamed_on_open_transaction():
    lag = lag_of([look(0, [member("a", 0)], [part(0, 50, 80, last_stable=50)])])

    assert (only(lag).records, only(lag).stable_records, lag.blame) == (30, 0, "open_transaction")


def test_lag_of_moved_partition_ignores_samples_of_its_previous_owner():
    before = look(0, [member("a", 0, 1), member("b")], {0: (0, 100), 1: (0, 100)})
    lag = lag_of([before, look(20, [member("a", 0), member("b", 1)], {0: (50, 100), 1: (50, 100)})])

    assert {name: (s.partitions, s.records) for name, s in lag.members.items()} == {"a-id": (1, 50), "b-id": (1, 50)}
    kept, moved = lag.partitions
    assert (len(kept.samples), kept.draining) == (2, "draining")
    assert (len(moved.samples), moved.draining, moved.blame) == (1, "unknown", "unknown")


def test_lag_rates_ignore_samples_before_a_new_assignment_or_an_offset_reset():
    looks = [look(0, [A01], {0: (0, 100)}), look(10, [A01], {0: (50, 100)}), look(20, [A01], {0: (50, 100)})]
    assert len(only(lag_of(looks)).samples) == 3
    assert len(only(lag_of(looks, since_ms=T0 + 5_000)).samples) == 2

    back = [*looks, look(30, [A01], {0: (10, 100)})]
    assert len(only(lag_of(back)).samples) == 1
    recreated = [*looks, look(30, [A01], {0: (50, 60)})]
    assert len(only(lag_of(recreated)).samples) == 1


def test_lag_sorts_snapshots_by_time_and_ignores_other_groups():
    first, second = look(0, [A01], {0: (0, 100)}), look(10, [A01], {0: (50, 100)})
    other = look(5, [A01], {0: (7, 7)})
    other = type(other)(**{**{f: getattr(other, f) for f in other.__struct_fields__}, "group": "other"})

    assert only(lag_of([second, other, first])) == only(lag_of([first, second]))


def test_unread_records_that_retention_deleted_are_counted_as_lost():
    found = only(lag_of([look(0, [A01], [part(0, 10, 100, log_start=60)])]))

    assert (found.lost, found.lead, found.records) == (50, 0, 40)


def test_committed_offset_beyond_the_log_end_has_unknown_lag():
    found = only(lag_of([look(0, [member("a", 0)], [part(0, 100, 50)])]))

    assert (found.records, found.blame) == (None, "beyond_the_end")
    assert found.unknown == "its committed offset 100 is beyond the log end offset 50"


class TestTrend:
    """Trend of the lag of a member that commits each few seconds."""

    def trend(self, *samples, waited_s=60):
        """Return the trend after samples ``(seconds, committed, log end)``; the next record waits ``waited_s``."""
        looks = []
        for at_s, committed, log_end in samples:
            since_ms = T0 + round((at_s - waited_s) * 1000)
            looks.append(look(at_s, [member("a", 0)], [part(0, committed, log_end, committed_record_at_ms=since_ms)]))
        total = lag_of(looks).total
        return total.draining, total.eta_ms

    def test_lag_between_two_commits_of_a_healthy_member_is_steady_and_has_no_time_left(self):
        assert self.trend((0, 1_000, 1_010), (10, 1_900, 2_010), waited_s=2) == ("steady", None)
        assert self.trend((0, 1_000, 1_110), (10, 2_000, 2_010), waited_s=2) == ("steady", None)

    def test_backlog_that_grows_by_less_than_a_commit_interval_is_steady(self):
        assert self.trend((0, 1_000, 90_000), (20, 2_900, 92_000)) == ("steady", None)

    def test_backlog_that_grows_by_more_than_a_commit_interval_is_growing(self):
        assert self.trend((0, 1_000, 90_000), (20, 1_500, 92_000)) == ("growing", None)

    def test_backlog_that_shrinks_is_draining_and_has_a_time_left(self):
        assert self.trend((0, 1_000, 90_000), (20, 11_000, 91_000)) == ("draining", 177_778)

    def test_recent_lag_without_commit_progress_has_an_unknown_trend(self):
        assert self.trend((0, 1_000, 1_010), (7, 1_000, 1_700), waited_s=7) == ("unknown", None)

    def test_steady_partitions_do_not_hide_the_trend_of_a_backlog(self):
        fresh, old = T0 + 18_000, T0 - 60_000
        looks = [
            look(at_s, [A01], [
                part(0, 100 * at_s, 100 * at_s + 20, committed_record_at_ms=fresh),
                part(1, 500 * at_s, 90_000, committed_record_at_ms=old),
            ])
            for at_s in (0, 20)
        ]  # fmt: skip

        assert lag_of(looks).total.draining == "draining"


def test_lag_without_snapshots_raises_value_error():
    with pytest.raises(ValueError, match="no snapshots"):
        lag_of([])


def test_lag_of_members_of_other_protocol_types_is_unknown():
    lag = lag_of([look(0, [member("a", topics=())], {0: (5, 9)}, protocol_type="connect")])

    assert only(lag).partition == tp(0)
    assert lag.members["a-id"].records is None
