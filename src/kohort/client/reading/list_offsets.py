"""ListOffsets requests of a consumer: for start offsets, end offsets, and offsets by timestamp
(protocol/fetching.md#offsets-by-time).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import LEADER_ERRORS, Metadata
from kohort.client.requests.request_state import Backoff, TimedRequests, TimedRequestState, retry_backoff
from kohort.client.requests.source import IDLE, Poll, Promise, Unsent
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiTimeout, ErrorCode, KohortError, error_code
from kohort.model import NO_EPOCH, TopicPartition, by_topic
from kohort.wire.messages import list_offsets as wire
from kohort.wire.schema import Message

LATEST: Final = -1
EARLIEST: Final = -2
CONSUMER: Final = -1
ISOLATION_FROM: Final = 2
ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}

REFRESHED: Final = LEADER_ERRORS | {
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}


class OffsetAndTimestamp(NamedTuple):
    """Offset and timestamp of the first record at or after a time. ``leader_epoch`` is -1 if unknown."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = NO_EPOCH


def by_leader(
    targets: Mapping[TopicPartition, int], metadata: Metadata
) -> tuple[dict[int, dict[TopicPartition, int]], list[TopicPartition]]:
    grouped: dict[int, dict[TopicPartition, int]] = {}
    leaderless: list[TopicPartition] = []
    for partition, timestamp in targets.items():
        leader = metadata.leader(partition)
        if leader is None:
            leaderless.append(partition)
        else:
            grouped.setdefault(leader.node_id, {})[partition] = timestamp
    return grouped, leaderless


def build_list_offsets(
    node_id: int, targets: Mapping[TopicPartition, int], config: ConsumerConfig, metadata: Metadata
) -> Unsent:
    """Build a ListOffsets request for ``targets`` to the node that leads their partitions.

    The context of the request is ``targets``.
    """
    topics = []
    for topic, numbers in by_topic(targets).items():
        partitions = []
        for number in numbers:
            leader = metadata.leader(TopicPartition(topic, number))
            partitions.append(
                wire.ListOffsetsPartition(
                    partition_index=number,
                    current_leader_epoch=NO_EPOCH if leader is None else leader.epoch,
                    timestamp=targets[TopicPartition(topic, number)],
                )
            )
        topics.append(wire.ListOffsetsTopic(name=topic, partitions=partitions))
    request = wire.ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=ISOLATION_LEVELS[config.isolation_level],
        topics=topics,
        timeout_ms=config.request_timeout_ms,
    )
    return Unsent(node_id, request, config.request_timeout_ms, context=targets, shape=_shape)


def listed_offsets(response: wire.ListOffsetsResponse) -> dict[TopicPartition, tuple[ErrorCode, OffsetAndTimestamp]]:
    """Return error code and offset of each partition in a ListOffsets response. Offset -1: no matching record."""
    return {
        TopicPartition(topic.name, p.partition_index): (
            error_code(p.error_code),
            OffsetAndTimestamp(p.offset, p.timestamp, p.leader_epoch),
        )
        for topic in response.topics
        for p in topic.partitions
    }


def _shape(request: Message, version: int) -> Message:
    assert isinstance(request, wire.ListOffsetsRequest)
    if version >= ISOLATION_FROM:
        return request
    return wire.ListOffsetsRequest(replica_id=request.replica_id, topics=request.topics)


Listed = dict[TopicPartition, OffsetAndTimestamp | None]


class _Query(TimedRequestState):
    """Offset query of a user call. It sends ListOffsets to the leaders until each partition has a result."""

    def __init__(self, targets: Mapping[TopicPartition, int], backoff: Backoff, deadline_ms: int) -> None:
        super().__init__(backoff, deadline_ms)
        self.open = dict(targets)
        self.promise: Promise[Listed] = Promise()
        self.found: Listed = {}


class OffsetQueries:
    def __init__(self, config: ConsumerConfig, metadata: Metadata, rng: Rng) -> None:
        self._config = config
        self._metadata = metadata
        self._backoff = retry_backoff(config, rng)
        self._queries: TimedRequests[_Query] = TimedRequests()

    def query(self, targets: Mapping[TopicPartition, int], deadline_ms: int) -> Promise[Listed]:
        query = _Query(targets, self._backoff, deadline_ms)
        for topic in {p.topic for p in targets}:
            self._metadata.add_topic(topic)
        if targets:
            self._queries.add(query)
        else:
            query.promise.resolve({})
        return query.promise

    def poll(self, now_ms: int) -> Poll:
        if not self._queries:
            return IDLE
        for late in self._queries.take_expired(now_ms):
            names = ", ".join(map(str, late.open))
            late.promise.fail(ApiTimeout(f"the offsets of {names} could not be found in time"))
        unsent: list[Unsent] = []
        for query in self._queries.due(now_ms):
            grouped, leaderless = by_leader(query.open, self._metadata)
            if leaderless:
                for partition in leaderless:
                    self._metadata.add_topic(partition.topic)
                if self._is_refused(query, leaderless):
                    continue
                self._metadata.request_refresh()
            for node_id, targets in grouped.items():
                request = build_list_offsets(node_id, targets, self._config, self._metadata)
                request.context = query
                unsent.append(query.sent(request))
        return Poll(unsent, self._queries.wake_at_ms(now_ms))

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, wire.ListOffsetsResponse)
        query: _Query = sent.context
        query.ended(sent)
        is_refused = False
        for partition, (code, listed) in listed_offsets(response).items():
            if code is ErrorCode.NONE:
                query.open.pop(partition, None)
                query.found[partition] = listed if listed.offset >= 0 else None
            elif code in REFRESHED or code.retriable:
                is_refused = True
            elif code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                query.open.pop(partition, None)
                query.found[partition] = None
            else:
                self._end(query, answer_error(self._config, code, f"the offsets of {partition}", name=partition.topic))
        if is_refused:
            self._metadata.request_refresh()
            query.failed(now_ms)
        if not query.open:
            self._end(query, None)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        query: _Query = sent.context
        query.ended(sent)
        if error.retriable:
            query.failed(now_ms)
        else:
            self._end(query, error)

    def _is_refused(self, query: _Query, leaderless: Iterable[TopicPartition]) -> bool:
        for partition in leaderless:
            code = self._metadata.error(partition.topic)
            if code is not None and not code.retriable:
                what = f"the offsets of {partition}"
                self._end(query, answer_error(self._config, code, what, name=partition.topic))
                return True
        return False

    def _end(self, query: _Query, error: KohortError | None) -> None:
        self._queries.discard(query)
        if error is None:
            query.promise.resolve(query.found)
        else:
            query.promise.fail(error)
