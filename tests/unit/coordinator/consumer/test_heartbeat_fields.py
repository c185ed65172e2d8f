"""ConsumerGroupHeartbeat fields that a member may change after it joined."""

import pytest

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.coordinator.journal import EpochRaised, TargetComputed
from kohort.coordinator.records import MemberWritten
from kohort.errors import ErrorCode, UsageError
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeGroup, ConsumerGroupDescribeRequest
from support.machines.coordinator_stage import CoordinatorStage, Topics


@pytest.fixture
def stage() -> CoordinatorStage:
    return CoordinatorStage(group_consumer_assignment_interval_ms=0)


def member_records(stage: CoordinatorStage, member_id: str = "m1") -> list[MemberWritten]:
    return [r for r in stage.records() if isinstance(r, MemberWritten) and r.member_id == member_id]


def described(stage: CoordinatorStage) -> ConsumerGroupDescribeGroup:
    (group,) = stage.answer(stage.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups
    assert isinstance(group, ConsumerGroupDescribeGroup)
    return group


CHANGES = {
    "rebalance_timeout_ms": 70_000,
    "server_assignor": "range",
    "rack_id": "r2",
    "client_id": "app 2",
    "client_host": "/10.0.0.2",
    "subscribed_topic_names": ["t", "u"],
    "subscribed_topic_regex": "u.*",
}


@pytest.mark.parametrize(("what", "value"), CHANGES.items(), ids=CHANGES.keys())
def test_heartbeat_with_one_changed_field_keeps_the_other_fields(stage, what, value):
    stage.come("m1", instance_id="i", rack_id="r1", server_assignor="uniform")
    (first,) = member_records(stage)

    stage.beat("m1", 2, **{what: value})

    _, second = member_records(stage)
    names = [field.name for field in first.value.FIELDS]
    changed = {name for name in names if getattr(first.value, name) != getattr(second.value, name)}
    assert (changed, getattr(second.value, what)) == ({what}, value)


def test_heartbeat_without_changes_persists_nothing(stage):
    stage.come("m1", "u", "t", instance_id="i", rack_id="r1", server_assignor="uniform")

    stage.beat("m1", 2)
    stage.beat("m1", 2, rebalance_timeout_ms=60_000)
    stage.beat("m1", 2, subscribed_topic_names=["t", "u", "t"], rack_id="r1", server_assignor="uniform")
    stage.beat("m1", 2, instance_id="i", subscribed_topic_regex="")

    assert len(member_records(stage)) == 1


def test_heartbeat_with_a_shorter_rebalance_timeout_shortens_the_revocation_deadline(stage):
    stage.come("m1")
    stage.beat("m1", 2, rebalance_timeout_ms=5_000)
    stage.come("m2")
    stage.beat("m1", 2)  # the member must revoke two partitions

    stage.advance(4_999)
    assert stage.beat("m1", 2).error_code == 0
    stage.advance(1)

    assert stage.entries(EpochRaised)[-1].cause.event == "revocation_timeout"


def test_consumer_group_describe_response_shows_the_latest_client_id_and_host(stage):
    stage.come("m1")
    stage.beat("m1", 2, client_host="/10.0.0.2")

    (member,) = described(stage).members

    assert (member.client_id, member.client_host) == ("app", "/10.0.0.2")


def test_member_with_a_changed_pattern_revokes_topics_that_no_longer_match():
    stage = CoordinatorStage(topics=Topics(t=2, u=1), group_consumer_assignment_interval_ms=0)
    stage.come("m1", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    assert stage.assignment_in(stage.beat("m1", 1)) == [("t", 0), ("t", 1)]

    answer = stage.beat("m1", 2, subscribed_topic_regex="u.*")

    assert (answer.member_epoch, stage.assignment_in(answer)) == (2, [])


def test_heartbeat_with_a_changed_client_id_keeps_epoch_and_assignment(stage):
    epoch = stage.come("m1", subscribed_topic_names=[]).member_epoch
    written = stage.appended

    assert stage.beat("m1", epoch, client_id="app 2").error_code == 0

    assert stage.appended == written + 1, "one append: member metadata, no assignment record"


class TestAssignors:
    def test_consumer_group_uses_the_assignor_that_most_members_prefer(self, stage):
        for member_id, assignor in (("m1", "range"), ("m2", "range"), ("m3", "uniform")):
            stage.come(member_id, server_assignor=assignor)

        assert described(stage).assignor_name == "range"
        stage.beat("m1", -1)
        stage.beat("m2", -1)
        assert described(stage).assignor_name == "uniform"

    def test_change_of_the_preferred_assignor_raises_the_group_epoch_once(self, stage):
        for member_id, assignor in (("m1", "range"), ("m2", "range"), ("m3", "uniform")):
            stage.come(member_id, server_assignor=assignor)

        stage.beat("m1", 2, server_assignor="uniform")
        assert stage.beat("m3", 4, server_assignor="uniform").error_code == 0

        causes = [entry.cause for entry in stage.entries(EpochRaised)]
        assert [(cause.event, cause.assignor) for cause in causes] == [
            ("member_joined", None),
            ("member_joined", None),
            ("member_joined", None),
            ("assignor_changed", "uniform"),
        ]

    def test_changed_assignor_preference_keeps_the_group_epoch_if_the_majority_stays_the_same(self, stage):
        for member_id in ("m1", "m2"):
            stage.come(member_id, server_assignor="range")

        stage.beat("m1", 2, server_assignor="uniform")

        raised = [entry.cause.event for entry in stage.entries(EpochRaised)]
        assert raised.count("assignor_changed") == (described(stage).assignor_name == "uniform")

    def test_consumer_group_without_preferred_assignor_uses_the_first_assignor_of_the_broker(self, stage):
        stage.come("m1")
        assert described(stage).assignor_name == "uniform"

        stage.come("m2", server_assignor="range")

        assert described(stage).assignor_name == "range"


@pytest.mark.parametrize("order", [("range", "uniform"), ("uniform", "range")])
def test_tied_assignor_preferences_select_the_same_assignor_at_every_heartbeat(stage, order):
    for member_id, assignor in zip(("m1", "m2"), order, strict=True):
        stage.come(member_id, server_assignor=assignor, instance_id=member_id)
    epochs_of = {"m1": 2, "m2": 3}
    for partitions, member_id in enumerate(("m1", "m2", "m1"), start=5):
        stage.topics.make("t", partitions)
        epochs_of[member_id] = stage.beat(member_id, epochs_of[member_id], []).member_epoch
    stage.topics.make("t", 9)
    stage.beat("m2", -2, instance_id="m2")
    stage.come("m3", instance_id="m2")

    last = [entry.assignor for entry in stage.entries(TargetComputed)][-4:]
    assert last == [described(stage).assignor_name] * 4


def test_heartbeat_returns_unknown_server_error_and_persists_nothing_if_the_assignor_fails(stage, monkeypatch):
    class Failing:
        name = "uniform"

        def steps(self, _members, _partition_counts, _pace):
            raise UsageError("assignor failed")

    monkeypatch.setitem(SERVER_ASSIGNORS, "uniform", Failing())

    answer = stage.come("m1")

    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.error_message == "Failed to compute a new target assignment for epoch 2: assignor failed"
    assert stage.records() == []


ALIKE = [("m3", [("t", 2)]), ("m4", [("u", 2)])]
NOT_ALIKE = [("m3", [("u", 2)]), ("m4", [("t", 2)])]


@pytest.mark.parametrize(
    ("names", "regex", "dealt"),
    [
        (["t", "u"], None, ALIKE),
        (["t", "u"], "", ALIKE),
        (["u", "t", "t"], None, ALIKE),
        (["t", "u", "none"], None, NOT_ALIKE),
        (["t", "u"], "t", NOT_ALIKE),
    ],
)
def test_uniform_assignor_treats_subscriptions_as_different_if_only_one_contains_an_unknown_topic(names, regex, dealt):
    stage = CoordinatorStage(topics=Topics(t=3, u=3), group_consumer_assignment_interval_ms=0)
    for member_id in ("m1", "m2", "m3"):
        stage.come(member_id, "t", "u")

    stage.come("m4", subscribed_topic_names=names, subscribed_topic_regex=regex)

    to_have = [
        (
            one.member_id,
            sorted((of.topic_name, p) for of in one.target_assignment.topic_partitions for p in of.partitions),
        )
        for one in described(stage).members
    ]
    assert to_have[2:] == dealt
