"""OffsetFetch and OffsetCommit in each version."""

from __future__ import annotations

import pytest

from kohort.client.group.membership import NO_GENERATION, Generation
from kohort.client.group.offset_messages import build_commit, build_fetch, commit_errors, fetched_offsets, shape_fetch
from kohort.errors import ErrorCode
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

ORDERS = TopicPartition("orders", 3)
IDS = {"orders": b"o" * 16}


def test_committed_offset_of_topic_id_is_returned_under_topic_name():
    request = build_fetch("g", NO_GENERATION, [ORDERS], IDS)
    partition = OffsetFetchResponsePartitions(partition_index=3, committed_offset=5, committed_leader_epoch=1)
    topic = OffsetFetchResponseTopics(topic_id=b"o" * 16, partitions=[partition])
    answer = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])

    code, found = fetched_offsets(request, answer)

    assert code is ErrorCode.NONE
    assert found[ORDERS].committed == OffsetAndMetadata(5, "", 1)


def test_commit_error_of_topic_id_is_returned_under_topic_name():
    request = build_commit("g", NO_GENERATION, None, {ORDERS: OffsetAndMetadata(5)}, IDS)
    refused = OffsetCommitResponsePartition(partition_index=3, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic_id=b"o" * 16, partitions=[refused])])

    assert commit_errors(request, answer) == {ORDERS: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize(("version", "stable"), [(1, False), (6, False), (7, True)])
def test_offset_fetch_request_before_version_8_has_one_group(version: int, stable: bool):
    request = build_fetch("g", NO_GENERATION, [ORDERS], IDS)

    assert shape_fetch(request, version) == OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[3])], require_stable=stable
    )


def test_offset_fetch_request_from_version_8_has_group_list():
    request = build_fetch("g", Generation(7, "m"), [ORDERS], IDS)

    assert shape_fetch(request, 8) is request
    (group,) = request.groups
    assert (group.group_id, group.member_id, group.member_epoch) == ("g", "m", 7)


@pytest.mark.parametrize(
    ("offset", "epoch", "committed"),
    [
        (0, 0, OffsetAndMetadata(0, "", 0)),
        (5, 2, OffsetAndMetadata(5, "", 2)),
        (5, -1, OffsetAndMetadata(5, "", -1)),
        (5, -9, OffsetAndMetadata(5, "", -1)),
        (-1, -1, None),
    ],
)
def test_committed_offset_is_none_only_if_negative(offset: int, epoch: int, committed: OffsetAndMetadata | None):
    partition = OffsetFetchResponsePartition(
        partition_index=3, committed_offset=offset, committed_leader_epoch=epoch, metadata=None
    )
    topic = OffsetFetchResponseTopic(name="orders", partitions=[partition])
    request = build_fetch("g", NO_GENERATION, [ORDERS], IDS)

    code, found = fetched_offsets(request, OffsetFetchResponse(topics=[topic]))

    assert code is ErrorCode.NONE
    assert found[ORDERS].committed == committed
