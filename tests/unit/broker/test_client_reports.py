"""Metrics pushed by a member's client (KIP-714) as evidence for its departure."""

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
    return pair[1]


def push(wire, *metrics, **says):
    subscription = wire.ask(GetTelemetrySubscriptionsRequest(), 0)
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        metrics=metrics_data(*metrics, **says),
    )
    assert wire.ask(request, 0).error_code == 0


def leave(stage, member, reason=STOPPED):
    identity = MemberIdentity(member_id=member.member_id, reason=reason)
    member.wire.ask(LeaveGroupRequest(group_id="g", members=[identity]), 5)


def evidence(stage: BrokerStage) -> dict[str, str]:
    answer = stage.connect().fetch("__kohort_journal")
    data = b"".join(bytes(p.records) for t in answer.responses for p in t.partitions)
    entries = [parse_entry(record.value) for at, _ in split_batches(data) for record in read_batch(data, at)]
    return {fact.kind: fact.value for fact in find_rebalances(entries)[-1].evidence}


def test_metrics_of_a_member_that_left_for_not_polling_are_evidence_of_the_rebalance(stage, member):
    push(stage.connect(), *SILENT, group_id="g", group_member_id=member.member_id)
    stage.advance(6_000)

    leave(stage, member)

    assert evidence(stage)["client_metrics"] == (
        "6.0 s before: its application had polled 24.0 s ago, longest time between two polls 4.0 s, "
        "its application waited for records 2% of the time"
    )


def test_metrics_of_an_expired_member_are_evidence_of_the_rebalance(stage, pair):
    other, member = pair
    push(stage.connect(), gauge(f"{CONSUMER}poll.idle.ratio.avg", 0.0), group_id="g", group_member_id=member.member_id)

    stage.advance(5_000)
    other.heartbeat()
    stage.advance(5_000)

    assert evidence(stage)["client_metrics"] == "10.0 s before: its application waited for records 0% of the time"


def test_metrics_without_member_id_are_matched_by_client_id_and_host(stage, member):
    push(stage.connect(), *SILENT, group_id="g")

    leave(stage, member)

    assert "client_metrics" in evidence(stage)


@pytest.mark.parametrize("says", [{"group_id": "g", "group_member_id": "somebody-else"}, {"transactional_id": "t"}])
def test_metrics_of_another_member_or_producer_are_no_evidence_of_the_rebalance(stage, member, says):
    push(stage.connect(), *SILENT, **says)

    leave(stage, member)

    assert "client_metrics" not in evidence(stage)


def test_metrics_from_another_host_are_no_evidence_of_the_rebalance(stage, member):
    push(stage.connect("10.6.6.6"), *SILENT, group_id="g", group_member_id=member.member_id)

    leave(stage, member)

    assert "client_metrics" not in evidence(stage)


def test_metrics_of_two_indistinguishable_clients_are_no_evidence_of_the_rebalance(stage, member):
    for _ in range(2):
        push(stage.connect(), *SILENT, group_id="g")

    leave(stage, member)

    assert "client_metrics" not in evidence(stage)


def test_pushed_metrics_without_poll_metrics_are_no_evidence_of_the_rebalance(stage, member):
    push(
        stage.connect(), gauge(f"{CONSUMER}node.request.latency.max", 3), group_id="g", group_member_id=member.member_id
    )

    leave(stage, member)

    assert "client_metrics" not in evidence(stage)
