"""Descriptions of consumer groups and classic groups."""

from __future__ import annotations

import random

import pytest

from kohort import TopicPartition
from kohort.client.admin.groups import describe_groups
from kohort.client.admin.operations import AdminMachine
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.clock import ManualClock
from kohort.config.client import AdminConfig
from kohort.errors import ErrorCode
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.group_admin import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import ScriptedBroker

ONE = ("one", 9092)
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
DESCRIBE, CONSUMER_GROUP_DESCRIBE, FIND_COORDINATOR = 15, 69, 10


def on_t(*numbers):
    of_t = ConsumerGroupDescribeTopicPartitions(topic_name="t", partitions=list(numbers))
    return ConsumerGroupDescribeAssignment(topic_partitions=[of_t] if numbers else [])


def of_t(*numbers):
    return tuple(TopicPartition("t", number) for number in numbers)


MODERN = ConsumerGroupDescribeGroup(
    group_id="modern",
    group_state="Reconciling",
    group_epoch=8,
    assignment_epoch=7,
    assignor_name="uniform",
    members=[
        ConsumerGroupDescribeMember(
            member_id="m1",
            instance_id="i",
            rack_id="r",
            member_epoch=6,
            client_id="c1",
            client_host="/h1",
            subscribed_topic_names=["t"],
            subscribed_topic_regex="",
            assignment=on_t(2, 0, 1),
            target_assignment=on_t(0),
            member_type=0,
        ),
        ConsumerGroupDescribeMember(
            member_id="m2",
            member_epoch=7,
            client_id="c2",
            client_host="/h2",
            subscribed_topic_regex="t.*",
            target_assignment=on_t(1, 2),
            member_type=1,
        ),
    ],
)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        self.broker = ScriptedBroker()
        self.broker.ranges[FIND_COORDINATOR] = (0, 2)
        here = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)])
        self.broker.on(MetadataRequest, lambda *_: here)
        found = FindCoordinatorResponse(node_id=1, host="one", port=9092)
        self.broker.on(FindCoordinatorRequest, lambda *_: found)
        self.broker.on(ConsumerGroupDescribeRequest, self.consumer_groups)
        self.broker.on(DescribeGroupsRequest, self.classic_groups)
        self.loop.serve(ONE, self.broker)
        config = AdminConfig(bootstrap_servers=["one:9092"])
        self.metadata = Metadata(config, random.Random(2))
        self.machine = AdminMachine(config, self.metadata, random.Random(3))
        self.loop.add(Engine(config, [self.machine], self.metadata, random.Random(4)))

    def consumer_groups(self, request, _version):
        def refused(group_id):
            text = f"Group {group_id} is not a consumer group."
            return ConsumerGroupDescribeGroup(group_id=group_id, error_code=NOT_FOUND, error_message=text)

        groups = [MODERN if group_id == "modern" else refused(group_id) for group_id in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)

    def classic_groups(self, request, version):
        groups = []
        for group_id in request.groups:
            described = DescribedGroup(
                group_id=group_id, group_state="Stable", protocol_type="connect", protocol_data="x"
            )
            if group_id != "old":
                described = DescribedGroup(group_id=group_id, group_state="Dead")
            if group_id != "old" and version >= 6:
                described.error_code, described.error_message = NOT_FOUND, f"Group {group_id} not found."
            groups.append(described)
        return DescribeGroupsResponse(groups=groups)

    def describe(self, *groups):
        operation = describe_groups(self.metadata, groups)
        promise = self.machine.start("describe_groups", operation, 10_000, self.clock.now_ms())
        self.loop.run_until(lambda: promise.done)
        return promise.result()


@pytest.fixture
def world() -> World:
    return World()


def test_describe_consumer_group_returns_epochs_and_target_assignments(world):
    group = world.describe("modern")["modern"]

    assert (group.group_type, group.state, group.protocol_type, group.assignor, group.coordinator_id) == (
        ("consumer", "Reconciling", "consumer", "uniform", 1)
    )
    assert (group.group_epoch, group.assignment_epoch) == (8, 7)
    first, second = group.members
    assert (first.member_id, first.group_instance_id, first.rack_id, first.client_id, first.client_host) == (
        ("m1", "i", "r", "c1", "/h1")
    )
    assert (first.member_type, first.member_epoch, first.topics, first.topic_regex) == ("classic", 6, ("t",), None)
    assert (first.assignment, first.target_assignment) == (of_t(2, 0, 1), of_t(0))
    assert (first.to_revoke, first.to_get) == (of_t(1, 2), ())
    assert (second.member_type, second.member_epoch, second.topics, second.topic_regex) == ("consumer", 7, (), "t.*")
    assert (second.group_instance_id, second.rack_id, second.to_revoke, second.to_get) == (None, None, (), of_t(1, 2))
    assert world.broker.requests(DescribeGroupsRequest) == []


def test_describe_groups_request_is_sent_after_failed_consumer_group_describe_request(world):
    group = world.describe("old")["old"]

    assert (group.group_type, group.protocol_type, group.assignor) == ("classic", "connect", "x")
    assert (group.group_epoch, group.assignment_epoch, group.members) == (-1, -1, ())
    assert [r.groups for r in world.broker.requests(DescribeGroupsRequest)] == [["old"]]
    assert len(world.broker.requests(FindCoordinatorRequest)) == 1


