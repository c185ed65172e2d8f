"""Health rules: for each rule, a group that triggers the rule and a similar healthy group."""

from __future__ import annotations

from kohort.insight.health import STORM, RebalanceTimes, health_of
from kohort.insight.lag import lag_of
from kohort.insight.snapshot import with_progress
from support.machines.group_looks import T0, look, member, part

A = member("a", 0)
LONG_AGO = T0 - 600_000


def report(*looks, rebalances=None):
    return health_of(lag_of(looks), rebalances)


def words(*looks, **more):
    found = report(*looks, **more)
    return found.group.word, [verdict.word for verdict in found.partitions]


def state_of(name, *looks):
    return report(*looks).members[f"{name}-id"].word


def test_health_of_group_without_lag_is_ok():
    assert words(look(0, [A], {0: (9, 9)})) == ("OK", ["OK"])
    assert words(look(0, [], {0: (9, 9)})) == ("OK", ["OK"])
    assert words(look(0, [A], {0: (9, 9)}), look(600, [A], {0: (9, 9)})) == ("OK", ["OK"])
    assert words(look(0, [member("a")], {0: (9, 9)})) == ("OK", ["OK"])
    assert words(look(0, [A], [part(0, None, 0)])) == ("OK", ["OK"])
    assert words(look(0, [A], [])) == ("OK", [])


def test_partition_whose_only_unread_offset_is_a_transaction_marker_is_no_stall():
    marker = [part(0, 9, 10, waiting=False)]

    assert words(look(0, [A], marker), look(600, [A], marker)) == ("OK", ["OK"])
    assert state_of("a", look(0, [A], marker), look(600, [A], marker)) == "ok"


def test_health_of_group_with_old_lag_is_unknown_from_a_single_sample():
    found = report(look(0, [A], {0: (5, 9)}))

    assert found.group.word is None
    assert found.group.clause == "t-0, owned by a-id: one sample shows no progress"


def test_health_of_group_with_recent_lag_is_ok_from_a_single_sample():
    assert words(look(9, [A], [part(0, 5, 9, committed_record_at_ms=T0)])) == ("OK", ["OK"])
    assert words(look(11, [A], [part(0, 5, 9, committed_record_at_ms=T0)])) == (None, [None])


def test_recent_lag_without_observed_commits_is_ok_with_low_confidence_only():
    """A member that was killed seconds ago looks the same."""
    killed = look(7, [A], [part(0, 5, 9, committed_record_at_ms=T0)])

    found = report(killed).group

    assert (found.word, found.confidence) == ("OK", "low")
    assert found.clause == "the lag is newer than two usual commit intervals, and the samples show no commit progress"

    commits = look(0, [A], [part(0, 1, 5)]), killed
    assert (report(*commits).group.word, report(*commits).group.confidence) == ("OK", "high")


def test_committed_offset_beyond_the_log_end_is_warn():
    found = report(look(0, [A], {0: (100, 50)}))

    assert (found.group.word, found.group.confidence) == ("WARN", "proof")
    assert found.group.clause == (
        "t-0, owned by a-id: its committed offset 100 is beyond the log end offset 50: the topic was recreated or "
        "truncated"
    )
    assert (found.members["a-id"].word, found.members["a-id"].confidence) == (None, "proof")


def test_stall_duration_includes_samples_before_the_kept_ones():
    kept, before = [], None
    for at_s in range(0, 301, 5):
        before = with_progress(before, look(at_s, [A], {0: (5, 9)}))
        kept = [*kept, before][-6:]

    found = report(*kept).group

    assert (found.clause, found.confidence) == (
        "t-0, owned by a-id: no commit progress for 5 min or longer", "high",
    )  # fmt: skip
    assert [fact.at_ms for fact in found.evidence if fact.kind == "no_progress_since"] == [T0]


def test_stall_restarts_with_a_commit_or_another_owner():
    def stalled_s(*looks):
        before = None
        for one in looks:
            before = with_progress(before, one)
        return None if (since := before.partitions[0].unmoved_since_ms) is None else (since - T0) // 1000

    first, b = look(0, [A], {0: (5, 9)}), member("b", 0)
    assert stalled_s(first, look(20, [A], {0: (6, 9)}), look(40, [A], {0: (6, 9)})) == 20
    assert stalled_s(first, look(20, [b], {0: (5, 9)}), look(40, [b], {0: (5, 9)})) == 20
    assert stalled_s(first, look(20, [A], {0: (9, 9)})) is None


