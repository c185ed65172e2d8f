"""The judge of the campaign: what was told and what was done are laid side by side, and no wrong name gets by."""

import pytest

from support.campaign.casting import CONSUMER, COOPERATIVE, EAGER
from support.campaign.judge import judge
from support.campaign.story import ExpectedCause, Provoked
from support.campaign.truths import APACHE, GROUNDS, OURS, TRUTHS

A, B = frozenset({"a"}), frozenset({"b"})
FROZEN = (ExpectedCause("SESSION_TIMEOUT.frozen", A), ExpectedCause("CLIENT_RESET", A))


def finding(at_ms, cause, confidence="high", client_id="a", end="stable"):
    """A finding as the command gives it, as far as it is looked at."""
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


def verdicts(*told, expected=FROZEN, ground=OURS, protocol=EAGER, action="freeze"):
    noted = Provoked("g", protocol, action, ("a",), from_ms=0, until_ms=100, expected=expected)
    return [(v.truth, v.named, v.verdict) for v in judge(ground, [noted], list(told))]


def test_what_is_named_as_it_was_is_right():
    told = finding(1, "SESSION_TIMEOUT.frozen"), finding(2, "CLIENT_RESET")

    assert {verdict for _, _, verdict in verdicts(*told)} == {"right"}


def test_a_broader_name_is_right_where_it_does_not_claim_to_be_sure():
    back = finding(2, "CLIENT_RESET", "medium")

    assert verdicts(finding(1, "MEMBER_GONE", "low"), back, ground=APACHE)[0][2] == "right"
    assert verdicts(finding(1, "MEMBER_GONE", "high"), back, ground=APACHE)[0][2] == "wrong"
    assert verdicts(finding(1, "MEMBER_GONE", "low"), back, ground=OURS)[0][2] == "wrong"


def test_a_wrong_name_costs_one_and_not_those_that_follow():
    told = finding(1, "MEMBER_LEFT"), finding(2, "CLIENT_RESET")

    assert verdicts(*told) == [
        ("SESSION_TIMEOUT.frozen", "MEMBER_LEFT", "wrong"),
        ("CLIENT_RESET", "CLIENT_RESET", "right"),
    ]


def test_the_right_cause_of_another_member_is_wrong():
    told = finding(1, "SESSION_TIMEOUT.frozen", client_id="b"), finding(2, "CLIENT_RESET")

    assert [verdict for _, _, verdict in verdicts(*told)] == ["wrong", "right"]


def test_what_is_not_told_is_missed_and_what_nobody_did_is_wrong():
    assert verdicts() == [
        ("SESSION_TIMEOUT.frozen", "(nothing)", "missed"),
        ("CLIENT_RESET", "(nothing)", "missed"),
    ]
    assert verdicts(finding(1, "NEW_MEMBER"), expected=()) == [("(nothing)", "NEW_MEMBER", "wrong")]


def test_not_to_know_is_no_name_and_not_wrong():
    told = finding(1, "UNEXPLAINED", "low")

    assert verdicts(told, expected=(ExpectedCause("USER_ENFORCED", A),)) == [
        ("USER_ENFORCED", "UNEXPLAINED", "unnamed")
    ]


@pytest.mark.parametrize(("protocol", "verdict"), [(COOPERATIVE, "right"), (EAGER, "wrong"), (CONSUMER, "wrong")])
def test_a_second_round_is_right_where_there_are_such(protocol, verdict):
    told = finding(1, "MEMBER_LEFT"), finding(2, "COOPERATIVE_FOLLOWUP", client_id="b")

    assert verdicts(*told, expected=(ExpectedCause("MEMBER_LEFT", A),), protocol=protocol)[-1][2] == verdict


def test_what_is_told_outside_of_the_action_is_not_of_it():
    told = finding(1, "MEMBER_LEFT"), finding(100, "NEW_MEMBER")

    assert len(verdicts(*told, expected=(ExpectedCause("MEMBER_LEFT", A),))) == 1


def test_what_was_done_to_topics_may_be_noticed_during_the_next_action_and_nothing_else_may():
    gone = Provoked("g", EAGER, "topic_deleted", ("a",), 0, 100, expected=(ExpectedCause("TOPIC_DELETED", A, least=0),))
    left = Provoked("g", EAGER, "leave", ("b",), 100, 200, expected=(ExpectedCause("MEMBER_LEFT", B),))
    told = [finding(110, "TOPIC_DELETED"), finding(120, "MEMBER_LEFT", client_id="b"), finding(130, "NEW_MEMBER")]

    found = [(v.truth, v.named, v.verdict) for v in judge(OURS, [gone, left], told)]

    assert sorted(found) == [
        ("(nothing)", "NEW_MEMBER", "wrong"),
        ("MEMBER_LEFT", "MEMBER_LEFT", "right"),
        ("TOPIC_DELETED", "TOPIC_DELETED", "right"),
    ]


def test_broader_names_have_their_reason_in_the_table():
    loose = [truth for truth in TRUTHS.values() if truth.also or truth.broader]

    assert all(truth.because for truth in loose)
    assert all({*truth.also, *truth.broader} <= {*GROUNDS} for truth in loose)
