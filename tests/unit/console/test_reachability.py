import pytest

from kohort.console.reachability import OVERDUE_S, PULSE_MS, PULSE_S, ClusterUnreachable, Reachability
from kohort.errors import ConnectionFailed

REFUSED = ConnectionFailed("connection refused")


class Watched:
    def __init__(self):
        self.now_s = 1_000.0
        self.outages = []
        self.reach = Reachability(lambda: int(self.now_s * 1000), lambda: self.now_s, self.outages.append)

    def answered(self, at_s):
        self.now_s = at_s
        return self.reach.pulse_answered()


@pytest.fixture
def watched():
    return Watched()


def test_outage_begins_at_time_of_last_answer(watched):
    watched.answered(1_002)
    watched.now_s = 1_006
    watched.reach.pulse_failed(REFUSED)
    watched.now_s = 1_012
    watched.reach.pulse_failed(REFUSED)
    assert [(one.since_ms, one.error) for one in watched.outages] == [(1_002_000, "connection refused")]
    assert watched.reach.unreachable is watched.outages[0]


def test_outage_ends_with_a_sample_that_began_after_the_failure(watched):
    watched.now_s = 1_006
    watched.reach.pulse_failed(REFUSED)
    watched.reach.sampled(began_s=1_005, next_within_s=5)
    assert watched.reach.unreachable is not None
    watched.now_s = 1_010
    watched.reach.sampled(began_s=1_007, next_within_s=5)
    assert watched.reach.unreachable is None
    assert watched.outages[-1] is None


def test_answered_node_request_triggers_sample_but_does_not_end_outage(watched):
    watched.reach.pulse_failed(REFUSED)
    assert watched.answered(1_002)
    assert not watched.answered(1_004)
    assert watched.reach.unreachable is not None


def test_failed_sample_starts_outage_despite_answered_node_request(watched):
    watched.answered(1_002)
    watched.reach.sample_failed(REFUSED)
    watched.answered(1_004)
    assert watched.reach.unreachable.since_ms == 1_002_000


def test_overdue_sample_starts_outage(watched):
    watched.now_s = 1_001
    watched.reach.sampled(began_s=1_000, next_within_s=5)
    watched.answered(1_001 + 5 + 3 + OVERDUE_S)
    assert watched.reach.unreachable is None
    watched.answered(1_001 + 5 + 3 + OVERDUE_S + 1)
    assert "not sampled in time" in watched.reach.unreachable.error  # type: ignore[attr-defined]  # None before


def test_outage_and_its_end_are_detected_within_ten_seconds():
    assert PULSE_S + PULSE_MS / 1000 < 10


def test_error_of_an_outage_names_address_time_and_cause(watched):
    watched.reach.pulse_failed(REFUSED)
    lost = ClusterUnreachable("kafka:9092", watched.outages[0], ["billing"])
    assert str(lost) == (
        "kafka:9092 has not answered since 00:16:40 UTC; the state of its groups is unknown: connection refused"
    )
    assert (lost.reason, lost.groups) == ("the cluster has not answered since 00:16:40 UTC", ("billing",))
