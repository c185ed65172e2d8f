"""Member epochs in heartbeats to consumer groups, and error messages for refused heartbeats (KIP-848)."""

import pytest

from kohort.coordinator.journal import EpochRaised, RequestFenced, StaticAway, StaticReplaced
from kohort.coordinator.records import TargetWritten
from kohort.errors import ErrorCode
from kohort.model import uuid_from_text
from support.machines.coordinator_stage import CoordinatorStage

ABANDON = "The member must abandon all its partitions and rejoin."
JOIN = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "owned": []}
REFUSED = {
    "group": ({"group": " "}, 42, "GroupId can't be empty."),
    "member": ({"member_id": ""}, 42, "MemberId can't be empty."),
    "instance": ({"instance_id": ""}, 42, "InstanceId can't be empty."),
    "rack": ({"rack_id": " "}, 42, "RackId can't be empty."),
    "timeout": ({"rebalance_timeout_ms": -1}, 42, "RebalanceTimeoutMs must be provided in first request."),
    "owned": ({"owned": None}, 42, "TopicPartitions must be empty when (re-)joining."),
    "owns": ({"owned": [("t", 0)]}, 42, "TopicPartitions must be empty when (re-)joining."),
    "subscription": (
        {"subscribed_topic_names": None},
        42,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "no instance": ({"epoch": -2}, 42, "InstanceId can't be null."),
    "epoch": ({"epoch": -3}, 42, "MemberEpoch is invalid."),
    "assignor": (
        {"server_assignor": "foo"},
        112,
        "ServerAssignor foo is not supported. Supported assignors: uniform, range.",
    ),
    "no group": ({"epoch": 1}, 69, "Consumer group g not found."),
    "no group to leave": ({"epoch": -1}, 69, "Group g not found."),
}


@pytest.mark.parametrize(("changed", "code", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_consumer_group_heartbeat_request_is_refused_without_creating_its_group(changed, code, words):
    stage = CoordinatorStage()
    fields = {"member_id": "m", "epoch": 0} | JOIN | changed

    answer = stage.beat(fields.pop("member_id"), fields.pop("epoch"), fields.pop("owned"), **fields)

    assert (answer.error_code, answer.error_message) == (code, words)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (
        None,
        0,
        0,
        None,
    )
    assert stage.records() == []


def test_heartbeat_returns_unsupported_version_if_the_consumer_protocol_is_disabled():
    stage = CoordinatorStage(group_coordinator_rebalance_protocols=["classic"])
    assert stage.come("m").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_heartbeat_rejects_invalid_subscription_pattern():
    answer = CoordinatorStage().come("m", subscribed_topic_regex="a(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message == "SubscribedTopicRegex `a(` is not a valid regular expression: missing closing )."


def test_broker_generates_the_member_id_for_consumer_group_heartbeat_v0_request():
    answer = CoordinatorStage().come("", version=0)
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert len(answer.member_id) == 22
    assert uuid_from_text(answer.member_id)[6] >> 4 == 4


def test_heartbeat_with_the_previous_epoch_receives_the_lost_response_again():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    stage.come("m2")
    stage.beat("m1", 2)
    stage.beat("m1", 2, [("t", 0), ("t", 1)])

    again = stage.beat("m1", 2, [("t", 0)])
    assert (again.error_code, again.member_epoch) == (0, 3)
    refused = stage.beat("m1", 2)  # the heartbeat reports no owned partitions
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert refused.error_message == (
        "The consumer group member has a smaller member epoch (2) than the one known by the group coordinator (3). "
        + ABANDON
    )
    assert stage.beat("m1", 2, [("t", 3)]).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    ahead = stage.beat("m1", 4)
    assert ahead.error_message.startswith("The consumer group member has a greater member epoch (4)")
    fenced = stage.entries(RequestFenced)
    assert [(entry.error, entry.generation, entry.current) for entry in fenced] == [("FENCED_MEMBER_EPOCH", 2, 3)]


def test_member_that_rejoins_with_epoch_0_keeps_its_assignment():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    again = stage.come("m1")
    assert (again.member_epoch, stage.assignment_in(again)) == (2, [("t", p) for p in range(4)])
    stage.come("m2")
    stage.beat("m1", 2)  # the member must revoke two partitions

    again = stage.come("m1")  # the member owns no partition: both revocations are complete

    assert (again.member_epoch, stage.assignment_in(again)) == (3, [("t", 0), ("t", 1)])


def test_consumer_group_heartbeat_request_with_unknown_member_id_is_rejected():
    stage = CoordinatorStage()
    stage.come("m1")
    assert stage.beat("x", 1).error_message == "Member x is not a member of group g."
    assert stage.beat("x", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.beat("x", 1, instance_id="i").error_message == "Instance id i is unknown."


def test_full_consumer_group_accepts_only_its_members():
    stage = CoordinatorStage(group_consumer_max_size=1)
    stage.come("m1", instance_id="i")
    answer = stage.come("m2")
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert stage.beat("m1", 2).error_code == 0
    # An instance id of an active member cannot be used by another member.
    assert stage.come("m3", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    stage.beat("m1", -2, instance_id="i")
    assert stage.come("m3", instance_id="i").error_code == 0


@pytest.mark.parametrize("new_id", ["s1", "s2"])
def test_rejoining_static_member_keeps_its_assignment(new_id):
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("s1", instance_id="i1")
    response = stage.come("s2", instance_id="i1")
    assert response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert response.error_message == (
        "Static member s2 with instance id i1 cannot join the group because the instance id is owned by s1 member."
    )
    away = stage.beat("s1", -2, instance_id="i1")
    assert (away.error_code, away.member_epoch, away.heartbeat_interval_ms) == (0, -2, 0)
    assert stage.beat("s1", -2, instance_id="i1").member_epoch == -2
    stage.come("other")  # partitions of the absent static member stay assigned until its session ends

    back = stage.come(new_id, instance_id="i1", software="franz 1")

    assert (back.error_code, back.member_id) == (0, new_id)
    assert set(stage.assignment_in(back)) < {("t", p) for p in range(4)}
    assert [entry.epoch for entry in stage.entries(EpochRaised)] == [
        2,
        3,
    ]
    assert len(stage.entries(StaticAway)) == 2
    assert [(entry.old_member_id, entry.software) for entry in stage.entries(StaticReplaced)] == [("s1", "franz 1")]
    if new_id == "s2":
        fenced = stage.beat("s1", 3, instance_id="i1")
        assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
        assert fenced.error_message == "Static member s1 with instance id i1 was fenced by member s2."
        assert stage.beat("s1", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    stage.restart()


def test_target_assignment_of_a_replaced_static_member_is_persisted_once():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("s1", instance_id="i1")
    stage.beat("s1", -2, instance_id="i1")
    record_count = len(stage.records())

    stage.come("s2", "t", "later", instance_id="i1")  # new group epoch with the same target assignment

    written = [record for record in stage.records()[record_count:] if isinstance(record, TargetWritten)]
    assert [(record.member_id, record.value is None) for record in written] == [("s1", True), ("s2", False)]


def test_absent_static_member_expires_after_its_session_timeout():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("s1", instance_id="i1")
    stage.beat("s1", -2, instance_id="i1")
    stage.advance(44_999)
    stage.come("m2")
    stage.advance(1)

    assert stage.assignment_in(stage.beat("m2", 3)) == [("t", p) for p in range(4)]
    assert stage.entries(EpochRaised)[-1].cause.event == "session_expired"


def test_created_deleted_or_extended_topics_raise_the_group_epoch():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", "t", "later")
    stage.topics.make("t", 5)
    assert ("t", 4) in stage.assignment_in(stage.beat("m1", 2))
    stage.topics.make("later", 1)
    assert ("later", 0) in stage.assignment_in(stage.beat("m1", 3))
    stage.topics.make("not asked for", 1)
    assert stage.beat("m1", 4).member_epoch == 4
    stage.restart()
    assert stage.beat("m1", 4).member_epoch == 4  # the topic hash is persisted
    assert [entry.cause.event for entry in stage.entries(EpochRaised)] == [
        "member_joined",
        "topics_changed",
        "topics_changed",
    ]


def test_target_assignment_uses_the_assignor_that_most_members_prefer():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", "t", "u")
    answer = stage.beat("m1", 2, server_assignor="range")
    assert answer.member_epoch == 3
    assert stage.entries(EpochRaised)[-1].cause.assignor == "range"


def test_consumer_group_replaces_an_empty_classic_group_or_a_group_with_only_offsets():
    stage = CoordinatorStage()
    stage.commit({("t", 0): 5})
    assert stage.come("m1").error_code == 0
    member_id, _ = stage.enter(group="h")
    stage.leave(member_id, group="h")
    assert stage.come("m1", group="h").error_code == 0
    stage.restart()
