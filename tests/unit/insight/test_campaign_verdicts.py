"""The judge of the incident campaign: it compares findings with injected incidents and accepts no wrong cause."""

import pytest

from support.campaign.clients import CONSUMER, COOPERATIVE, EAGER
from support.campaign.group_run import ExpectedCause, Provoked
from support.campaign.right_causes import APACHE, GROUNDS, OURS, TRUTHS
from support.campaign.verdicts import judge

A, B = frozenset({"a"}), frozenset({"b"})
FROZEN = (ExpectedCause("SESSION_TIMEOUT.frozen", A), ExpectedCause("CLIENT_RESET", A))


def finding(at_ms, cause, confidence="high", client_id="a", end="stable"):
    return {
        "id": f"g/{at_ms}",
        "group": "g",
        "protocol": "classic",
        "opened_at_ms": at_ms,
        "end": end,
        "cause": cause,
        "confidence": confidence,
        "sentence": cause,
        "evidence": [],
        "trigger": {"member_id": f"{client_id}-1", "client_id": client_id},
    }


def verdicts(*reports, expected=FROZEN, ground=OURS, protocol=EAGER, action="freeze"):
    noted = Provoked("g", protocol, action, ("a",), from_ms=0, until_ms=100, expected=expected)
    return [(v.truth, v.named, v.verdict) for v in judge(ground, [noted], list(reports))]


def test_judge_accepts_findings_with_exactly_the_injected_causes():
    reports = finding(1, "SESSION_TIMEOUT.frozen"), finding(2, "CLIENT_RESET")

    assert {verdict for _, _, verdict in verdicts(*reports)} == {"right"}


def test_broader_cause_is_right_only_at_low_confidence_on_apache_kafka():
    back = finding(2, "CLIENT_RESET", "medium")

    assert verdicts(finding(1, "MEMBER_DEPARTED", "low"), back, ground=APACHE)[0][2] == "right"
    assert verdicts(finding(1, "MEMBER_DEPARTED", "high"), back, ground=APACHE)[0][2] == "wrong"
    assert verdicts(finding(1, "MEMBER_DEPARTED", "low"), back, ground=OURS)[0][2] == "wrong"


def test_verdict_of_later_rebalance_is_independent_of_an_earlier_wrong_cause():
    reports = finding(1, "MEMBER_LEFT"), finding(2, "CLIENT_RESET")

    assert verdicts(*reports) == [
        ("SESSION_TIMEOUT.frozen", "MEMBER_LEFT", "wrong"),
        ("CLIENT_RESET", "CLIENT_RESET", "right"),
    ]


def test_finding_with_right_cause_and_wrong_member_is_wrong():
    reports = finding(1, "SESSION_TIMEOUT.frozen", client_id="b"), finding(2, "CLIENT_RESET")

    assert [verdict for _, _, verdict in verdicts(*reports)] == ["wrong", "right"]


def test_injected_cause_without_finding_is_missed_and_finding_without_injected_cause_is_wrong():
    assert verdicts() == [
        ("SESSION_TIMEOUT.frozen", "(nothing)", "missed"),
        ("CLIENT_RESET", "(nothing)", "missed"),
    ]
    assert verdicts(finding(1, "NEW_MEMBER"), expected=()) == [("(nothing)", "NEW_MEMBER", "wrong")]


def test_unexplained_rebalance_has_verdict_unnamed():
    report = finding(1, "UNEXPLAINED", "low")

    assert verdicts(report, expected=(ExpectedCause("USER_ENFORCED", A),)) == [
        ("USER_ENFORCED", "UNEXPLAINED", "unnamed")
    ]


@pytest.mark.parametrize(("protocol", "verdict"), [(COOPERATIVE, "right"), (EAGER, "wrong"), (CONSUMER, "wrong")])
def test_followup_rebalance_has_verdict_right_only_under_cooperative_assignor(protocol, verdict):
    reports = finding(1, "MEMBER_LEFT"), finding(2, "COOPERATIVE_FOLLOWUP", client_id="b")

    assert verdicts(*reports, expected=(ExpectedCause("MEMBER_LEFT", A),), protocol=protocol)[-1][2] == verdict


def test_judge_ignores_rebalances_after_the_end_of_the_injected_action():
    reports = finding(1, "MEMBER_LEFT"), finding(100, "NEW_MEMBER")

    assert len(verdicts(*reports, expected=(ExpectedCause("MEMBER_LEFT", A),))) == 1


def test_late_rebalance_of_topic_change_has_verdict_right_during_the_next_action():
    deletion = Provoked(
        "g", EAGER, "topic_deleted", ("a",), 0, 100, expected=(ExpectedCause("TOPIC_DELETED", A, least=0),)
    )
    leave = Provoked("g", EAGER, "leave", ("b",), 100, 200, expected=(ExpectedCause("MEMBER_LEFT", B),))
    reports = [finding(110, "TOPIC_DELETED"), finding(120, "MEMBER_LEFT", client_id="b"), finding(130, "NEW_MEMBER")]

    found = [(v.truth, v.named, v.verdict) for v in judge(OURS, [deletion, leave], reports)]

    assert sorted(found) == [
        ("(nothing)", "NEW_MEMBER", "wrong"),
        ("MEMBER_LEFT", "MEMBER_LEFT", "right"),
        ("TOPIC_DELETED", "TOPIC_DELETED", "right"),
    ]


def test_every_accepted_broader_cause_has_a_reason_in_the_truth_table():
    loose = [truth for truth in TRUTHS.values() if truth.also or truth.broader]

    assert all(truth.because for truth in loose)
    assert all({*truth.also, *truth.broader} <= {*GROUNDS} for truth in loose)
