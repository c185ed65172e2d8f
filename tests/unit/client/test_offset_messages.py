"""Answers to OffsetFetch and OffsetCommit that name topics by id: what an id stood for when it was asked."""

from __future__ import annotations

from kohort.client.group.membership import NO_GENERATION
from kohort.client.group.offset_messages import build_commit, build_fetch, commit_errors, fetched_offsets
from kohort.errors import ErrorCode
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ORDERS = TopicPartition("orders", 3)
IDS = {"orders": b"o" * 16}


def test_an_offset_that_is_answered_by_id_is_that_of_the_topic_that_was_asked_for():
    request = build_fetch("g", NO_GENERATION, [ORDERS], IDS)
    partition = OffsetFetchResponsePartitions(partition_index=3, committed_offset=5, committed_leader_epoch=1)
    topic = OffsetFetchResponseTopics(topic_id=b"o" * 16, partitions=[partition])
    answer = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])

    code, found = fetched_offsets(request, answer)

    assert code is ErrorCode.NONE
    assert found[ORDERS].committed == OffsetAndMetadata(5, "", 1)


def test_a_refused_commit_that_is_answered_by_id_names_its_topic():
    request = build_commit("g", NO_GENERATION, None, {ORDERS: OffsetAndMetadata(5)}, IDS)
    refused = OffsetCommitResponsePartition(partition_index=3, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic_id=b"o" * 16, partitions=[refused])])

    assert commit_errors(request, answer) == {ORDERS: ErrorCode.UNKNOWN_TOPIC_ID}
