"""OffsetCommit and OffsetFetch messages: topic names up to version 9, topic ids from version 10 on (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kohort.client.group.membership import Generation
from kohort.errors import ErrorCode, UnsupportedVersion, error_code
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
    """Return the error code of each partition in an OffsetCommit response.

    Topic names come from the request, because the response may have topic ids only.
    """
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
    """Rewrite OffsetFetch for old versions.

    A request below version 8 has a single group; for several groups UnsupportedVersion is raised (KIP-709). A request
    below version 7 has no ``require_stable``.
    """
    assert isinstance(request, wire.OffsetFetchRequest)
    if version >= GROUPS_FROM:
        return request
    if len(request.groups) > 1:
        raise UnsupportedVersion(
            f"OffsetFetch version {version} takes one group per request; several groups need version 8 (Kafka 3.0)"
        )
    group, topics = request.groups[0], None
    if group.topics is not None:
        topics = [
            wire.OffsetFetchRequestTopic(name=t.name, partition_indexes=t.partition_indexes) for t in group.topics
        ]
    require_stable = request.require_stable and version >= REQUIRE_STABLE_FROM
    return wire.OffsetFetchRequest(group_id=group.group_id, topics=topics, require_stable=require_stable)


def fetched_offsets(
    request: wire.OffsetFetchRequest, response: wire.OffsetFetchResponse
) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
    """Return the error code of an OffsetFetch response, and the committed offset of each partition.

    Topic names come from the request, because metadata may no longer contain the topic. Without a name the position
    would be reset.
    """
    names = {topic.topic_id: topic.name for group in request.groups for topic in group.topics or []}
    found: dict[TopicPartition, FetchedOffset] = {}
    source: Any = (
        response.groups[0] if response.groups else response
    )  # below version 8 the response has one group and no list of groups
    for topic in source.topics:
        name = topic.name or names.get(getattr(topic, "topic_id", NO_UUID), "")
        for p in topic.partitions:
            epoch = max(p.committed_leader_epoch, NO_EPOCH)
            offset = OffsetAndMetadata(p.committed_offset, p.metadata or "", epoch) if p.committed_offset >= 0 else None
            found[TopicPartition(name, p.partition_index)] = FetchedOffset(offset, error_code(p.error_code))
    return error_code(source.error_code), found
