"""Findings about groups, and ``doctor`` rules with an example group for each rule."""

from __future__ import annotations

import msgspec
import pytest

from kohort.insight import patterns
from kohort.insight.findings.doctor import ADVICE, SEVERITY_OF, examine, is_bad
from kohort.insight.findings.groups import find_group
from kohort.insight.findings.model import EvidenceFinding, MemberRef, RebalanceFinding
from kohort.insight.health import STORM, STORM_MS
from support.machines.group_looks import T0, look, member, part

A = member("a", 0)
LONG_AGO = {"committed_record_at_ms": T0 - 600_000}


def rebalance(at_s, cause="NEW_MEMBER", member="a", members=("a",), **more):
    refs = tuple(MemberRef(member_id=f"{name}-id", client_id=name, host="/h") for name in members)
    return RebalanceFinding(
        id="g/1",
        group="g",
        protocol="classic",
        opened_at_ms=T0 + round(at_s * 1000),
        end=more.pop("end", "settled"),
        cause=cause,
        confidence="high",
        sentence="It rebalanced.",
        evidence=(EvidenceFinding(kind="join_group", value="somebody came"),),
        trigger=MemberRef(member_id=f"{member}-id", client_id=member, host="/h"),
        members=refs,
        **more,
    )


def rules(*looks, rebalances=None):
    found = examine(find_group(looks, rebalances), rebalances)
    assert all(one.advice and one.sentence for one in found)
    return [(one.rule, one.severity) for one in found]


def test_group_finding_summarises_health_in_one_sentence():
    looks = look(0, [A], [part(0, 5, 9, **LONG_AGO)]), look(20, [A], [part(0, 5, 9, **LONG_AGO)])

    found = find_group(looks)

    assert found.sentence == (
        "g is Stable, 1 member, 1 of 1 partition owned, 4 records behind (10 min 20 s). "
        "STALL: t-0, owned by a-id: no commit progress for 20.0 s or longer"
        " (its owner hangs, or handles one batch for that long)."
    )
    assert (found.health, found.sample_span_ms, found.blame, found.blamed) == (
        ("STALL", 20_000, "stopped_member", MemberRef(member_id="a-id", client_id="a", host="/h"))
    )
    assert (found.rebalances_1h, found.last_rebalance) == (None, None)


def test_generation_of_classic_group_in_group_finding_comes_from_the_journal():
    rounds = [
        rebalance(-60, generation=4), rebalance(-59, generation=5, parent=4),
        rebalance(-9, end="no_rebalance", generation=9),
    ]  # fmt: skip

    assert find_group([look(0, [A], [part(0, 5, 9)])], rounds).epoch == 5
    assert find_group([look(0, [A], [part(0, 5, 9)])], []).epoch is None


def test_group_finding_is_equal_after_json_encoding_and_decoding():
    found = find_group([look(0, [A], [part(0, 5, 9), part(1, None, 9)])], [rebalance(-60, took_ms=7)])

    assert msgspec.convert(msgspec.to_builtins(found), type(found)) == found
    one = examine(found)[0]
    assert msgspec.convert(msgspec.to_builtins(one), type(one)) == one


def test_group_finding_with_journal_has_rebalance_count_of_last_hour_and_the_last_rebalance():
    rebalances = [
        rebalance(-7200),
        rebalance(-60, took_ms=7),
        rebalance(-50, parent=1),
        rebalance(-40, end="no_rebalance"),
    ]

    found = find_group([look(0, [A], {0: (9, 9)})], rebalances)

    assert found.rebalances_1h == 1
    assert found.last_rebalance is not None
    assert (found.last_rebalance.at_ms, found.last_rebalance.took_ms) == (T0 - 60_000, 7)


def test_lag_rates_of_group_ignore_samples_before_the_last_rebalance():
    looks = [look(0, [A], {0: (5, 9)}), look(20, [A], {0: (5, 9)})]

    assert find_group(looks).health == "STALL"
    assert find_group(looks, [rebalance(10)]).health is None