def test_partition_with_owner_and_without_commit_progress_is_stall():
    looks = look(0, [A], {0: (5, 9)}), look(20, [A], {0: (5, 9)})

    found = report(*looks)
    assert words(*looks) == ("STALL", ["STALL"])
    assert found.group.clause.startswith("t-0, owned by a-id: no commit progress for 20.0 s or longer (its owner hangs")
    assert found.group.confidence == "low"
    assert [fact.kind for fact in found.group.evidence] == ["commits", "lag"]
    assert report(look(0, [A], {0: (5, 9)}), look(160, [A], {0: (5, 9)})).group.confidence == "high"


def test_partition_without_commit_for_a_few_seconds_is_no_stall():
    assert words(look(0, [A], {0: (5, 9)}), look(5, [A], {0: (5, 9)})) == (None, [None])


def test_partition_is_no_stall_if_its_new_owner_has_not_committed_for_a_short_time():
    before = look(0, [member("a"), member("b", 0)], {0: (5, 9)})

    assert words(before, look(20, [member("a", 0), member("b")], {0: (5, 9)})) == (None, [None])


def test_partition_that_was_read_to_the_end_between_samples_is_ok():
    looks = [look(0, [A], {0: (5, 9)}), look(10, [A], {0: (9, 9)}), look(20, [A], {0: (9, 30)})]

    assert words(*looks) == ("OK", ["OK"])


def test_partition_with_lag_in_group_without_members_is_stop():
    assert words(look(0, [], {0: (5, 9)})) == ("STOP", ["STOP"])
    assert report(look(0, [], {0: (5, 9)})).group.clause == "t-0: no member reads it"
    found = report(look(0, [member("a", 0)], {0: (9, 9), 1: (5, 9)}))
    assert (found.group.word, found.group.clause) == ("STOP", "t-1: no member owns it")


def test_group_without_members_and_with_rising_committed_offsets_is_ok():
    assert words(look(0, [], {0: (5, 90)}), look(20, [], {0: (60, 90)})) == ("OK", ["OK"])


def test_recent_lag_of_group_without_members_is_ok_and_old_lag_is_stop():
    fresh = [part(0, 5, 90, committed_record_at_ms=T0)]

    assert words(look(3, [], fresh)) == ("OK", ["OK"])
    found = report(look(60, [], fresh))
    assert (found.group.word, found.group.confidence) == ("STOP", "medium")
    assert report(look(0, [], {0: (5, 9)}), look(20, [], {0: (5, 9)})).group.confidence == "high"


def test_partition_without_owner_during_a_rebalance_is_no_stop():
    looks = look(0, [member("a")], {0: (5, 9)}, state="PreparingRebalance")

    assert words(looks) == ("REBALANCING", [None])
    assert state_of("a", looks) == "ok"


def test_unowned_partition_with_records_and_without_commits_is_stop():
    assert words(look(0, [member("a", 0)], [part(0, 9, 9), part(1, None, 5)])) == ("STOP", ["OK", "STOP"])
    assert words(look(0, [member("a", 0)], [part(0, 9, 9), part(1, None, 0)])) == ("OK", ["OK", "OK"])


def test_partition_whose_committed_offset_moves_back_is_rewind():
    looks = look(0, [A], {0: (50, 90)}), look(5, [A], {0: (10, 90)})

    found = report(*looks)
    assert words(*looks) == ("REWIND", ["REWIND"])
    assert found.group.clause == "t-0, owned by a-id: its offset moved back from 50 to 10: 40 records are read again"
    assert (found.group.confidence, state_of("a", *looks)) == ("proof", "rewinding")


def test_partition_is_no_rewind_after_a_commit_above_its_highest_committed_offset():
    looks = [look(0, [A], {0: (50, 90)}), look(5, [A], {0: (10, 90)}), look(30, [A], {0: (60, 90)})]

    assert words(*looks) == ("OK", ["OK"])


def test_partition_with_commits_and_growing_lag_is_warn():
    looks = look(0, [A], {0: (0, 100)}), look(20, [A], {0: (100, 400)})

    assert words(*looks) == ("WARN", ["WARN"])
    assert report(*looks).group.clause == "t-0, owned by a-id: its commits progress, but its lag grew from 100 to 300"
    assert state_of("a", *looks) == "slow"


def test_partition_with_shrinking_lag_or_short_growth_is_no_warn():
    saw = [look(0, [A], {0: (0, 100)}), look(10, [A], {0: (150, 200)}), look(20, [A], {0: (200, 400)})]
    assert words(*saw) == ("OK", ["OK"])
    assert words(look(0, [A], {0: (0, 100)}), look(5, [A], {0: (100, 400)})) == ("OK", ["OK"])


