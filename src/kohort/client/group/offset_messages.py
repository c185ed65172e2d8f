"""OffsetCommit and OffsetFetch messages: topics by name up to version 9, by id from version 10 (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kohort.client.group.membership import Generation
from kohort.errors import ErrorCode, error_code
from kohort.model import NO_EPOCH, NO_UUID, OffsetAndMetadata, TopicPartition, by_topic
from kohort.wire.messages import offsets as wire
from kohort.wire.schema import Message

BY_NAME_COMMIT: Final = 9
BY_NAME_FETCH: Final = 9
GROUPS_FROM: Final = 8
REQUIRE_STABLE_FROM: Final = 7

TopicIds = Mapping[str, bytes | None]


class FetchedOffset(NamedTuple):
    committed: OffsetAndMetadata | None
    code: ErrorCode


def build_commit(
    group_id: str,
    generation: Generation,
    group_instance_id: str | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: TopicIds,
) -> wire.OffsetCommitRequest:
    topics = [
        wire.OffsetCommitRequestTopic(
            name=topic,
            topic_id=ids.get(topic) or NO_UUID,
            partitions=[commit_partition(number, offsets[TopicPartition(topic, number)]) for number in numbers],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    return wire.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def commit_partition(number: int, offset: OffsetAndMetadata) -> wire.OffsetCommitRequestPartition:
    return wire.OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def commit_errors(
    request: wire.OffsetCommitRequest, response: wire.OffsetCommitResponse
) -> dict[TopicPartition, ErrorCode]:
    """Return the error codes of an OffsetCommit response by partition; topic names are those of the request."""
    names = {topic.topic_id: topic.name for topic in request.topics}
    found: dict[TopicPartition, ErrorCode] = {}
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            if partition.error_code:
                found[TopicPartition(name, partition.partition_index)] = error_code(partition.error_code)
    return found


def build_fetch(
    group_id: str, generation: Generation, partitions: Iterable[TopicPartition], ids: TopicIds
) -> wire.OffsetFetchRequest:
    topics = [
        wire.OffsetFetchRequestTopics(name=topic, topic_id=ids.get(topic) or NO_UUID, partition_indexes=numbers)
        for topic, numbers in by_topic(partitions).items()
    ]
    group = wire.OffsetFetchRequestGroup(
        group_id=group_id, member_id=generation.member_id or None, member_epoch=generation.generation_id, topics=topics
    )
    return wire.OffsetFetchRequest(groups=[group], require_stable=True)


def shape_fetch(request: Message, version: int) -> Message:
    """Rewrite OffsetFetch for old versions: one group below version 8, no ``require_stable`` below version 7."""
    assert isinstance(request, wire.OffsetFetchRequest)
    if version >= GROUPS_FROM:
        return request
    group = request.groups[0]
    return wire.OffsetFetchRequest(
        group_id=group.group_id,
        topics=[
            wire.OffsetFetchRequestTopic(name=t.name, partition_indexes=t.partition_indexes) for t in group.topics or []
        ],
        require_stable=request.require_stable and version >= REQUIRE_STABLE_FROM,
    )


def fetched_offsets(
    request: wire.OffsetFetchRequest, response: wire.OffsetFetchResponse
) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
    """Return the error code of an OffsetFetch response, and each partition's committed offset.

    The request maps topic ids to names: metadata may have lost the topic, and a missing name would reset the partition.
    """
    names = {topic.topic_id: topic.name for group in request.groups for topic in group.topics or []}
    found: dict[TopicPartition, FetchedOffset] = {}
    if response.groups:
        group = response.groups[0]
        for topic in group.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for p in topic.partitions:
                found[TopicPartition(name, p.partition_index)] = _fetched(
                    p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
                )
        return error_code(group.error_code), found
    for old in response.topics:
        for q in old.partitions:
            found[TopicPartition(old.name, q.partition_index)] = _fetched(
                q.committed_offset, q.committed_leader_epoch, q.metadata, q.error_code
            )
    return error_code(response.error_code), found


def _fetched(offset: int, epoch: int, metadata: str | None, code: int) -> FetchedOffset:
    committed = None if offset < 0 else OffsetAndMetadata(offset, metadata or "", max(epoch, NO_EPOCH))
    return FetchedOffset(committed, error_code(code))
