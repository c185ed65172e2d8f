"""What a member's client pushed of itself is evidence of why the member went (KIP-714)."""

import pytest

from kohort.coordinator.journal import parse_entry
from kohort.insight.findings.rebalances import find_rebalances
from kohort.wire.messages.group_classic import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kohort.wire.record_batch import read_batch, split_batches
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember
from support.telemetry.otlp_bytes import gauge, metrics_data

CONSUMER = "org.apache.kafka.consumer."
SILENT = (
    gauge(f"{CONSUMER}last.poll.seconds.ago", 24.0),
    gauge(f"{CONSUMER}time.between.poll.max", 4_000.0),
    gauge(f"{CONSUMER}poll.idle.ratio.avg", 0.02),
)
STOPPED = "consumer poll timeout has expired."


@pytest.fixture
def pair(stage):
    """A stable group of two."""
    other, member = (RawMember(stage.connect(), "g", ["a"]) for _ in range(2))
    other.wire.create("a", 2)
    other.start_join()
    stage.advance(0)
    other.end_join()
    other.sync({other.member_id: {"a": [0, 1]}})
    member.start_join()
    other.start_join()
    stage.advance(0)
    other.end_join()
    member.end_join()
    other.sync({other.member_id: {"a": [0]}, member.member_id: {"a": [1]}})
    member.sync()
    return other, member


@pytest.fixture
def member(pair):
    """The one that goes."""
    return pair[1]


def push(wire, *metrics, **says):
    """Push as a client on a connection of its own, as Java's does."""
    given = wire.ask(GetTelemetrySubscriptionsRequest(), 0)
    asked = PushTelemetryRequest(
        client_instance_id=given.client_instance_id,
        subscription_id=given.subscription_id,
        metrics=metrics_data(*metrics, **says),
    )
    assert wire.ask(asked, 0).error_code == 0


def leave(stage, member, reason=STOPPED):
    identity = MemberIdentity(member_id=member.member_id, reason=reason)
    member.wire.ask(LeaveGroupRequest(group_id="g", members=[identity]), 5)


def evidence(stage: BrokerStage) -> dict[str, str]:
    """The facts behind the latest rebalance, from the journal as anybody reads it."""
    answer = stage.connect().fetch("__kohort_journal")
    data = b"".join(bytes(p.records) for t in answer.responses for p in t.partitions)
    entries = [parse_entry(record.value) for at, _ in split_batches(data) for record in read_batch(data, at)]
    return {fact.kind: fact.value for fact in find_rebalances(entries)[-1].evidence}


def test_a_member_that_did_not_poll_in_time_had_said_itself_how_it_was(stage, member):
    push(stage.connect(), *SILENT, group_id="g", group_member_id=member.member_id)
    stage.advance(6_000)

    leave(stage, member)

    assert evidence(stage)["client_said"] == (
        "6.0 s before: its user had polled 24.0 s ago, 4.0 s lay between two polls at most, "
        "its user waited for records 2% of the time"
    )


def test_one_that_fell_silent_likewise(stage, pair):
    other, member = pair
    push(stage.connect(), gauge(f"{CONSUMER}poll.idle.ratio.avg", 0.0), group_id="g", group_member_id=member.member_id)

    stage.advance(5_000)
    other.heartbeat()
    stage.advance(5_000)

    assert evidence(stage)["client_said"] == "10.0 s before: its user waited for records 0% of the time"


def test_a_client_that_names_only_its_group_is_known_by_client_id_and_host(stage, member):
    push(stage.connect(), *SILENT, group_id="g")

    leave(stage, member)

    assert "client_said" in evidence(stage)


@pytest.mark.parametrize("says", [{"group_id": "g", "group_member_id": "somebody-else"}, {"transactional_id": "t"}])
def test_what_others_said_is_no_evidence(stage, member, says):
    push(stage.connect(), *SILENT, **says)

    leave(stage, member)

    assert "client_said" not in evidence(stage)


def test_nobody_speaks_for_a_member_from_another_host(stage, member):
    push(stage.connect("10.6.6.6"), *SILENT, group_id="g", group_member_id=member.member_id)

    leave(stage, member)

    assert "client_said" not in evidence(stage)


def test_two_that_cannot_be_told_apart_are_no_evidence(stage, member):
    for _ in range(2):
        push(stage.connect(), *SILENT, group_id="g")

    leave(stage, member)

    assert "client_said" not in evidence(stage)


def test_a_client_that_measures_nothing_of_it_says_nothing(stage, member):
    push(
        stage.connect(), gauge(f"{CONSUMER}node.request.latency.max", 3), group_id="g", group_member_id=member.member_id
    )

    leave(stage, member)

    assert "client_said" not in evidence(stage)
