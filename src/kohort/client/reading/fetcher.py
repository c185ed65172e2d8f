"""Fetches of a consumer and their responses (protocol/fetching.md#fetch-requests).

At most one fetch is in flight per node. It starts after a partition's buffered data, not at the user's position, so
that it runs while records are decoded. A node gets no fetch while its buffered data exceeds ``prefetch_bytes``. A
fetch omits each partition with ``PREFETCH_FETCHES`` full fetches in the buffer. Paused partitions keep their buffered
data, which does not count for the node. So the memory is bounded: for each node ``prefetch_bytes`` and one response,
for each paused partition a few fetches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from kohort.client.reading.context import ConsumerContext, ConsumerSource
from kohort.client.reading.fetch_sessions import FetchSession, PartitionFetch, SessionRequest
from kohort.client.reading.fetched import Fetched, span_of
from kohort.client.reading.list_offsets import ISOLATION_LEVELS
from kohort.client.reading.subscription import PartitionState
from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import LEADER_ERRORS
from kohort.client.requests.outages import READING
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Poll, Unsent
from kohort.errors import CorruptRecord, ErrorCode, KohortError, ProtocolError, error_code
from kohort.model import NO_UUID, Node, TopicPartition
from kohort.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kohort.wire.schema import Message

PREFETCH_BYTES: Final = 16 << 20
PREFETCH_FETCHES: Final = 4
BY_NAME: Final = 12
CLOSE_TIMEOUT_MS: Final = 1000

REFRESHED: Final = LEADER_ERRORS | {
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
RETRIED: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
InFlightPartitions = dict[TopicPartition, tuple[PartitionState, int, int, bytes]]
"""Partitions of an in-flight fetch, each with its state, position number (``run``), fetch offset and topic id."""

PartitionFilter = Callable[[TopicPartition], bool]


def any_partition(_partition: TopicPartition) -> bool:
    return True


class Fetcher(ConsumerSource):
    def __init__(
        self,
        context: ConsumerContext,
        out_of_range: Callable[[TopicPartition, PartitionState], None],
        *,
        prefetch_bytes: int = PREFETCH_BYTES,
    ) -> None:
        super().__init__(context)
        config = context.config
        self._backoff = retry_backoff(config, context.rng)
        self._out_of_range = out_of_range
        self._limit = min(prefetch_bytes, max(config.fetch_max_bytes, 1))
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: dict[int, Unsent] = {}
        self._leaders_for: tuple[dict[TopicPartition, PartitionState] | None, int] = (None, -1)
        self._leaders: set[int] = set()
        self._uses_followers = False
        self._failed: dict[int, RequestState] = {}
        """Back-off of each node after a failed fetch."""
        self._buffered: deque[Fetched] = deque()
        self._closing: list[Unsent] = []
        self._closed = False
        self._polled_for: dict[TopicPartition, PartitionState] | None = None

    @property
    def buffered_bytes(self) -> int:
        return sum(fetched.size for fetched in self._buffered)

    def has_ready(self, accepts: PartitionFilter = any_partition) -> bool:
        return any(self.is_ready(fetched) and accepts(fetched.partition) for fetched in self._buffered)

    def take(self, accepts: PartitionFilter = any_partition) -> Fetched | None:
        """Remove and return the oldest buffered data. Skip paused partitions, and drop data fetched before a seek."""
        for fetched in list(self._buffered):
            if self.is_dropped(fetched):
                self._buffered.remove(fetched)
            elif fetched.state.fetchable and accepts(fetched.partition):
                self._buffered.remove(fetched)
                return fetched
        return None

    def put_back(self, fetched: Fetched) -> None:
        self._buffered.appendleft(fetched)

    def is_dropped(self, fetched: Fetched) -> bool:
        return fetched.is_stale or self._subscription.assigned.get(fetched.partition) is not fetched.state

    def is_ready(self, fetched: Fetched) -> bool:
        return fetched.state.fetchable and not self.is_dropped(fetched)

    @property
    def has_seen_assignment(self) -> bool:
        """True if the request engine has polled the fetcher since the last change of the assignment."""
        return self._polled_for is self._subscription.assigned

    def poll(self, now_ms: int) -> Poll:
        self._polled_for = self._subscription.assigned
        unsent, self._closing = self._closing, []
        if self._closed or not self._subscription.assigned or self.all_leaders_busy():
            return Poll(unsent)
        wakes: list[int] = []
        for node_id, partitions in self._partitions_to_fetch(wakes, now_ms).items():
            failed = self._failed.get(node_id)
            if failed is not None and failed.retry_at_ms > now_ms:
                wakes.append(failed.retry_at_ms)
            else:
                unsent.append(self._fetch(node_id, partitions))
        return Poll(unsent, min(wakes, default=None))

    def close(self) -> None:
        self._closed = True
        self._buffered.clear()
        for node_id, session in self._sessions.items():
            # a fetch in flight would delay the request that closes the fetch session, so let the session expire
            if session.is_open and node_id not in self._in_flight:
                parts = session.build_close()
                self._closing.append(self._unsent(node_id, parts, by_name=not session.uses_ids, wait_ms=0, context={}))

    def all_leaders_busy(self) -> bool:
        """True while each leader of an assigned partition has a fetch in flight, and the consumer uses no followers.

        This runs after every read of bytes, so the set of leaders is cached.
        """
        assigned, version = self._subscription.assigned, self._metadata.version
        if self._leaders_for[0] is not assigned or self._leaders_for[1] != version:
            self._leaders_for = (assigned, version)
            leaders = [self._metadata.leader(p) for p in assigned]
            self._leaders = {-1 if leader is None else leader.node_id for leader in leaders}
        return self._leaders <= self._in_flight.keys() and not self._uses_followers

    def _partitions_to_fetch(self, wakes: list[int], now_ms: int) -> dict[int, dict[TopicPartition, PartitionFetch]]:
        buffered: dict[int, int] = {}
        buffered_of: dict[TopicPartition, int] = {}
        for fetched in self._buffered:
            buffered_of[fetched.partition] = buffered_of.get(fetched.partition, 0) + fetched.size
            if fetched.state.fetchable:
                buffered[fetched.node_id] = buffered.get(fetched.node_id, 0) + fetched.size
        partitions: dict[int, dict[TopicPartition, PartitionFetch]] = {}
        max_bytes = self._config.max_partition_fetch_bytes
        max_buffered = PREFETCH_FETCHES * max(max_bytes, 1)
        for partition, state in self._subscription.assigned.items():
            if not state.fetchable or state.stuck or buffered_of.get(partition, 0) >= max_buffered:
                continue
            if state.retry_at_ms > now_ms:
                wakes.append(state.retry_at_ms)
                continue
            leader = self._metadata.leader(partition)
            if leader is None:
                self._metadata.request_refresh()
                continue
            node_id = self._node(state, leader.node_id, now_ms)
            if node_id in self._in_flight or buffered.get(node_id, 0) >= self._limit:
                continue
            if state.leader is None:
                state.leader = leader
            topic_id = self._metadata.topic_id(partition.topic) or NO_UUID
            partitions.setdefault(node_id, {})[partition] = PartitionFetch(
                topic_id, state.fetch_offset, leader.epoch, max_bytes
            )
        return partitions

    def _node(self, state: PartitionState, leader_id: int, now_ms: int) -> int:
        if state.preferred_replica < 0:
            return leader_id
        if now_ms < state.preferred_until_ms and self._metadata.node(state.preferred_replica) is not None:
            return state.preferred_replica
        state.preferred_replica = -1
        return leader_id

    def _fetch(self, node_id: int, partitions: Mapping[TopicPartition, PartitionFetch]) -> Unsent:
        session = self._sessions.setdefault(node_id, FetchSession())
        parts = session.build(partitions)
        assigned = self._subscription.assigned
        fetched_from: InFlightPartitions = {
            p: (assigned[p], assigned[p].run, w.fetch_offset, w.topic_id) for p, w in partitions.items()
        }
        wait_ms = self._config.fetch_max_wait_ms
        unsent = self._unsent(node_id, parts, by_name=not session.uses_ids, wait_ms=wait_ms, context=fetched_from)
        self._in_flight[node_id] = unsent
        return unsent

    def _unsent(
        self, node_id: int, parts: SessionRequest, *, by_name: bool, wait_ms: int, context: InFlightPartitions
    ) -> Unsent:
        config = self._config
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=ISOLATION_LEVELS[config.isolation_level],
            session_id=parts.session_id,
            session_epoch=parts.session_epoch,
            topics=parts.topics,
            forgotten_topics_data=parts.forgotten,
            rack_id=config.client_rack,
        )
        cap = BY_NAME if by_name else None
        timeout_ms = CLOSE_TIMEOUT_MS if self._closed else config.request_timeout_ms + wait_ms
        return Unsent(node_id, request, timeout_ms, max_version=cap, context=context)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, FetchResponse)
        if self._in_flight.get(sent.node_id) is not sent:
            return
        del self._in_flight[sent.node_id]
        session = self._sessions[sent.node_id]
        if not session.take(response):
            self._back_off_node(sent.node_id, now_ms)
            return
        self._failed.pop(sent.node_id, None)
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        fetched_from: InFlightPartitions = sent.context
        size = 0
        again: list[PartitionState] = []
        for topic in response.responses:
            name = session.name_of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if partition not in fetched_from:
                    continue
                state, run, offset, topic_id = fetched_from[partition]
                if state.run != run or self._subscription.assigned.get(partition) is not state:
                    continue  # the user moved the position, or the partition was revoked, while the fetch was in flight
                if data.error_code:
                    if not self._refused(partition, state, data, nodes, now_ms):
                        again.append(state)
                else:
                    if topic_id != NO_UUID:
                        state.topic_id = topic_id
                    size += self._buffer_records(sent.node_id, partition, state, offset, data, now_ms)
        if again:
            self._back_off_partitions(again, now_ms)
        if size:
            self._metrics.fetched.record(size, now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if self._in_flight.get(sent.node_id) is not sent:
            return
        del self._in_flight[sent.node_id]
        self._sessions[sent.node_id].lost()
        fetched_from: InFlightPartitions = sent.context
        for state, *_ in fetched_from.values():
            if state.preferred_replica == sent.node_id:
                state.preferred_replica = -1
        self._metadata.request_refresh()
        self._back_off_node(sent.node_id, now_ms)
        # Do not raise an error for a node's first invalid response: bytes can be damaged in transit.
        is_first = self._failed[sent.node_id].failures == 1 and type(error) is ProtocolError
        if not error.retriable and not is_first:
            self._failures.append(error)

    def _back_off_node(self, node_id: int, now_ms: int) -> None:
        if node_id not in self._failed:
            self._failed[node_id] = RequestState(self._backoff)
        self._failed[node_id].failed(now_ms)

    def _back_off_partitions(self, states: list[PartitionState], now_ms: int) -> None:
        for state in states:
            state.refusals += 1
        retry_at_ms = now_ms + self._backoff.delay_ms(max(state.refusals for state in states))
        for state in states:
            state.retry_at_ms = retry_at_ms

    def _buffer_records(
        self,
        node_id: int,
        partition: TopicPartition,
        state: PartitionState,
        offset: int,
        data: PartitionData,
        now_ms: int,
    ) -> int:
        if self._outages:
            self._outages.recovered((READING, partition), f"{partition} can be read again", now_ms)
        state.refusals = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset if data.last_stable_offset >= 0 else data.high_watermark
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            self._uses_followers = True
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until_ms = now_ms + self._config.metadata_max_age_ms
        assert not isinstance(data.records, list), "read off the wire as one buffer"
        if not data.records:
            return 0
        span = span_of(data.records, offset)
        aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]
        fetched = Fetched(
            partition, state, state.run, node_id, offset, span.next_offset, span.leader_epoch, data.records, aborted
        )
        state.stuck = span.broken or span.size == 0
        if span.size == 0 and not span.broken:
            fetched.records = []
            fetched.error = CorruptRecord(
                f"{len(data.records)} bytes without one whole batch",
                topic=partition.topic,
                partition=partition.partition,
                offset=offset,
            )
        state.fetch_offset = span.next_offset
        self._buffered.append(fetched)
        self._metrics.topics[partition.topic].bytes.record(len(data.records), now_ms)
        return len(data.records)

    def _refused(
        self, partition: TopicPartition, state: PartitionState, data: PartitionData, nodes: list[Node], now_ms: int
    ) -> bool:
        """Handle a partition's error in a Fetch response. Return False if the next fetch of the partition must wait."""
        code = error_code(data.error_code)
        self._metrics.refused(FetchRequest, code)
        what = f"fetching {partition} at offset {state.fetch_offset}"
        if code in REFRESHED or code in RETRIED:
            self._outages.report_code((READING, partition), code, what, now_ms)
        if code in REFRESHED:
            leader = data.current_leader
            node_id, epoch = leader.leader_id, leader.leader_epoch
            moved = node_id >= 0 and self._metadata.update_leader(partition, node_id, epoch, nodes)
            if code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                state.preferred_replica = -1
            if not moved:
                self._metadata.request_refresh()
            return moved
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica >= 0:
                state.preferred_replica = -1
                return True
            if state.position is not None and state.position.offset == state.fetch_offset:
                self._out_of_range(partition, state)
                return True
            return False  # the user first gets the buffered records below the rejected offset, then the offset is reset
        if code not in RETRIED:
            self._failures.append(answer_error(self._config, code, what, name=partition.topic))
        return False