def test_storm_health_counts_only_rebalances_that_interrupt_members():
    fine = look(0, [A], {0: (9, 9)})
    assert rules(fine, rebalances=[rebalance(-50 * n) for n in range(STORM)]) == [("storm", "warning")]
    jobs = [rebalance(-50 * n, cause="GROUP_FORMING") for n in range(STORM)]
    assert rules(fine, rebalances=jobs + [rebalance(-50 * n, members=()) for n in range(STORM)]) == []


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([look(0, [], {0: (5, 9)})], ("no-consumer", "error")),
        ([look(0, [A], {0: (9, 9), 1: (5, 9)})], ("no-owner", "error")),
        ([look(s, [A], {0: (5, 9)}) for s in (0, 20)], ("stalled", "error")),
        ([look(s, [A], [part(0, None, 5 + s)]) for s in (0, 20)], ("never-committed", "warning")),
        ([look(0, [A], {0: (50, 90)}), look(20, [A], {0: (9, 90)})], ("rewound", "warning")),
        ([look(0, [A], {0: (0, 10)}), look(20, [A], {0: (9, 90)})], ("slow", "warning")),
        ([look(0, [A], [part(0, 5, 9, last_stable=5, **LONG_AGO)])], ("open-transaction", "warning")),
        ([look(0, [A], {0: (10, 9)})], ("beyond-the-end", "error")),
        ([look(0, [A], [part(0, 5, None, error="the topic or partition does not exist")])],
         ("topic-missing", "warning")),
        ([look(0, [], [part(0, 5, None, error="the topic or partition does not exist")])],
         ("topic-deleted", "info")),
        ([look(0, [A], [part(0, 5, None, error="not authorised to describe the topic")])], ("lag-unknown", "info")),
        ([look(0, [], [], error="not authorised to describe the group")], ("lag-unknown", "info")),
        ([look(0, [A, member("b")], {0: (9, 9)})], ("idle", "info")),
    ],
)  # fmt: skip
def test_each_doctor_rule_reports_its_example_group(looks, expected):
    assert rules(*looks) == [expected]


def test_doctor_distinguishes_skewed_partition_from_slow_member():
    members = [member("a", 0), member("b", 1, 2)]
    first = look(0, members, {0: (0, 10), 1: (0, 1), 2: (0, 1)})

    assert ("skew", "warning") in rules(first, look(20, members, {0: (100, 9000), 1: (60, 60), 2: (60, 60)}))


def test_doctor_reports_member_with_far_more_lag_than_others():
    members = [member("a", 0), member("b", 1), member("c", 2)]

    assert rules(look(0, members, [part(0, 0, 900, **LONG_AGO), part(1, 9, 9), part(2, 9, 9)])) == [("hot", "warning")]


def test_doctor_reports_unread_records_that_retention_deleted_or_will_delete():
    assert ("records-lost", "error") in rules(look(0, [A], [part(0, 5, 90, log_start=9)]))
    assert rules(look(0, [A], [part(0, 9, 9, log_start=9)])) == []

    near = look(0, [A], [part(0, 50, 90)]), look(5, [A], [part(0, 50, 90, log_start=30)])
    assert rules(*near) == [("retention-near", "warning")]
    far = look(0, [A], [part(0, 50, 90)]), look(5, [A], [part(0, 50, 90, log_start=20)])
    assert rules(*far) == []


def test_doctor_reports_missed_poll_only_if_the_member_did_not_rejoin():
    missed_poll = rebalance(-600, cause="MAX_POLL_EXCEEDED", member="b", members=("a",))
    fine = look(0, [A], {0: (9, 9)})

    assert rules(fine, rebalances=[missed_poll]) == [("missed-poll", "warning")]
    assert rules(fine, rebalances=[missed_poll, rebalance(-300, member="b", members=("a", "b"))]) == []
    assert rules(look(0, [A, member("b", 1)], {0: (9, 9), 1: (9, 9)}), rebalances=[missed_poll]) == []


def test_doctor_merges_similar_partitions_into_one_finding_with_all_evidence():
    (one,) = examine(find_group([look(0, [], dict.fromkeys(range(9), (5, 9)))]))

    assert one.sentence == "t-0, t-1, t-2 and 6 more: no member reads it"
    assert (len(one.partitions), len(one.evidence)) == (9, 18)


def test_doctor_sorts_errors_before_infos():
    found = examine(find_group([look(0, [A, member("b")], {0: (9, 9), 1: (5, 9)})]))

    assert [one.severity for one in found] == ["error", "info"]
    assert is_bad(found)
    assert not is_bad(found[1:])


def test_storm_needs_the_same_number_of_rebalances_in_doctor_and_patterns():
    assert (STORM, STORM_MS) == (patterns.STORM, patterns.STORM_WITHIN_MS)


def test_every_doctor_rule_has_advice():
    assert set(SEVERITY_OF) <= set(ADVICE)


def test_records_that_retention_deleted_unread_are_reported_and_are_no_lag():
    found = find_group([look(0, [A], [part(0, 10, 60, log_start=60)])])

    assert (found.lag, found.partitions[0].lost) == (0, 50)
    assert found.sentence == (
        "g is Stable, 1 member, 1 of 1 partition owned, no records behind, 50 records deleted unread: no lag."
    )
    assert [(one.rule, one.sentence) for one in examine(found)] == [
        ("records-lost", "50 records of t-0 deleted unread")
    ]


def test_committed_offset_beyond_the_log_end_is_a_single_doctor_finding():
    found = find_group([look(0, [A], {0: (100, 50)})])

    assert [(one.rule, one.severity) for one in examine(found)] == [("beyond-the-end", "error")]
    assert found.lag is None
