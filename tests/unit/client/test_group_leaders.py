"""Leader of a classic group, and the subscription metadata that members send."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kohort.assignors.builtin import assignors_named
from kohort.assignors.spec import Assignor, MemberSubscription, SubscribedTopics, no_user_data
from kohort.client.group.member_messages import GroupLeader, MemberMessages
from kohort.client.group.membership import Generation
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.config.client import ConsumerConfig
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Subscription, build_subscription, parse_subscription
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponseMember
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort_lab.machines.scripted import SILENCE
from support.machines.consumer_stage import tp
from support.machines.scripted_group import ScriptedGroup

CONFIG = ConsumerConfig(bootstrap_servers=["one:9092"], group_id="g")


class Leading:
    def __init__(self) -> None:
        self.metadata = Metadata(CONFIG, random.Random(1))
        self.subscription = SubscriptionState(self.metadata)
        self.subscription.subscribe(["t"])
        self.received: list[MemberSubscription] = []
        assignor = Assignor("mine", self._assign, no_user_data)
        self.leader = GroupLeader({"mine": assignor}, self.metadata, self.subscription)
        self._now_ms = 0

    def _assign(
        self, topics: SubscribedTopics, members: Sequence[MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        self.received = list(members)
        return {members[0].member_id: topics.partitions("t")}

    def grows(self, partitions: int) -> None:
        self._now_ms += 1_000_000
        (sent,) = self.metadata.poll(self._now_ms).unsent
        found = [
            MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1]) for n in range(partitions)
        ]
        brokers = [MetadataResponseBroker(node_id=1, host="one", port=9092, rack="r1")]
        topics = [MetadataResponseTopic(name="t", partitions=found)]
        self.metadata.on_response(sent, MetadataResponse(brokers=brokers, topics=topics), self._now_ms)

    def elect(self, *subscriptions: Subscription) -> None:
        members = [
            JoinGroupResponseMember(member_id=f"m{n}", metadata=build_subscription(one))
            for n, one in enumerate(subscriptions)
        ]
        self.leader.resign()
        self.leader.elect("mine", members, skip_assignment=False, now_ms=0)


@pytest.mark.parametrize(("sent_generation", "generation"), [(-1, None), (0, 0), (1, 1), (7, 7)])
def test_generation_minus_one_in_subscription_metadata_means_no_generation(
    sent_generation: int, generation: int | None
):
    leading = Leading()
    leading.grows(1)
    leading.elect(Subscription(["t"], generation_id=sent_generation))

    leading.leader.assignments(0)

    assert [member.generation for member in leading.received] == [generation]


def test_assignment_is_out_of_date_after_partitions_were_added_until_next_assignment():
    leading = Leading()
    leading.grows(1)
    leading.elect(Subscription(["t"]))
    assert not leading.leader.is_out_of_date(), "the leader has made no assignment yet"
    leading.leader.assignments(0)
    assert not leading.leader.is_out_of_date()
    leading.grows(1)
    assert not leading.leader.is_out_of_date(), "new metadata have the same partitions"

    leading.grows(2)
    assert leading.leader.is_out_of_date()

    leading.elect(Subscription(["t"]))
    leading.leader.assignments(0)
    assert not leading.leader.is_out_of_date()
    leading.grows(3)
    assert leading.leader.is_out_of_date()


def test_rebootstrap_does_not_make_assignment_with_racks_out_of_date():
    leading = Leading()
    leading.grows(1)
    leading.elect(Subscription(["t"], rack_id="r1"))
    leading.leader.assignments(0)
    assert not leading.leader.is_out_of_date()

    leading.metadata.rebootstrap()
    assert not leading.leader.is_out_of_date()

    leading.grows(1)
    assert not leading.leader.is_out_of_date()


def test_former_group_leader_ignores_added_partitions():
    leading = Leading()
    leading.grows(1)
    leading.elect(Subscription(["t"]))
    leading.leader.assignments(0)

    leading.leader.resign()
    leading.grows(2)

    assert not leading.leader.is_out_of_date()


@pytest.mark.parametrize(
    ("strategies", "sent_partitions"),
    [
        (["cooperative-sticky"], ["t-0"]),
        (["range"], []),
        (["range", "cooperative-sticky"], []),
        (["cooperative-sticky", "range"], []),
    ],
)
def test_join_group_request_has_owned_partitions_only_if_all_assignors_are_cooperative(
    strategies: list[str], sent_partitions: list[str]
):
    subscription = SubscriptionState(Metadata(CONFIG, random.Random(1)))
    subscription.subscribe(["t"])
    subscription.assign_from_group([tp("t-0")])
    messages = MemberMessages(CONFIG, assignors_named(strategies), subscription)

    request = messages.join(Generation(5, "m"), ([tp("t-0")], 5), "as a test")

    owned = [parse_subscription(protocol.metadata).owned_partitions for protocol in request.protocols]
    assert owned == [[tp(text) for text in sent_partitions]] * len(strategies)


def test_join_group_request_times_out_five_seconds_after_rebalance_timeout():
    stage = ScriptedGroup()
    stage.then(JoinGroupRequest, SILENCE)
    user = stage.user("t", group_id="g", max_poll_interval_ms=50_000)
    user.poll()
    stage.loop.run_until(lambda: stage.sent(JoinGroupRequest))
    failed = user.machine.metrics.rebalances.failed

    stage.loop.run(54_999)
    assert failed.summary(stage.now_ms).total_count == 0

    stage.loop.run(1)
    assert failed.summary(stage.now_ms).total_count == 1
