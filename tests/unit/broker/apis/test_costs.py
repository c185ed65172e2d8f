"""Cost of each API: requests with duplicate names, work in steps, size limits of responses."""

import inspect

import pytest

from kohort.broker.api import TOO_LARGE, AnswerBound, Cost, Parts
from kohort.broker.dispatch import HANDLED, SERVED
from kohort.broker.io import Tick
from kohort.coordinator.api_table import GROUP_APIS
from kohort.errors import ErrorCode
from kohort.steps import shortest_steps
from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest
from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    UserName,
)
from kohort.wire.messages.transactions import DescribeTransactionsRequest
from support.machines.broker_stage import BrokerStage
from support.machines.heavy_names import classic_group, consumer_group, offsets, write_groups

BY_API = {api.name: HANDLED[api.request].cost for api in SERVED.values()}


def finish(stage: BrokerStage) -> int:
    ticks = 0
    while stage.broker.long_work:
        stage.give(Tick())
        ticks += 1
    return ticks


def ask(stage: BrokerStage, message, version: int):
    peer = stage.connect()
    peer.send(message, version)
    ticks = finish(stage)
    answer = peer.take()
    assert answer is not None, peer.closed
    return answer, ticks


def field_at(message, path: str):
    of, found = message, None
    for name in path.split("."):
        found = next((field for field in of.FIELDS if field.name == name), None)
        assert found is not None, f"{message.__name__} has no field {path}"
        of = found.of
    return found


class TestDeclarations:
    @pytest.mark.parametrize("name", BY_API)
    def test_api_does_not_declare_both_parts_and_one_short_step(self, name):
        assert BY_API[name].parts is None or not BY_API[name].one_step

    @pytest.mark.parametrize("name", [n for n, cost in BY_API.items() if cost.parts is None and not cost.one_step])
    def test_handler_of_an_api_without_parts_and_short_step_is_a_generator(self, name):
        request = next(api.request for api in SERVED.values() if api.name == name)

        if request in GROUP_APIS:
            assert GROUP_APIS[request].read_only
        else:
            assert inspect.isgeneratorfunction(HANDLED[request].handle)

    @pytest.mark.parametrize("name", BY_API)
    def test_arrays_of_divided_requests_exist_in_request_and_response(self, name):
        api = next(api for api in SERVED.values() if api.name == name)
        cost: Cost = BY_API[name]

        for path in HANDLED[api.request].names:
            field_at(api.request, path)
        for parts in filter(None, (cost.parts, cost.older_parts and cost.older_parts[1])):
            assert field_at(api.request, ".".join(parts.request_path)).kind == "array"
            assert field_at(api.response, ".".join(parts.response_path)).kind == "array"

    @pytest.mark.parametrize("name", [name for name, cost in BY_API.items() if cost.answer is AnswerBound.UNREAD])
    def test_api_with_limited_response_size_can_return_an_error_for_each_entry(self, name):
        parts: Parts = BY_API[name].parts

        assert parts.refuse is not None
        assert not parts.writes


class TestDuplicateNames:
    @pytest.fixture
    def crowd(self) -> BrokerStage:
        """A broker with a consumer group and a classic group of 300 members each."""
        stage = BrokerStage()
        write_groups(stage, modern=consumer_group("modern", 300), classic=classic_group("classic", 300))
        return stage

    @pytest.mark.parametrize(
        ("group", "request_of", "version"),
        [
            ("modern", lambda names: ConsumerGroupDescribeRequest(group_ids=names), 1),
            ("classic", lambda names: DescribeGroupsRequest(groups=names), 6),
        ],
    )
    def test_duplicate_group_is_described_once(self, crowd, group, request_of, version):
        once, ticks_of_one = ask(crowd, request_of([group]), version)

        many, ticks_of_many = ask(crowd, request_of([group] * 4_000), version)

        assert [len(described.members) for described in many.groups] == [300]
        assert many == once
        assert ticks_of_many <= ticks_of_one + 5

    def test_duplicate_group_does_not_change_entries_of_other_groups(self, crowd):
        answer, _ = ask(crowd, DescribeGroupsRequest(groups=["classic", "x", "classic", "y", "x"]), 6)

        assert [described.group_id for described in answer.groups] == ["classic", "x", "y"]

    def test_all_offsets_of_a_duplicate_group_are_listed_once(self, crowd):
        groups = [OffsetFetchRequestGroup(group_id="modern", topics=None)] * 1_000

        answer, _ = ask(crowd, OffsetFetchRequest(groups=groups), 9)

        assert [group.group_id for group in answer.groups] == ["modern"]

    def test_duplicate_transactional_id_is_described_once(self, crowd):
        answer, _ = ask(crowd, DescribeTransactionsRequest(transactional_ids=["x"] * 5_000), 0)

        assert [found.error_code for found in answer.transaction_states] == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]

    def test_options_of_a_duplicate_topic_are_described_once(self, crowd):
        crowd.connect().create("t")
        topic = DescribeConfigsResource(resource_type=2, resource_name="t")
        one_option = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=["retention.ms"])

        answer, _ = ask(crowd, DescribeConfigsRequest(resources=[topic, one_option] * 1_000), 4)

        assert [len(found.configs) == 1 for found in answer.results] == [False, True]


