"""Static members that are replaced without a rebalance, on a real coordinator."""

from typing import Any

import pytest

from kohort.coordinator.journal import build_entry, parse_entry
from kohort.errors import ErrorCode
from kohort.insight.events import takeovers
from kohort.insight.findings.rebalances import event_finding
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import CoordinatorStage


@pytest.fixture
def stage():
    stage: Any = CoordinatorStage()
    member_id, joining = stage.enter(client_id="st-0", instance_id="pay-0")
    answer = stage.answer(joining)
    stage.sync(member_id, answer.generation_id, {member_id: assignment(("t", 0))}, instance_id="pay-0")
    stage.first = member_id
    stage.generation = answer.generation_id
    return stage


def replace(stage, client_id="st-0b"):
    stage.advance(2_000)
    ticket = stage.join("", client_id=client_id, instance_id="pay-0", connection=7)
    return stage.answer(ticket).member_id


def findings_of(stage):
    return [event_finding(this) for this in takeovers(parse_entry(build_entry(entry)) for entry in stage.journal)]


def test_restart_of_static_member_within_its_session_is_an_event_without_rebalance(stage):
    replace(stage)

    (taken,) = findings_of(stage)
    assert (taken.cause, taken.confidence, taken.advice) == ("STATIC_RESTART", "high", None)
    assert taken.sentence.startswith("Instance pay-0 is now pay-0-")
    assert "(static pay-0, client st-0b at /127.0.0.1), and" in taken.sentence
    assert taken.sentence.endswith("sent no more requests.")


def test_rejected_request_without_instance_id_of_replaced_static_member_proves_duplicate_instance_id(stage):
    replace(stage)
    stage.advance(1_500)
    assert stage.heartbeat(stage.first, stage.generation) == ErrorCode.UNKNOWN_MEMBER_ID

    (taken,) = findings_of(stage)
    assert (taken.cause, taken.confidence) == ("STATIC_DUPLICATE", "proof")
    assert "rejected 1.5 s later (Heartbeat: UNKNOWN_MEMBER_ID)" in taken.sentence


def test_rejected_client_that_joins_again_at_once_is_probably_a_duplicate(stage):
    replace(stage)
    stage.heartbeat(stage.first, stage.generation, client_id="st-0")
    stage.advance(1_000)
    stage.join("", client_id="st-0", instance_id="pay-0", connection=1)

    first, last = findings_of(stage)

    assert (first.cause, first.confidence) == ("STATIC_DUPLICATE", "proof")
    assert (last.cause, last.confidence) == ("STATIC_DUPLICATE", "medium")
    assert "right after that client was replaced or its request rejected" in last.sentence


def test_clients_that_take_turns_are_probably_duplicates_after_the_limit_of_journaled_rejections(stage):
    replace(stage)
    stage.heartbeat(stage.first, stage.generation, client_id="st-0")
    for client_id in ("st-0", "st-0b", "st-0"):
        stage.advance(1_000)
        stage.join("", client_id=client_id, instance_id="pay-0", connection=1)

    assert [(one.cause, one.confidence) for one in findings_of(stage)] == [
        ("STATIC_DUPLICATE", "proof"),
        *[("STATIC_DUPLICATE", "medium")] * 3,
    ]


@pytest.mark.parametrize(
    ("second", "third", "pause_ms", "confidence"),
    [("st-0", "st-0", 5_000, "medium"), ("st-0b", "st-0b", 1_000, "medium"), ("st-0b", "st-0", 61_000, "high")],
    ids=["one client id", "the second client", "a minute later"],
)
def test_replacement_after_a_proven_duplicate_is_a_restart_without_a_join_of_the_rejected_client(
    stage, second, third, pause_ms, confidence
):
    joined = replace(stage, second)
    stage.heartbeat(stage.first, stage.generation, client_id="st-0")
    for _ in range(0, pause_ms, 5_000):
        stage.advance(min(5_000, pause_ms))
        stage.heartbeat(joined, stage.generation, client_id=second)
    stage.join("", client_id=third, instance_id="pay-0", connection=1)

    first, last = findings_of(stage)

    assert (first.cause, first.confidence) == ("STATIC_DUPLICATE", "proof")
    assert (last.cause, last.confidence) == ("STATIC_RESTART", confidence)
    assert ("shortly before" in last.sentence) == (confidence == "medium")


def test_rejected_request_of_replaced_static_member_proves_duplicate_instance_id(stage):
    replace(stage)
    stage.advance(1_500)
    assert stage.heartbeat(stage.first, stage.generation, instance_id="pay-0") == ErrorCode.FENCED_INSTANCE_ID

    (taken,) = findings_of(stage)
    assert (taken.cause, taken.confidence) == ("STATIC_DUPLICATE", "proof")
    assert "rejected 1.5 s later (Heartbeat: FENCED_INSTANCE_ID)" in taken.sentence
    assert "Two processes have the same group.instance.id" in taken.sentence
    assert "its own group.instance.id" in taken.advice
    assert [fact.kind for fact in taken.evidence] == ["static_replaced", "stale_request"]