def test_describe_groups_returns_groups_of_both_types_and_error_of_missing_group(world):
    results = world.describe("old", "none", "modern")

    assert {g: results[g].group_type for g in ("old", "modern")} == {"old": "classic", "modern": "consumer"}
    assert results.errors["none"].code is NOT_FOUND
    assert str(results.errors["none"]) == "GROUP_ID_NOT_FOUND: group 'none': Group none not found."


def test_describe_groups_sends_few_requests_for_many_groups(world):
    world.broker.ranges[FIND_COORDINATOR] = (0, 4)

    def here(request, _version):
        found = [Coordinator(key=key, node_id=1, host="one", port=9092) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)

    world.broker.on(FindCoordinatorRequest, here)
    names = [f"g{i}" for i in range(450)]

    results = world.describe("modern", *names)

    assert (results["modern"].group_epoch, set(results.errors)) == (8, set(names))
    assert [len(r.coordinator_keys) for r in world.broker.requests(FindCoordinatorRequest)] == [451]
    assert [len(r.group_ids) for r in world.broker.requests(ConsumerGroupDescribeRequest)] == [200, 200, 51]
    assert [len(r.groups) for r in world.broker.requests(DescribeGroupsRequest)] == [200, 200, 50]


def test_describe_groups_reports_error_for_group_missing_in_response(world):
    world.broker.on(ConsumerGroupDescribeRequest, lambda *_: ConsumerGroupDescribeResponse(groups=[MODERN]))

    results = world.describe("modern", "left-out")

    assert results["modern"].group_epoch == 8
    assert str(results.errors["left-out"]) == "the response lacks a requested group"


def test_classic_group_on_cluster_with_disabled_consumer_protocol_is_described(world):
    def off(request, _version):
        refused = ErrorCode.UNSUPPORTED_VERSION
        groups = [ConsumerGroupDescribeGroup(group_id=name, error_code=refused) for name in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)

    world.broker.on(ConsumerGroupDescribeRequest, off)

    assert world.describe("old")["old"].group_type == "classic"


def test_classic_group_on_cluster_without_consumer_protocol_is_described(world):
    del world.broker.ranges[CONSUMER_GROUP_DESCRIBE]
    world.broker.ranges[DESCRIBE] = (0, 5)

    results = world.describe("old", "none")

    assert results["old"].group_type == "classic"
    assert results.errors["none"].code is NOT_FOUND
    assert world.broker.requests(ConsumerGroupDescribeRequest) == []


def test_consumer_group_describe_response_of_version_0_has_no_member_types(world):
    world.broker.ranges[CONSUMER_GROUP_DESCRIBE] = (0, 0)

    assert [m.member_type for m in world.describe("modern")["modern"].members] == ["", ""]


def test_describe_groups_request_is_not_sent_for_denied_group(world):
    denied = ConsumerGroupDescribeGroup(group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answer = ConsumerGroupDescribeResponse(groups=[denied])
    world.broker.on(ConsumerGroupDescribeRequest, lambda *_: answer)

    assert world.describe("g").errors["g"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert world.broker.requests(DescribeGroupsRequest) == []


def test_describe_groups_retries_loading_coordinator(world):
    codes = iter([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])

    def answer(request, version):
        code = next(codes, None)
        if code is None:
            return world.consumer_groups(request, version)
        return ConsumerGroupDescribeResponse(groups=[ConsumerGroupDescribeGroup(group_id="modern", error_code=code)])

    world.broker.on(ConsumerGroupDescribeRequest, answer)

    assert world.describe("modern")["modern"].group_epoch == 8
    assert len(world.broker.requests(ConsumerGroupDescribeRequest)) == 3


def test_describe_groups_returns_other_groups_despite_loading_coordinator(world):
    def answer(request, version):
        loading = ConsumerGroupDescribeGroup(group_id="slow", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        others = [group_id for group_id in request.group_ids if group_id != "slow"]
        described_groups = world.consumer_groups(ConsumerGroupDescribeRequest(group_ids=others), version).groups
        return ConsumerGroupDescribeResponse(
            groups=[*described_groups, *([loading] if "slow" in request.group_ids else [])]
        )

    world.broker.on(ConsumerGroupDescribeRequest, answer)
    began_ms = world.clock.now_ms()

    found = world.describe("modern", "slow")

    assert found["modern"].group_epoch == 8
    assert found.errors["slow"].code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.clock.now_ms() - began_ms < 5_000
    assert [len(r.group_ids) for r in world.broker.requests(ConsumerGroupDescribeRequest)] == [2, 1, 1, 1, 1, 1]


def test_describe_groups_returns_other_groups_despite_missing_coordinator(world):
    def answer(request, _version):
        (key,) = request.coordinator_keys or [request.key]
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if key == "slow" else ErrorCode.NONE
        return FindCoordinatorResponse(error_code=code, node_id=1, host="one", port=9092)

    world.broker.on(FindCoordinatorRequest, answer)

    found = world.describe("modern", "slow")

    assert found["modern"].group_epoch == 8
    assert found.errors["slow"].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
