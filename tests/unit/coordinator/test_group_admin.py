"""DescribeGroups, ListGroups and DeleteGroups requests."""

import pytest

from kohort.coordinator.journal import GroupDeleted
from kohort.coordinator.records import GroupWritten, OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import GROUP, RANGE


def describe(stage, *groups: str, version: int = 6):
    return stage.answer(stage.ask(DescribeGroupsRequest(groups=list(groups)), version)).groups


def list_groups(stage, states=(), types=(), version: int = 5):
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    return {g.group_id: g for g in stage.answer(stage.ask(request, version)).groups}


def delete(stage, *groups: str):
    response = stage.answer(stage.ask(DeleteGroupsRequest(groups_names=list(groups)), 2, client_id="admin"))
    return {r.group_id: r.error_code for r in response.results}


class TestDescribeGroups:
    def test_describe_groups_response_shows_metadata_and_assignments_of_a_stable_group(self, stage):
        (a,), _ = stage.stable(1, client_id="app")

        assert describe(stage, GROUP) == [
            DescribedGroup(
                group_id=GROUP,
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[
                    DescribedGroupMember(
                        member_id=a,
                        client_id="app",
                        client_host="/127.0.0.1",
                        member_metadata=RANGE[0][1],
                        member_assignment=assignment(("t", 0)),
                    )
                ],
            )
        ]

    def test_describe_groups_response_shows_assignments_without_metadata_of_a_rebalancing_group(self, stage):
        (a, b), _ = stage.stable(2)
        stage.join(a)

        (group,) = describe(stage, GROUP)

        assert (group.group_state, group.protocol_type, group.protocol_data) == ("PreparingRebalance", "consumer", "")
        assert [(m.member_id, m.member_metadata, m.member_assignment) for m in group.members] == [
            (a, b"", assignment(("t", 0))),
            (b, b"", assignment(("t", 1))),
        ]

    def test_describe_groups_response_shows_a_group_without_members_as_empty(self, stage):
        stage.commit({("t", 0): 1}, group="simple")

        assert describe(stage, "simple") == [DescribedGroup(group_id="simple", group_state="Empty")]

    def test_describe_groups_request_returns_authorized_operations_if_requested(self, stage):
        stage.stable(1)
        request = DescribeGroupsRequest(groups=[GROUP, "nobody"], include_authorized_operations=True)

        operations = {v: [g.authorized_operations for g in stage.answer(stage.ask(request, v)).groups] for v in (5, 6)}

        assert operations == {5: [3400, 3400], 6: [3400, -(2**31)]}
        assert describe(stage, GROUP)[0].authorized_operations == -(2**31)

    @pytest.mark.parametrize("version", [0, 5])
    def test_describe_groups_request_up_to_v5_shows_an_unknown_group_as_dead(self, stage, version):
        assert describe(stage, "nobody", version=version) == [DescribedGroup(group_id="nobody", group_state="Dead")]

    def test_describe_groups_request_returns_group_id_not_found_since_v6(self, stage):
        (group,) = describe(stage, "nobody")

        assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        assert "nobody" in group.error_message

    def test_describe_groups_response_has_a_result_for_each_group(self, stage):
        stage.stable(1)

        codes = [g.error_code for g in describe(stage, "", GROUP)]

        assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]

    def test_describe_groups_request_returns_not_coordinator_for_groups_of_other_brokers(self, stage):
        stage.unload()

        (group,) = describe(stage, GROUP, version=6)
        assert group.error_code == ErrorCode.NOT_COORDINATOR
        assert group.error_message
        assert [g.error_message for g in describe(stage, GROUP, version=5)] == [None]
        assert stage.answer(stage.ask(DescribeGroupsRequest(groups=[]), 0)) == DescribeGroupsResponse()


class TestListGroups:
    @pytest.fixture
    def stage(self, stage):
        stage.stable(1, group="stable")
        stage.commit({("t", 0): 1}, group="simple")
        (a,), _ = stage.stable(1, group="empty")
        stage.leave(a, group="empty")
        return stage

    def test_list_groups_request_returns_every_group_with_type_and_state(self, stage):
        assert list_groups(stage) == {
            name: ListedGroup(group_id=name, protocol_type=protocol, group_state=state, group_type="classic")
            for name, protocol, state in [
                ("stable", "consumer", "Stable"),
                ("simple", "", "Empty"),
                ("empty", "consumer", "Empty"),
            ]
        }

    @pytest.mark.parametrize(
        ("states", "types", "names"),
        [
            ([" sTable "], [], {"stable"}),
            (["Empty", "Stable"], [], {"stable", "simple", "empty"}),
            (["Dead"], [], set()),
            (["nonsense"], [], set()),
            ([], ["CLASSIC"], {"stable", "simple", "empty"}),
            ([], ["consumer"], set()),
            ([], [" classic"], set()),
            ([], ["nonsense", "classic"], {"stable", "simple", "empty"}),
            (["stable"], ["classic"], {"stable"}),
        ],
    )
    def test_list_groups_request_returns_only_groups_of_the_requested_state_and_type(self, stage, states, types, names):
        assert list_groups(stage, states, types).keys() == names

    def test_list_groups_request_is_refused_while_a_consumer_offsets_partition_is_loading(self, stage):
        stage.unload()
        stage.coordinator.start_loading(0)

        response = stage.answer(stage.ask(ListGroupsRequest(), 5))

        assert response == ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def test_list_groups_response_omits_groups_of_other_coordinators(self, stage):
        stage.unload()

        assert stage.answer(stage.ask(ListGroupsRequest(), 5)) == ListGroupsResponse()


class TestDeleteGroups:
    def test_delete_groups_request_removes_an_empty_group_and_its_offsets_in_one_append(self, stage):
        (a,), _ = stage.stable(1)
        stage.leave(a)
        stage.commit({("t", 0): 1})
        before = len(stage.records())

        assert delete(stage, GROUP) == {GROUP: ErrorCode.NONE}

        assert stage.records()[before:] == [OffsetCommitted(GROUP, "t", 0, None), GroupWritten(GROUP, None)]
        assert list_groups(stage) == {}
        (entry,) = stage.entries(GroupDeleted)
        assert (entry.why, entry.by.client_id) == ("deleted", "admin")

    def test_delete_groups_response_has_only_one_result_for_a_repeated_group_id(self, stage):
        stage.stable(1)

        assert delete(stage, "", "nobody", GROUP, "nobody") == {
            "": ErrorCode.GROUP_ID_NOT_FOUND,
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
            GROUP: ErrorCode.NON_EMPTY_GROUP,
        }

    def test_delete_groups_request_removes_pending_member_ids(self, stage):
        pending = stage.answer(stage.join()).member_id

        assert delete(stage, GROUP) == {GROUP: ErrorCode.NONE}

        assert stage.answer(stage.join(pending)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_failed_append_of_delete_groups_request_keeps_the_group(self, stage):
        stage.commit({("t", 0): 1})
        stage.refuse_with = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

        assert delete(stage, GROUP) == {GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}

        assert list_groups(stage).keys() == {GROUP}
        assert stage.entries(GroupDeleted) == []

    def test_delete_groups_request_returns_not_coordinator_for_groups_of_other_brokers(self, stage):
        stage.unload()
        request = DeleteGroupsRequest(groups_names=["x"])

        assert stage.answer(stage.ask(request, 2)) == DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id="x", error_code=ErrorCode.NOT_COORDINATOR)]
        )
