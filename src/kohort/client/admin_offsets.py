"""Where partitions begin and end, and where a time lies in them: ListOffsets, asked of each partition's leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.client.admin import Ask, Operation, Pause, Results, passes
from kohort.client.admin_model import ListedOffset
from kohort.client.admin_topics import cluster
from kohort.client.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, KohortError, UsageError, error_code
from kohort.model import TopicPartition
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.metadata import MetadataResponse

SPECIAL: Final = {"latest": -1, "earliest": -2, "max_timestamp": -3}
"""Places by name; ``max_timestamp`` needs ListOffsets v7 (Kafka 3.0)."""
ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}
ROUNDS: Final = 10
"""How often partitions whose leader moves are looked for again before their error is told."""


def list_offsets(
    metadata: Metadata, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str
) -> Operation[Results[TopicPartition, ListedOffset]]:
    """An offset per partition: ``"earliest"``, ``"latest"``, ``"max_timestamp"``, or the first at or after a time."""
    times = {tp: timestamp_of(tp, place) for tp, place in wanted.items()}
    results: Results[TopicPartition, ListedOffset] = Results()
    pending: dict[TopicPartition, KohortError | None] = dict.fromkeys(times)
    for attempt in range(1, ROUNDS + 1):
        response = yield from cluster(metadata, sorted({tp.topic for tp in pending}))
        by_leader = _by_leader(response, pending, results)
        asks = [
            Ask(_request({tp: times[tp] for tp in tps}, isolation_level), node_id) for node_id, tps in by_leader.items()
        ]
        answers = yield asks
        for tps, answer in zip(by_leader.values(), answers, strict=True):
            if isinstance(answer, KohortError):
                pending |= dict.fromkeys(tps, answer)
            else:
                _read(answer, pending, results)
        if not pending:
            return results
        if not all(error is None or error.retriable for error in pending.values()):
            break
        yield Pause(attempt)
    for tp, error in pending.items():
        results.refuse(tp, error or ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)))
    return results


def timestamp_of(tp: TopicPartition, place: int | str) -> int:
    """The number that stands for a place. Raises UsageError for anything but a known name or a time."""
    if isinstance(place, str):
        if place not in SPECIAL:
            raise UsageError(f"{tp}: {place!r} is no place; expected {', '.join(SPECIAL)} or a time in milliseconds")
        return SPECIAL[place]
    if place < 0:
        raise UsageError(f"{tp}: {place} is no time in milliseconds since 1970")
    return place


def _by_leader(
    response: MetadataResponse,
    pending: dict[TopicPartition, KohortError | None],
    results: Results[TopicPartition, ListedOffset],
) -> dict[int, list[TopicPartition]]:
    """Partitions by leader; those that do not exist are refused, those without a leader stay pending."""
    errors = {t.name: t.error_code for t in response.topics}
    leaders = {(t.name, p.partition_index): p.leader_id for t in response.topics for p in t.partitions}
    grouped: dict[int, list[TopicPartition]] = {}
    for tp in list(pending):
        code = error_code(errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if code is ErrorCode.NONE and tp not in leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is not ErrorCode.NONE and not passes(code):
            del pending[tp]
            results.refuse(tp, ApiError(code, str(tp)))
        elif leaders.get(tp, -1) >= 0:
            grouped.setdefault(leaders[tp], []).append(tp)
    return grouped


def _request(times: Mapping[TopicPartition, int], isolation_level: str) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, timestamp in times.items():
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp))
    return ListOffsetsRequest(replica_id=-1, isolation_level=ISOLATION[isolation_level], topics=list(topics.values()))


def _read(
    answer: ListOffsetsResponse,
    pending: dict[TopicPartition, KohortError | None],
    results: Results[TopicPartition, ListedOffset],
) -> None:
    for topic in answer.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            if passes(p.error_code):
                pending[tp] = ApiError(error_code(p.error_code), str(tp))
                continue
            pending.pop(tp, None)
            results.add_or_refuse(tp, ListedOffset(p.offset, p.timestamp, p.leader_epoch), p.error_code)
