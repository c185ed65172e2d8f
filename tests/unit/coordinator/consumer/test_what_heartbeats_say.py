"""What members of consumer groups say with later heartbeats: what is kept of it, and what it changes."""

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


def said(stage: CoordinatorStage, member_id: str = "m1") -> list[MemberWritten]:
    """What is on the log that a member said of itself."""
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
def test_one_thing_that_is_new_is_kept_and_the_rest_stays_as_it_was(stage, what, value):
    stage.come("m1", instance_id="i", rack_id="r1", server_assignor="uniform")
    (first,) = said(stage)

    stage.beat("m1", 2, **{what: value})

    _, second = said(stage)
    names = [field.name for field in first.value.FIELDS]
    changed = {name for name in names if getattr(first.value, name) != getattr(second.value, name)}
    assert (changed, getattr(second.value, what)) == ({what}, value)


def test_what_is_said_once_more_is_not_written_again(stage):
    stage.come("m1", "u", "t", instance_id="i", rack_id="r1", server_assignor="uniform")

    stage.beat("m1", 2)
    stage.beat("m1", 2, rebalance_timeout_ms=60_000)
    stage.beat("m1", 2, subscribed_topic_names=["t", "u", "t"], rack_id="r1", server_assignor="uniform")
    stage.beat("m1", 2, instance_id="i", subscribed_topic_regex="")

    assert len(said(stage)) == 1


def test_a_shorter_rebalance_timeout_that_is_said_later_is_the_one_that_holds(stage):
    stage.come("m1")
    stage.beat("m1", 2, rebalance_timeout_ms=5_000)
    stage.come("m2")
    stage.beat("m1", 2)  # told to give up two

    stage.advance(4_999)
    assert stage.beat("m1", 2).error_code == 0
    stage.advance(1)

    assert stage.entries(EpochRaised)[-1].cause.event == "revocation_timeout"


def test_who_is_described_is_described_as_it_came_last(stage):
    stage.come("m1")
    stage.beat("m1", 2, client_host="/10.0.0.2")

    (member,) = described(stage).members

    assert (member.client_id, member.client_host) == ("app", "/10.0.0.2")


def test_a_member_that_says_another_expression_gives_up_what_that_has_not_been_found_to_match():
    stage = CoordinatorStage(topics=Topics(t=2, u=1), group_consumer_assignment_interval_ms=0)
    stage.come("m1", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    assert stage.told(stage.beat("m1", 1)) == [("t", 0), ("t", 1)]

    answer = stage.beat("m1", 2, subscribed_topic_regex="u.*")

    assert (answer.member_epoch, stage.told(answer)) == (2, [])


def test_a_member_that_says_the_same_from_another_client_goes_on_as_it_was(stage):
    epoch = stage.come("m1", subscribed_topic_names=[]).member_epoch
    written = stage.appended

    assert stage.beat("m1", epoch, client_id="app 2").error_code == 0

    assert stage.appended == written + 1, "what it said, and no new beginning of its epoch"


class TestAssignors:
    def test_the_one_that_most_ask_for_is_the_groups_whoever_came_last(self, stage):
        for member_id, assignor in (("m1", "range"), ("m2", "range"), ("m3", "uniform")):
            stage.come(member_id, server_assignor=assignor)

        assert described(stage).assignor_name == "range"
        stage.beat("m1", -1)
        stage.beat("m2", -1)
        assert described(stage).assignor_name == "uniform"

    def test_it_changes_when_one_of_two_changes_its_mind_and_raises_the_epoch_once(self, stage):
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

    def test_a_vote_that_leaves_the_most_wanted_as_it_is_raises_no_epoch(self, stage):
        for member_id in ("m1", "m2"):
            stage.come(member_id, server_assignor="range")

        stage.beat("m1", 2, server_assignor="uniform")  # one for each: the first of Kafka's table

        raised = [entry.cause.event for entry in stage.entries(EpochRaised)]
        assert raised.count("assignor_changed") == (described(stage).assignor_name == "uniform")

    def test_who_asks_for_none_leaves_it_to_the_others_and_all_of_them_to_the_broker(self, stage):
        stage.come("m1")
        assert described(stage).assignor_name == "uniform"

        stage.come("m2", server_assignor="range")

        assert described(stage).assignor_name == "range"


@pytest.mark.parametrize("order", [("range", "uniform"), ("uniform", "range")])
def test_where_as_many_ask_for_each_the_target_is_of_the_same_whoever_has_it_computed(stage, order):
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


def test_an_assignor_that_fails_is_told_of_and_nothing_is_written(stage, monkeypatch):
    class Failing:
        name = "uniform"

        def steps(self, _members, _partition_counts, _pace):
            raise UsageError("it cannot be")

    monkeypatch.setitem(SERVER_ASSIGNORS, "uniform", Failing())

    answer = stage.come("m1")

    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.error_message == "Failed to compute a new target assignment for epoch 2: it cannot be"
    assert stage.records() == []


ALIKE = [("m3", [("t", 2)]), ("m4", [("u", 2)])]
NOT_ALIKE = [("m3", [("u", 2)]), ("m4", [("t", 2)])]
"""What the last two of four members are to have of t and u: if all subscribe alike, and if one of them does not."""


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
def test_who_subscribes_alike_is_dealt_to_alike_and_a_name_of_no_topic_makes_a_difference(names, regex, dealt):
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
