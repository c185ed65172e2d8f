"""What each partition's leader is asked: where it begins and ends, where a time lies in it (ListOffsets), and to begin
later (DeleteRecords)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kohort.client.admin.leaders import of_leaders
from kohort.client.admin.model import ListedOffset, LogEnds
from kohort.client.admin.operations import Operation, Results, together
from kohort.client.requests.metadata import Metadata
from kohort.errors import UsageError
from kohort.model import TopicPartition
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

SPECIAL: Final = {"latest": -1, "earliest": -2, "max_timestamp": -3}
"""Places by name; ``max_timestamp`` needs ListOffsets v7 (Kafka 3.0)."""
ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}
HIGH_WATERMARK: Final = -1


def list_offsets(
    metadata: Metadata, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str
) -> Operation[Results[TopicPartition, ListedOffset]]:
    """Return an offset per partition: ``"earliest"``, ``"latest"``, ``"max_timestamp"``, or the first at or after a
    time."""
    times = {tp: timestamp_of(tp, place) for tp, place in wanted.items()}

    def request(partitions: Iterable[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
            topic.partitions.append(ListOffsetsPartition(partition_index=tp.partition, timestamp=times[tp]))
        level = ISOLATION[isolation_level]
        return ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=list(topics.values()))

    def found(answer: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListedOffset, int]]:
        for topic in answer.topics:
            for p in topic.partitions:
                listed = ListedOffset(p.offset, p.timestamp, p.leader_epoch)
                yield TopicPartition(topic.name, p.partition_index), listed, p.error_code

    return (yield from of_leaders(metadata, times, request, found))


def list_ends(metadata: Metadata, partitions: Iterable[TopicPartition]) -> Operation[Results[TopicPartition, LogEnds]]:
    """Return where each partition begins and ends, for readers of both isolation levels; asked for at the same time."""
    wanted = list(dict.fromkeys(partitions))
    answers: list[Results[TopicPartition, ListedOffset]] = yield from together(
        [
            list_offsets(metadata, dict.fromkeys(wanted, "earliest"), isolation_level="read_uncommitted"),
            list_offsets(metadata, dict.fromkeys(wanted, "latest"), isolation_level="read_committed"),
            list_offsets(metadata, dict.fromkeys(wanted, "latest"), isolation_level="read_uncommitted"),
        ]
    )
    results: Results[TopicPartition, LogEnds] = Results()
    for tp in wanted:
        error = next((answer.errors[tp] for answer in answers if tp in answer.errors), None)
        if error is not None:
            results.refuse(tp, error)
        else:
            results.add(tp, LogEnds(*(answer[tp].offset for answer in answers)))
    return results


def delete_records(
    metadata: Metadata, before: Mapping[TopicPartition, int | str], *, timeout_ms: int
) -> Operation[Results[TopicPartition, int]]:
    """Move the beginning of partitions up to these offsets (KIP-107); the results say where they begin now."""
    offsets = {tp: _offset_of(tp, place) for tp, place in before.items()}

    def request(partitions: Iterable[TopicPartition]) -> DeleteRecordsRequest:
        topics: dict[str, DeleteRecordsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, DeleteRecordsTopic(name=tp.topic))
            topic.partitions.append(DeleteRecordsPartition(partition_index=tp.partition, offset=offsets[tp]))
        return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)

    def found(answer: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, int]]:
        for topic in answer.topics:
            for p in topic.partitions:
                yield TopicPartition(topic.name, p.partition_index), p.low_watermark, p.error_code

    return (yield from of_leaders(metadata, offsets, request, found))


def timestamp_of(tp: TopicPartition, place: int | str) -> int:
    """Return the number that stands for a place. Raises UsageError for anything but a known name or a time."""
    if isinstance(place, str):
        if place not in SPECIAL:
            raise UsageError(f"{tp}: {place!r} is no place; expected {', '.join(SPECIAL)} or a time in milliseconds")
        return SPECIAL[place]
    if place < 0:
        raise UsageError(f"{tp}: {place} is no time in milliseconds since 1970")
    return place


def _offset_of(tp: TopicPartition, place: int | str) -> int:
    """Return the number that stands for an offset. Raises UsageError for anything but "latest" or an offset."""
    if place == "latest":
        return HIGH_WATERMARK
    if isinstance(place, str) or place < 0:
        raise UsageError(f"{tp}: {place!r} is no offset; expected one from 0 on, or 'latest'")
    return place
