"""Table of the group APIs: checks, decision function and error response of each request type."""

from typing import Any

import pytest

from kohort.broker.dispatch import HANDLED
from kohort.broker.group_requests import group_request
from kohort.coordinator.api_table import GROUP_APIS, withdraw
from kohort.coordinator.outcome import GroupRequest, Reply
from kohort.errors import ErrorCode
from kohort.wire.apis import APIS
from kohort.wire.codec import encode_bytes
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.transactions import TxnOffsetCommitRequest

KINDS = [pytest.param(kind, id=kind.__name__) for kind in GROUP_APIS]


def request_of(kind, version):
    return GroupRequest(kind(), version, "client", "/127.0.0.1", reply_to=None)


def test_api_table_has_exactly_the_apis_that_the_broker_passes_to_the_coordinator():
    commit_in_transaction = {TxnOffsetCommitRequest}
    submitted = {api.request for api in HANDLED.values() if api.handle is group_request}

    assert submitted | commit_in_transaction == set(GROUP_APIS)


@pytest.mark.parametrize("kind", KINDS)
def test_api_table_builds_an_error_response_for_each_api_and_version(kind):
    api = APIS[kind.API_KEY]
    for version in range(api.low, api.high + 1):
        request = request_of(kind, version)

        answer = GROUP_APIS[kind].refuse(request, ErrorCode.NOT_COORDINATOR)

        assert answer.request is request
        assert isinstance(answer.message, api.response)
        assert encode_bytes(answer.message, version)


def test_heartbeat_succeeds_while_the_group_is_loading():
    answer: Any = GROUP_APIS[HeartbeatRequest].refuse(
        request_of(HeartbeatRequest, 4), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )

    assert answer.message.error_code == ErrorCode.NONE


def test_failed_append_of_an_offset_commit_keeps_the_errors_of_invalid_partitions():
    partitions = [OffsetCommitResponsePartition(partition_index=i, error_code=code) for i, code in enumerate((0, 3))]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="a", partitions=partitions)])

    answer: Any = withdraw(Reply(request_of(OffsetCommitRequest, 8), response), ErrorCode.NOT_COORDINATOR)

    codes = [p.error_code for p in answer.message.topics[0].partitions]
    assert codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_only_requests_that_read_groups_are_answered_without_creating_consumer_offsets():
    asking = {kind.__name__.removesuffix("Request") for kind, api in GROUP_APIS.items() if api.read_only}

    assert asking == {"OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe", "ListGroups"}
