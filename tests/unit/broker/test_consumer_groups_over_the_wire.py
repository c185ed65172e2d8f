"""Consumer groups (KIP-848) by frames: a growing topic, a restart."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from kohort.wire.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from support.machines.broker_stage import BrokerStage


class Member:
    """Member of group g with a subscription to topic a."""

    def __init__(self, stage, name):
        self.wire = stage.connect()
        self.name = name
        self.epoch = 0
        self.owned = []

    def beat(self, **fields):
        if not self.epoch:
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["a"], "topic_partitions": []} | fields
        elif "epoch" not in fields:
            topic = ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.wire.topic_id("a"), partitions=self.owned
            )
            fields["topic_partitions"] = [topic]
        epoch = fields.pop("epoch", self.epoch)
        message = ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.name, member_epoch=epoch, **fields)
        answer = self.wire.ask(message, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = [p for topic in answer.assignment.topic_partitions for p in topic.partitions]
        return answer


@pytest.fixture
def members(stage):
    """Members ann and ben; each has one of the two partitions."""
    ann, ben = Member(stage, "ann"), Member(stage, "ben")
    ann.wire.create("a", 2)
    for member in (ann, ben, ann, ben):
        member.beat()
        stage.advance(1_000)
    ann.beat()
    ben.beat()
    assert (ann.owned, ben.owned) == ([0], [1])
    return ann, ben


def test_added_partitions_are_assigned_to_consumer_group_members(stage, members):
    ann, ben = members
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=4, assignments=None)], timeout_ms=1_000
    )
    assert ann.wire.ask(more, 3).results[0].error_code == 0
    stage.advance(1_000)

    ann.beat()
    ben.beat()

    assert sorted(ann.owned + ben.owned) == [0, 1, 2, 3]
    assert len(ann.owned) == len(ben.owned) == 2


@pytest.mark.parametrize("cleanly", [True, False])
def test_assignment_of_a_consumer_group_survives_a_restart(stage, members, cleanly):
    epochs = [member.epoch for member in members]

    stage.restart(cleanly=cleanly)

    for member in members:
        member.wire = stage.connect()
        assert member.beat().error_code == ErrorCode.NONE
    assert [member.epoch for member in members] == epochs
    assert [member.owned for member in members] == [[0], [1]]


def test_revoked_partitions_are_assigned_in_the_next_heartbeat(stage, members):
    ann, ben = members
    assert ann.beat(epoch=-1).member_epoch == -1
    stage.advance(1_000)

    ben.beat()

    assert ben.owned == [0, 1]


@pytest.mark.parametrize("protocols", [["classic", "consumer"], ["classic"]])
def test_disabled_consumer_protocol_is_not_advertised(protocols):
    peer = BrokerStage(group_coordinator_rebalance_protocols=protocols).connect()
    answer = peer.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)

    is_on = "consumer" in protocols
    assert (68 in {api.api_key for api in answer.api_keys}) == is_on
    assert ("group.version" in {feature.name for feature in answer.finalized_features}) == is_on