def test_partition_with_growing_but_recent_lag_is_no_warn():
    fresh = look(20, [A], [part(0, 100, 400, committed_record_at_ms=T0 + 18_000)])

    assert words(look(0, [A], {0: (0, 100)}), fresh) == ("OK", ["OK"])


def test_partition_behind_a_long_open_transaction_is_warn():
    blocked = [part(0, 50, 80, last_stable=50)]
    assert words(look(0, [A], blocked)) == ("OK", ["OK"])

    looks = look(0, [A], blocked), look(20, [A], [part(0, 50, 95, last_stable=50)])
    found = report(*looks)
    assert words(*looks) == ("WARN", ["WARN"])
    assert "an open transaction hides 45 records" in found.group.clause
    assert found.members["a-id"].word == "ok"
    old = [part(0, 50, 80, last_stable=50, committed_record_at_ms=LONG_AGO)]
    assert words(look(0, [A], old)) == ("WARN", ["WARN"])


def test_member_without_progress_in_any_partition_has_state_stuck():
    both = member("a", 0, 1)
    looks = look(0, [both], {0: (5, 9), 1: (9, 9)}), look(20, [both], {0: (5, 9), 1: (9, 9)})

    found = report(*looks).members["a-id"]
    assert (found.word, found.confidence) == ("stuck", "low")
    assert found.clause == (
        "no commit progress for 20.0 s or longer, while records wait in t-0"
        " (its owner hangs, or handles one batch for that long)"
    )


def test_member_with_progress_in_only_some_partitions_has_state_not_fetching():
    both = member("a", 0, 1)
    looks = look(0, [both], {0: (5, 9), 1: (5, 90)}), look(20, [both], {0: (5, 9), 1: (90, 90)})

    found = report(*looks).members["a-id"]
    assert (found.word, found.clause) == (
        "not-fetching",
        "commits progress in t-1, but not in t-0: paused, or failing there",
    )


def test_partition_is_warn_and_no_stall_while_its_owner_consumes_a_backlog_of_another_partition():
    both = member("a", 0, 1)
    looks = look(0, [both], {0: (5, 9), 1: (5, 900)}), look(20, [both], {0: (5, 9), 1: (65, 920)})

    found = report(*looks)

    assert words(*looks) == ("WARN", ["WARN", "OK"])
    assert (found.members["a-id"].word, found.members["a-id"].clause) == (
        "slow", "it handles 3.0 records/s in t-1, but has not reached t-0",
    )  # fmt: skip
    assert found.partitions[0].clause == (
        "no commit progress for 20.0 s or longer: its owner reads t-1 first, 3.0 records/s"
    )


def test_uncommitted_partition_is_blamed_on_slow_member_while_its_owner_consumes_a_backlog():
    both = member("a", 0, 1)
    before, after = [part(0, None, 5), part(1, 5, 900)], [part(0, None, 50), part(1, 65, 900)]

    found = lag_of([look(0, [both], before), look(20, [both], after)])

    assert [one.blame for one in found.partitions] == ["slow_member", "catching_up"]
    assert health_of(found).partitions[0].clause == ("no commit so far: its owner reads t-1 first, 3.0 records/s")


def test_partition_without_progress_is_stall_if_only_another_member_consumes_a_backlog():
    busy, stopped = member("a", 1), member("b", 0)
    looks = look(0, [busy, stopped], {0: (5, 9), 1: (5, 900)}), look(20, [busy, stopped], {0: (5, 9), 1: (65, 900)})

    assert words(*looks)[1] == ["STALL", "OK"]
    assert state_of("b", *looks) == "stuck"


def test_member_with_unread_records_and_no_commit_has_state_not_committing():
    looks = look(0, [A], [part(0, None, 5)]), look(20, [A], [part(0, None, 50)])

    assert (state_of("a", *looks), words(*looks)) == ("not-committing", ("WARN", ["WARN"]))
    assert report(*looks).group.clause == "t-0, owned by a-id: 45 new records in 20.0 s, and no commit so far"


def test_member_without_commits_has_state_ok_while_no_records_arrive():
    looks = look(0, [A], [part(0, None, 5)]), look(20, [A], [part(0, None, 5)])

    assert (state_of("a", *looks), words(*looks)) == ("ok", (None, [None]))
    assert report(*looks).group.clause == "no commit so far for t-0"
    both = member("a", 0, 1)
    others = [part(0, None, 5), part(1, 9, 9)]
    assert words(look(0, [both], others)) == (None, [None, "OK"])
    assert report(look(0, [both], others)).group.clause == ("no commit so far for t-0; other partitions: no lag")


