"""Refused requests of consumer groups in the journal: once for each member, API and error, and no more than a hundred
in an epoch; of those for whom there is no room, once for each client."""

import pytest

from kohort.coordinator.journal import RequestFenced, Who
from kohort.coordinator.journal_events import MemberTurnedAway
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import CoordinatorStage

MANY = 100


def fenced(stage: CoordinatorStage) -> list[str]:
    """The ids of those that the journal says were fenced."""
    return [entry.who.member_id for entry in stage.entries(RequestFenced)]


def test_a_refusal_is_told_with_who_asked_for_what_and_what_it_believed(stage):
    stage.come("m1", instance_id="i")

    stage.beat("old", 7, instance_id="i", client_id="app 2", client_host="/10.0.0.2")

    (entry,) = stage.entries(RequestFenced)
    assert entry == RequestFenced(
        at_ms=stage.now,
        group="g",
        who=Who("old", "app 2", "/10.0.0.2", "i"),
        api="ConsumerGroupHeartbeat",
        error="FENCED_INSTANCE_ID",
        generation=7,
        current=2,
    )
    assert (entry.offsets, entry.more) == ((), 0)


def test_a_member_that_is_there_is_told_of_with_its_own_epoch_and_a_stranger_with_the_groups(stage):
    stage.come("m1")
    stage.come("m2")  # the group is at 3, and m1 is at 2

    stage.beat("m1", 9)
    stage.beat("stranger", 9)

    told = [(e.who.member_id, e.error, e.generation, e.current) for e in stage.entries(RequestFenced)]
    assert told == [("m1", "FENCED_MEMBER_EPOCH", 9, 2), ("stranger", "UNKNOWN_MEMBER_ID", 9, 3)]


def test_a_request_that_names_no_epoch_is_told_of_without_one(stage):
    stage.come("m1", instance_id="i")

    assert stage.answer(stage.join("old", instance_id="i")).error_code == ErrorCode.FENCED_INSTANCE_ID

    (entry,) = stage.entries(RequestFenced)
    assert (entry.api, entry.generation, entry.who.instance_id) == ("JoinGroup", -1, "i")


def test_of_the_classic_protocols_requests_the_generation_and_the_instance_are_told(stage):
    stage.come("m1")

    assert stage.heartbeat("old", 4, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID

    (entry,) = stage.entries(RequestFenced)
    assert (entry.api, entry.generation, entry.who.instance_id) == ("Heartbeat", 4, "i")


def test_the_same_is_told_once_in_an_epoch_of_the_group(stage):
    stage.come("m1")
    for _ in range(3):
        stage.beat("old", 1)
    assert fenced(stage) == ["old"]

    stage.come("m2")
    stage.beat("old", 1)

    assert fenced(stage) == ["old", "old"]


def test_members_of_the_same_client_are_told_apart_and_so_are_what_they_ask_for_and_why(stage):
    stage.come("m1")

    stage.beat("a", 1)
    stage.beat("b", 1)
    stage.heartbeat("b", 1)
    stage.beat("m1", 1)

    told = [(entry.who.member_id, entry.api, entry.error) for entry in stage.entries(RequestFenced)]
    assert told == [
        ("a", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("b", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("b", "Heartbeat", "UNKNOWN_MEMBER_ID"),
        ("m1", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
    ]


def test_a_hundred_are_told_of_in_an_epoch_and_all_are_counted(stage):
    stage.come("m1")

    for number in range(MANY + 2):
        stage.beat(f"old {number}", 1)

    assert fenced(stage) == [f"old {number}" for number in range(MANY)]
    counted = stage.coordinator.fenced.by_group["g"]
    assert counted == {("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"): MANY + 2}


def test_what_says_nothing_of_a_stale_member_is_neither_told_nor_counted(stage):
    stage.come("m1")

    assert stage.come("m2", subscribed_topic_regex="a(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert stage.commit({("t", 0): 1}, version=9) == [ErrorCode.UNKNOWN_MEMBER_ID]  # a commit of nobody

    assert fenced(stage) == []
    assert dict(stage.coordinator.fenced.by_group) == {}


@pytest.mark.parametrize(
    ("again", "told"),
    [
        ({"client_id": "app", "client_host": "/10.0.0.1"}, 1),
        ({"client_id": "app 2", "client_host": "/10.0.0.1"}, 2),
        ({"client_id": "app", "client_host": "/10.0.0.2"}, 2),
    ],
    ids=["the same client", "another client", "another host"],
)
def test_whoever_finds_no_room_is_told_of_once_for_each_client_however_many_ids_it_brings(again, told):
    stage = CoordinatorStage(group_consumer_max_size=1)
    stage.come("m1")

    for member_id in ("x", "y"):
        stage.come(member_id, client_id="app", client_host="/10.0.0.1")
    stage.come("z", **again)

    turned_away = stage.entries(MemberTurnedAway)
    assert len(turned_away) == told
    assert turned_away[0] == MemberTurnedAway(at_ms=stage.now, group="g", who=Who("x", "app", "/10.0.0.1"), members=1)
    assert fenced(stage) == []
    assert dict(stage.coordinator.fenced.by_group) == {}, "nobody is stale"
