"""Requests that describe, list or delete consumer groups (KIP-848)."""

import pytest

from kohort.coordinator.journal import GroupDeleted
from kohort.coordinator.records import (
    EpochWritten,
    OffsetCommitted,
    OldMetadataRemoved,
    RegexResolved,
    TargetEpochWritten,
)
from kohort.errors import ErrorCode
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeTopicPartitions,
)
from support.machines.coordinator_stage import GROUP
from support.machines.written_groups import T, epochs, member, resolved, write

NO_REQUEST = -(2**31)


def describe(stage, *groups, version=1, operations=False):
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    return stage.answer(stage.ask(request, version)).groups


def on_t(*partitions):
    of_t = ConsumerGroupDescribeTopicPartitions(topic_id=T, topic_name="t", partitions=list(partitions))
    return ConsumerGroupDescribeAssignment(topic_partitions=[of_t] if partitions else [])


def listed(stage, states=(), types=()):
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    return {
        g.group_id: (g.group_type, g.protocol_type, g.group_state) for g in stage.answer(stage.ask(request, 5)).groups
    }


def deleted(stage, *groups):
    response = stage.answer(stage.ask(DeleteGroupsRequest(groups_names=list(groups)), 2, client_id="admin"))
    return {r.group_id: r.error_code for r in response.results}


class TestConsumerGroupDescribe:
    def test_consumer_group_describe_response_shows_pending_revocations_and_target_assignment(self, stage):
        write(
            stage,
            epochs(6),
            member("m1", 5, {T: {0: 5}}, pending={T: {1: 5}}, target={T: frozenset({0})}, rack_id="r"),
            member("m2", 6, target={T: frozenset({1})}, regex="t.*", names=(), instance_id="i"),
            member("m3", 6, classic=True),
        )

        (group,) = describe(stage, GROUP)

        def is_member(member_id, **shown):
            return ConsumerGroupDescribeMember(
                member_id=member_id, client_id="app", client_host="/127.0.0.1", **({"member_type": 1} | shown)
            )

        assert group == ConsumerGroupDescribeGroup(
            group_id=GROUP,
            group_state="Reconciling",
            group_epoch=6,
            assignment_epoch=6,
            assignor_name="uniform",
            members=[
                is_member(
                    "m1",
                    rack_id="r",
                    member_epoch=5,
                    subscribed_topic_names=["t"],
                    subscribed_topic_regex="",
                    assignment=on_t(0, 1),
                    target_assignment=on_t(0),
                ),
                is_member(
                    "m2", instance_id="i", member_epoch=6, subscribed_topic_regex="t.*", target_assignment=on_t(1)
                ),
                is_member("m3", member_epoch=6, subscribed_topic_names=["t"], subscribed_topic_regex="", member_type=0),
            ],
            authorized_operations=NO_REQUEST,
        )

    @pytest.mark.parametrize(
        ("records", "state"),
        [
            (epochs(5), "Empty"),
            (epochs(5, 4) + member("m", 4), "Assigning"),
            (epochs(5) + member("m", 4), "Reconciling"),
            (epochs(5) + member("m", 5, pending={T: {0: 4}}), "Reconciling"),
            (epochs(5) + member("m", 5), "Stable"),
        ],
    )
    def test_consumer_group_describe_response_shows_the_group_state(self, stage, records, state):
        write(stage, records)

        assert describe(stage, GROUP)[0].group_state == state
        assert listed(stage) == {GROUP: ("consumer", "consumer", state)}
        assert listed(stage, states=[f" {state.lower()}"]).keys() == {GROUP}
        assert listed(stage, states=["Dead"]) == {}

    def test_consumer_group_describe_response_begins_with_the_groups_that_have_an_error(self, stage):
        write(stage, epochs(5))
        stage.stable(1, group="old")

        groups = [(g.group_id, g.error_code, g.error_message) for g in describe(stage, GROUP, "old", "nobody", "")]

        missing = ErrorCode.GROUP_ID_NOT_FOUND
        assert groups == [
            ("old", missing, "Group old is not a consumer group."),
            ("nobody", missing, "Group nobody not found."),
            ("", ErrorCode.INVALID_GROUP_ID, None),
            (GROUP, 0, None),
        ]

    def test_consumer_group_describe_request_returns_authorized_operations_if_requested(self, stage):
        write(stage, epochs(5))

        authorized_operations = [g.authorized_operations for g in describe(stage, GROUP, "nobody", operations=True)]

        assert authorized_operations == [NO_REQUEST, 3400]

    def test_consumer_group_describe_response_omits_deleted_topics(self, stage):
        write(stage, epochs(5), member("m", 5, {T: {0: 5}}))
        stage.topics.delete("t")

        (shown,) = describe(stage, GROUP)[0].members

        assert (shown.assignment, shown.target_assignment) == (on_t(), on_t())

    def test_consumer_group_describe_request_returns_not_coordinator_for_groups_of_other_brokers(self, stage):
        stage.unload()

        assert [g.error_code for g in describe(stage, GROUP)] == [ErrorCode.NOT_COORDINATOR]


def test_list_groups_request_returns_only_groups_of_the_requested_type(stage):
    write(stage, epochs(5))
    stage.stable(1, group="old")

    assert listed(stage).keys() == {GROUP, "old"}
    assert listed(stage, types=["Consumer"]).keys() == {GROUP}
    assert listed(stage, types=["classic"]).keys() == {"old"}
    assert listed(stage, types=["share"]) == {}
    assert listed(stage, types=["consumer "]) == {}


@pytest.mark.parametrize(("version", "code", "text"), [(6, 69, "Group g is not a classic group."), (5, 0, None)])
def test_describe_groups_response_shows_a_consumer_group_as_not_found_or_dead(stage, version, code, text):
    write(stage, epochs(5), member("m", 5))

    (group,) = stage.answer(stage.ask(DescribeGroupsRequest(groups=[GROUP]), version)).groups

    assert (group.error_code, group.error_message, group.group_state) == (code, text, "Dead")


class TestDeleteGroups:
    def test_delete_groups_request_for_a_group_with_members_is_rejected(self, stage):
        write(stage, epochs(5), member("m", 5))

        assert deleted(stage, GROUP) == {GROUP: ErrorCode.NON_EMPTY_GROUP}

    def test_delete_groups_request_removes_an_empty_group_and_its_offsets(self, stage):
        write(stage, epochs(5), resolved({"t.*": ["t"]}))
        stage.commit({("t", 0): 1})
        before = len(stage.records())

        assert deleted(stage, GROUP, "nobody") == {GROUP: 0, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}

        assert stage.records()[before:] == [
            OffsetCommitted(GROUP, "t", 0, None),
            TargetEpochWritten(GROUP, None),
            RegexResolved(GROUP, "t.*", None),
            OldMetadataRemoved(GROUP),
            EpochWritten(GROUP, None),
        ]
        assert [(entry.why, entry.by.client_id) for entry in stage.entries(GroupDeleted)] == [("deleted", "admin")]
        assert listed(stage) == {}
        stage.restart()
        assert listed(stage) == {}
