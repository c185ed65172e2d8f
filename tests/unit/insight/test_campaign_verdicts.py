"""The judge of the incident campaign: it compares findings with injected incidents and accepts no wrong cause."""

from types import SimpleNamespace

import pytest

from support.campaign.clients import CONSUMER, COOPERATIVE, EAGER
from support.campaign.group_run import ExpectedCause, Provoked
from support.campaign.incidents import ALL_INCIDENTS, JOURNAL, WATCHER
from support.campaign.incidents import judge as judge_incident
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


class TestIncidents:
    """Verdicts on incidents: right, two causes in doubt, missed, wrong."""

    def verdict(self, name, view, *told, states=(), patterns=()):
        incident = next(one for one in ALL_INCIDENTS if one.name == name)
        rebalances = [
            {"cause": cause, "confidence": sure, "sentence": cause, "opened_at_ms": 5, "also": also}
            for cause, sure, also in told
        ]
        found = {"rebalances": rebalances, "patterns": list(patterns)}
        return judge_incident(
            incident, SimpleNamespace(library="kohort", from_ms=5, states=[*states], rules=[]), view, found
        )

    def test_right_cause_is_right_beside_the_return_of_the_client(self):
        told = ("MAX_POLL_EXCEEDED", "high", ()), ("CLIENT_RESET", "high", ())

        row = self.verdict("over max.poll", JOURNAL, *told)

        assert (row.verdict, row.found) == ("right", ("MAX_POLL_EXCEEDED (high)",))

    def test_broader_cause_is_unsure_with_low_confidence_and_wrong_with_high_confidence(self):
        assert self.verdict("over max.poll", WATCHER, ("MEMBER_LEFT", "low", ())).verdict == "unsure"
        assert self.verdict("over max.poll", WATCHER, ("MEMBER_LEFT", "high", ())).verdict == "wrong"
        assert self.verdict("over max.poll", JOURNAL, ("MEMBER_LEFT", "low", ())).verdict == "wrong"

    def test_right_cause_in_second_place_is_unsure(self):
        told = ("MAX_POLL_EXCEEDED", "low", ("SESSION_TIMEOUT",))

        assert self.verdict("session near max.poll", WATCHER, told).verdict == "unsure"

    def test_no_cause_is_missed_unless_the_incident_has_none_for_this_view(self):
        assert self.verdict("over max.poll", JOURNAL).verdict == "missed"
        assert self.verdict("refused assignor", WATCHER).verdict == "right"
        assert self.verdict("broker restart", JOURNAL).verdict == "right"

    def test_wrong_member_state_is_wrong(self):
        name = "slow on a backlog, hot partition"

        assert self.verdict(name, JOURNAL, states=[("slow", "medium")]).verdict == "right"
        assert self.verdict(name, JOURNAL, states=[("not-fetching", "medium")]).verdict == "wrong"
        assert self.verdict(name, JOURNAL, states=[("stuck", "low")]).verdict == "unsure"
        assert self.verdict(name, JOURNAL, states=[("stuck", "high")]).verdict == "wrong"