def test_member_without_partitions_has_state_idle():
    members = [member("a", 0), member("b")]

    found = report(look(0, members, {0: (9, 9)})).members
    assert (found["a-id"].word, found["b-id"].word) == ("ok", "idle")
    assert found["b-id"].evidence[0].value == "2 members for 1 partition"
    assert report(look(0, members, {0: (9, 9)}, state="Reconciling")).members["b-id"].word == "ok"


def test_member_with_far_more_lag_than_others_has_state_hot():
    members = [member("a", 0), member("b", 1), member("c", 2)]
    old = {"committed_record_at_ms": LONG_AGO}

    hot = look(0, members, [part(0, 0, 900, **old), part(1, 9, 9), part(2, 0, 10, **old)])
    assert (state_of("a", hot), state_of("c", hot)) == ("hot", "ok")
    even = look(0, members, [part(n, 0, 900, **old) for n in range(3)])
    assert state_of("a", even) == "ok"
    fresh = look(0, members, [part(0, 0, 900, committed_record_at_ms=T0), part(1, 9, 9), part(2, 9, 9)])
    assert state_of("a", fresh) == "ok"


def test_group_with_ten_rebalances_in_ten_minutes_is_storm():
    many = RebalanceTimes(opened_at_ms=tuple(T0 - 50_000 * n for n in range(STORM)))
    few = RebalanceTimes(opened_at_ms=many.opened_at_ms[1:])
    long_ago = RebalanceTimes(opened_at_ms=tuple(LONG_AGO - 60_000 * n for n in range(1, 50)))

    assert words(look(0, [A], {0: (9, 9)}), rebalances=many)[0] == "STORM"
    assert words(look(0, [A], {0: (9, 9)}), rebalances=few)[0] == "OK"
    assert words(look(0, [A], {0: (9, 9)}), rebalances=long_ago)[0] == "OK"


def test_health_of_group_whose_description_is_rejected_is_unknown_and_shows_the_error():
    found = report(look(0, [], [], error="GROUP_AUTHORIZATION_FAILED: group 'g'"))

    assert (found.group.word, found.group.clause) == (None, "GROUP_AUTHORIZATION_FAILED: group 'g'")


def test_group_has_the_health_of_its_worst_partition():
    three = member("a", 0, 1, 2)
    looks = [look(s, [three], {0: (5, 9), 1: (2, 9), 2: (9, 9)}) for s in (0, 20)]

    assert (
        report(*looks).group.clause == "t-1, owned by a-id: no commit progress for 20.0 s or longer"
        " (its owner hangs, or handles one batch for that long), also in 1 other partition"
    )


def test_stall_of_group_with_commits_but_without_members_has_low_confidence():
    one = report(look(0, [], {0: (5, 9)}, protocol_type=""))
    assert (one.group.word, one.group.confidence) == (None, "low")
    assert "no members, as with Spark and Flink: one sample is not enough" in one.group.clause

    twenty = report(*(look(at, [], {0: (5, 9)}, protocol_type="") for at in (0, 20)))
    assert (twenty.group.word, twenty.group.confidence) == ("STALL", "low")
    assert "a reader may still run" in twenty.group.clause
    assert report(*(look(at, [], {0: (5, 9)}, protocol_type="") for at in (0, 160))).group.confidence == "medium"
    assert words(look(0, [], {0: (5, 9)}, protocol_type=""), look(20, [], {0: (9, 9)}, protocol_type=""))[0] == "OK"


def test_health_of_partition_with_one_unread_offset_is_unknown():
    assert words(look(0, [A], {0: (9, 10)}), look(600, [A], {0: (9, 10)})) == (None, [None])
    assert state_of("a", look(0, [A], {0: (9, 10)}), look(600, [A], {0: (9, 10)})) == "ok"
    waits = [part(0, 9, 10, waiting=True)]
    assert words(look(0, [A], waits), look(600, [A], waits)) == ("STALL", ["STALL"])


def test_committed_offset_of_deleted_topic_does_not_affect_group_health():
    old = part(0, 5, None, topic="old", error="the topic does not exist", deleted=True)

    assert words(look(0, [A], [part(0, 9, 9), old])) == ("OK", ["OK", "OK"])
    assert words(look(0, [], [part(0, 9, 9), old])) == ("OK", ["OK", "OK"])
    assert report(look(0, [A], [part(0, 9, 9), old])).partitions[1].clause == (
        "its topic was deleted; only its committed offset remains"
    )
    missed = [part(0, 9, 9), part(0, None, None, topic="u", error="the topic does not exist", deleted=True)]
    assert words(look(0, [member("a", 0, topics=("t", "u"))], missed))[0] is None, (
        "the member subscribes to the missing topic"
    )