class TestWorkInSteps:
    @pytest.mark.parametrize(
        ("records", "message", "version"),
        [
            (consumer_group("g", 50), ConsumerGroupDescribeRequest(group_ids=["g"]), 1),
            (classic_group("g", 50), DescribeGroupsRequest(groups=["g"]), 6),
        ],
    )
    def test_small_requests_are_served_while_a_large_group_is_described(self, records, message, version):
        stage = BrokerStage()
        write_groups(stage, g=records)
        peer, other = stage.connect(), stage.connect()

        served = 0
        with shortest_steps():
            peer.send(message, version)
            while stage.broker.long_work and peer.take() is None:
                stage.give(Tick())
                other.ask(HeartbeatRequest(group_id="other", member_id="m"), 4)
                served += 1

        assert served >= 50

    def test_member_that_leaves_while_its_group_is_described_is_in_the_response(self):
        stage = BrokerStage()
        write_groups(stage, g=classic_group("g", 20))
        peer, other = stage.connect(), stage.connect()
        with shortest_steps():
            peer.send(DescribeGroupsRequest(groups=["g"]), 6)
        leaving = [MemberIdentity(member_id="m19")]
        other.ask(LeaveGroupRequest(group_id="g", members=leaving), 5)

        finish(stage)

        (group,) = peer.take().groups
        assert (group.group_state, len(group.members)) == ("Stable", 20)

    def test_small_requests_are_served_while_groups_are_listed(self):
        stage = BrokerStage()
        write_groups(stage, **{f"g{n}": classic_group(f"g{n}", 1) for n in range(50)})

        with shortest_steps():
            answer, ticks = ask(stage, ListGroupsRequest(), 5)

        assert len(answer.groups) == 50
        assert ticks >= 50

    def test_small_requests_are_served_while_duplicate_names_are_dropped(self, stage):
        with shortest_steps():
            answer, ticks = ask(stage, DescribeGroupsRequest(groups=["x"] * 600), 6)

        assert [group.group_id for group in answer.groups] == ["x"]
        assert ticks >= 600

    def test_list_groups_reads_its_filters_once_instead_of_once_per_offsets_partition(self, stage):
        with shortest_steps():
            answer, ticks = ask(stage, ListGroupsRequest(states_filter=["Stable"] * 100), 5)

        assert answer.groups == []
        assert 100 <= ticks < 200

    @pytest.mark.parametrize(
        "message",
        [
            DescribeUserScramCredentialsRequest(users=[UserName(name=f"u{n}") for n in range(100)]),
            AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name=f"u{n}", mechanism=1) for n in range(100)]
            ),
        ],
    )
    def test_small_requests_are_served_while_scram_users_are_described_or_changed(self, stage, message):
        with shortest_steps():
            answer, ticks = ask(stage, message, 0)

        assert [result.user for result in answer.results] == [f"u{n}" for n in range(100)]
        assert ticks >= 100

    def test_small_requests_are_served_while_all_offsets_of_a_group_are_fetched(self):
        stage = BrokerStage()
        write_groups(stage, g=offsets("g", 50))

        with shortest_steps():
            answer, ticks = ask(stage, OffsetFetchRequest(group_id="g", topics=None), 7)

        assert len(answer.topics[0].partitions) == 50
        assert ticks >= 50


class TestLargestResponse:
    @pytest.fixture
    def stage(self) -> BrokerStage:
        """A broker that limits the response of DescribeGroups to 64 KiB, with groups of 40 KB each."""
        stage = BrokerStage(queued_max_request_bytes=128 << 10)
        write_groups(stage, **{f"g{n}": classic_group(f"g{n}", 10, metadata_bytes=4_000) for n in range(60)})
        return stage

    def test_describe_groups_beyond_the_response_limit_returns_errors(self, stage):
        answer, _ = ask(stage, DescribeGroupsRequest(groups=[f"g{n}" for n in range(60)] + ["x"] * 500), 6)

        codes = [group.error_code for group in answer.groups]
        described = codes.count(0)
        assert codes[:described] == [0] * described
        assert set(codes[described:]) == {TOO_LARGE}
        assert "queued.max.request.bytes" in answer.groups[-1].error_message
        assert [group.group_id for group in answer.groups] == [*(f"g{n}" for n in range(60)), "x"]

    def test_unfinished_response_counts_as_unread_until_it_is_sent(self, stage):
        peer = stage.connect()
        peer.send(DescribeGroupsRequest(groups=[f"g{n}" for n in range(60)] + [f"x{n}" for n in range(2_000)]), 6)
        unread = stage.broker.state.unread
        most = 0
        while stage.broker.long_work:
            stage.give(Tick())
            most = max(most, unread.held_bytes)

        for _ in range(5):
            stage.give(Tick())

        assert most > 64 << 10
        assert unread.held_bytes == 0
