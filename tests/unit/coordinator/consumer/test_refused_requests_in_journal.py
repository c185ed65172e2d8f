"""Journal entries of refused requests: one for each member, API and error, at most 100 per group epoch."""

import pytest

from kohort.coordinator.journal import ClientIdentity, RequestFenced
from kohort.coordinator.journal_events import JoinRejected
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import CoordinatorStage

MANY = 100


def fenced(stage: CoordinatorStage) -> list[str]:
    return [entry.member.member_id for entry in stage.entries(RequestFenced)]


def test_refused_consumer_group_request_is_journaled_with_client_api_and_epoch(stage):
    stage.come("m1", instance_id="i")

    stage.beat("old", 7, instance_id="i", client_id="app 2", client_host="/10.0.0.2")

    (entry,) = stage.entries(RequestFenced)
    assert entry == RequestFenced(
        at_ms=stage.now,
        group="g",
        member=ClientIdentity("old", "app 2", "/10.0.0.2", "i"),
        api="ConsumerGroupHeartbeat",
        error="FENCED_INSTANCE_ID",
        generation=7,
        current=2,
    )
    assert (entry.offsets, entry.more) == ((), 0)


def test_journal_entry_of_a_refused_request_has_the_member_epoch_or_for_non_members_the_group_epoch(stage):
    stage.come("m1")
    stage.come("m2")  # now the group epoch is 3, but the member epoch of m1 is 2

    stage.beat("m1", 9)
    stage.beat("stranger", 9)

    fenced_requests = [(e.member.member_id, e.error, e.generation, e.current) for e in stage.entries(RequestFenced)]
    assert fenced_requests == [("m1", "FENCED_MEMBER_EPOCH", 9, 2), ("stranger", "UNKNOWN_MEMBER_ID", 9, 3)]


def test_refused_request_without_epoch_is_journaled_without_epoch(stage):
    stage.come("m1", instance_id="i")

    assert stage.answer(stage.join("old", instance_id="i")).error_code == ErrorCode.FENCED_INSTANCE_ID

    (entry,) = stage.entries(RequestFenced)
    assert (entry.api, entry.generation, entry.member.instance_id) == ("JoinGroup", -1, "i")


def test_refused_classic_request_is_journaled_with_generation_and_instance_id(stage):
    stage.come("m1")

    assert stage.heartbeat("old", 4, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID

    (entry,) = stage.entries(RequestFenced)
    assert (entry.api, entry.generation, entry.member.instance_id) == ("Heartbeat", 4, "i")


def test_refused_request_has_one_journal_entry_for_each_group_epoch(stage):
    stage.come("m1")
    for _ in range(3):
        stage.beat("old", 1)
    assert fenced(stage) == ["old"]

    stage.come("m2")
    stage.beat("old", 1)

    assert fenced(stage) == ["old", "old"]


def test_refused_requests_are_journaled_once_per_member_and_api_and_error(stage):
    stage.come("m1")

    stage.beat("a", 1)
    stage.beat("b", 1)
    stage.heartbeat("b", 1)
    stage.beat("m1", 1)

    fenced_requests = [(entry.member.member_id, entry.api, entry.error) for entry in stage.entries(RequestFenced)]
    assert fenced_requests == [
        ("a", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("b", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("b", "Heartbeat", "UNKNOWN_MEMBER_ID"),
        ("m1", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
    ]


def test_journal_has_at_most_100_refused_requests_per_group_epoch(stage):
    stage.come("m1")

    for number in range(MANY + 2):
        stage.beat(f"old {number}", 1)

    assert fenced(stage) == [f"old {number}" for number in range(MANY)]
    counted = stage.coordinator.fenced.by_group["g"]
    assert counted == {("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"): MANY + 2}


def test_refused_requests_of_current_members_are_not_counted_as_fenced(stage):
    stage.come("m1")

    assert stage.come("m2", subscribed_topic_regex="a(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert stage.commit({("t", 0): 1}, version=9) == [ErrorCode.UNKNOWN_MEMBER_ID]  # OffsetCommit without member id

    assert fenced(stage) == []
    assert dict(stage.coordinator.fenced.by_group) == {}


@pytest.mark.parametrize(
    ("again", "entry_count"),
    [
        ({"client_id": "app", "client_host": "/10.0.0.1"}, 1),
        ({"client_id": "app 2", "client_host": "/10.0.0.1"}, 2),
        ({"client_id": "app", "client_host": "/10.0.0.2"}, 2),
    ],
    ids=["the same client", "another client", "another host"],
)
def test_joins_refused_by_a_full_consumer_group_have_one_journal_entry_for_each_client(again, entry_count):
    stage = CoordinatorStage(group_consumer_max_size=1)
    stage.come("m1")

    for member_id in ("x", "y"):
        stage.come(member_id, client_id="app", client_host="/10.0.0.1")
    stage.come("z", **again)

    rejected_join = stage.entries(JoinRejected)
    assert len(rejected_join) == entry_count
    assert rejected_join[0] == JoinRejected(
        at_ms=stage.now, group="g", member=ClientIdentity("x", "app", "/10.0.0.1"), members=1
    )
    assert fenced(stage) == []
    assert dict(stage.coordinator.fenced.by_group) == {}, "no request has a stale member epoch"
