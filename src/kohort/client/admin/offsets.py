"""Admin requests to partition leaders: ListOffsets and DeleteRecords."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from kohort.client.admin.model import ListedOffset, LogEnds
from kohort.client.admin.operations import Ask, Operation, Pause, Results, is_transient, run_together
from kohort.client.admin.topics import cluster
from kohort.client.reading.list_offsets import ISOLATION_LEVELS
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, KohortError, UsageError, error_code
from kohort.model import TopicPartition
from kohort.wire.messages import list_offsets as offset_wire
from kohort.wire.messages import topics as topic_wire
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.schema import Message

V = TypeVar("V")

ROUNDS: Final = 10


def ask_leaders(
    metadata: Metadata,
    partitions: Iterable[TopicPartition],
    request: Callable[[Iterable[TopicPartition]], Message],
    found: Callable[[Any], Iterable[tuple[TopicPartition, V, int]]],
) -> Operation[Results[TopicPartition, V]]:
    results: Results[TopicPartition, V] = Results()
    pending: dict[TopicPartition, KohortError | None] = dict.fromkeys(partitions)
    for attempt in range(1, ROUNDS + 1):
        response = yield from cluster(metadata, sorted({tp.topic for tp in pending}))
        by_leader = by_leader_of(response, pending, results)
        answers = yield [Ask(request(tps), node_id) for node_id, tps in by_leader.items()]
        for tps, answer in zip(by_leader.values(), answers, strict=True):
            if isinstance(answer, KohortError):
                pending |= dict.fromkeys(tps, answer)
                continue
            for tp, value, code in found(answer):
                if is_transient(code):
                    pending[tp] = ApiError(error_code(code), str(tp))
                else:
                    pending.pop(tp, None)
                    results.add_or_refuse(tp, value, code)
        if not pending:
            return results
        if not all(error is None or error.retriable for error in pending.values()):
            break
        yield Pause(attempt)
    for tp, error in pending.items():
        results.refuse(tp, error or ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)))
    return results


def by_leader_of(
    response: MetadataResponse, pending: dict[TopicPartition, KohortError | None], results: Results[TopicPartition, V]
) -> dict[int, list[TopicPartition]]:
    """Group partitions by the node id of their leader.

    A missing partition fails. A partition without a leader stays in ``pending``.
    """
    errors = {t.name: t.error_code for t in response.topics}
    leaders = {(t.name, p.partition_index): p.leader_id for t in response.topics for p in t.partitions}
    grouped: dict[int, list[TopicPartition]] = {}
    for tp in list(pending):
        code = error_code(errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if code is ErrorCode.NONE and tp not in leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is not ErrorCode.NONE and not is_transient(code):
            del pending[tp]
            results.refuse(tp, ApiError(code, str(tp)))
        elif leaders.get(tp, -1) >= 0:
            grouped.setdefault(leaders[tp], []).append(tp)
    return grouped


NAMED_OFFSETS: Final = {"latest": -1, "earliest": -2, "max_timestamp": -3}
"""Timestamp in ListOffsets that stands for each special offset. ``max_timestamp`` needs version 7 (Kafka 3.0)."""
HIGH_WATERMARK: Final = -1


def list_offsets(
    metadata: Metadata, targets: Mapping[TopicPartition, int | str], *, isolation_level: str
) -> Operation[Results[TopicPartition, ListedOffset]]:
    """Return one offset for each partition in ``targets``.

    A target is ``"earliest"``, ``"latest"``, ``"max_timestamp"``, or a timestamp in ms. For a timestamp, return the
    offset of the first record with that timestamp or a later one.
    """
    times = {tp: timestamp_of(tp, place) for tp, place in targets.items()}

    def request(partitions: Iterable[TopicPartition]) -> offset_wire.ListOffsetsRequest:
        topics: dict[str, offset_wire.ListOffsetsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, offset_wire.ListOffsetsTopic(name=tp.topic))
            topic.partitions.append(offset_wire.ListOffsetsPartition(partition_index=tp.partition, timestamp=times[tp]))
        level = ISOLATION_LEVELS[isolation_level]
        return offset_wire.ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=list(topics.values()))

    def found(answer: offset_wire.ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListedOffset, int]]:
        for topic in answer.topics:
            for p in topic.partitions:
                listed = ListedOffset(p.offset, p.timestamp, p.leader_epoch)
                yield TopicPartition(topic.name, p.partition_index), listed, p.error_code

    return (yield from ask_leaders(metadata, times, request, found))


def list_ends(metadata: Metadata, partitions: Iterable[TopicPartition]) -> Operation[Results[TopicPartition, LogEnds]]:
    targets = list(dict.fromkeys(partitions))
    starts, stable_ends, ends = yield from run_together(
        [
            list_offsets(metadata, dict.fromkeys(targets, "earliest"), isolation_level="read_uncommitted"),
            list_offsets(metadata, dict.fromkeys(targets, "latest"), isolation_level="read_committed"),
            list_offsets(metadata, dict.fromkeys(targets, "latest"), isolation_level="read_uncommitted"),
        ]
    )
    results: Results[TopicPartition, LogEnds] = Results()
    for tp in targets:
        error = starts.errors.get(tp) or stable_ends.errors.get(tp) or ends.errors.get(tp)
        if error is not None:
            results.refuse(tp, error)
        else:
            results.add(tp, LogEnds(starts[tp].offset, stable_ends[tp].offset, ends[tp].offset))
    return results


def delete_records(
    metadata: Metadata, before: Mapping[TopicPartition, int | str], *, timeout_ms: int
) -> Operation[Results[TopicPartition, int]]:
    offsets = {tp: _offset_of(tp, place) for tp, place in before.items()}

    def request(partitions: Iterable[TopicPartition]) -> topic_wire.DeleteRecordsRequest:
        topics: dict[str, topic_wire.DeleteRecordsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, topic_wire.DeleteRecordsTopic(name=tp.topic))
            topic.partitions.append(topic_wire.DeleteRecordsPartition(partition_index=tp.partition, offset=offsets[tp]))
        return topic_wire.DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)

    def found(answer: topic_wire.DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, int]]:
        for topic in answer.topics:
            for p in topic.partitions:
                yield TopicPartition(topic.name, p.partition_index), p.low_watermark, p.error_code

    return (yield from ask_leaders(metadata, offsets, request, found))


def timestamp_of(tp: TopicPartition, place: int | str) -> int:
    if isinstance(place, str):
        if place not in NAMED_OFFSETS:
            raise UsageError(f"{tp}: expected {', '.join(NAMED_OFFSETS)} or a time in milliseconds, not {place!r}")
        return NAMED_OFFSETS[place]
    if place < 0:
        raise UsageError(f"{tp}: expected a time in milliseconds since 1970, not {place}")
    return place


def _offset_of(tp: TopicPartition, place: int | str) -> int:
    if place == "latest":
        return HIGH_WATERMARK
    if isinstance(place, str) or place < 0:
        raise UsageError(f"{tp}: expected 'latest' or an offset of at least 0, not {place!r}")
    return place
