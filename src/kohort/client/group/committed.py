"""Fetch committed offsets: for ``committed()``, and as start positions of assigned partitions
(protocol/offsets.md#start-of-a-partition).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from kohort.client.group.membership import COORDINATOR_MOVED, NO_GENERATION, Generation, Membership
from kohort.client.group.offset_messages import (
    BY_NAME_FETCH,
    FetchedOffset,
    TopicIds,
    build_fetch,
    fetched_offsets,
    shape_fetch,
)
from kohort.client.reading.context import ConsumerContext, ConsumerSource
from kohort.client.reading.subscription import FetchState, PartitionState, Position
from kohort.client.requests.denials import answer_error
from kohort.client.requests.find_coordinator import COORDINATOR_CHANNEL, CoordinatorLookup
from kohort.client.requests.request_state import Backoff, TimedRequests, TimedRequestState, retry_backoff
from kohort.client.requests.source import IDLE, Poll, Promise, Unsent
from kohort.errors import ApiTimeout, ErrorCode, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.schema import Message

COMMITTED: Final = "committed"
Committed = dict[TopicPartition, OffsetAndMetadata | None]
Starts = dict[TopicPartition, tuple[PartitionState, int]]


class _Query(TimedRequestState):
    """One OffsetFetch.

    A ``committed()`` call sets ``promise``. An assignment sets ``starts``: its new partitions need start positions.
    """

    def __init__(self, partitions: Collection[TopicPartition], backoff: Backoff) -> None:
        super().__init__(backoff)
        self.partitions = list(partitions)
        self.promise: Promise[Committed] | None = None
        self.starts: Starts = {}
        self.generation = NO_GENERATION
        self.topic_ids: TopicIds = {}


class CommittedOffsets(ConsumerSource):
    def __init__(
        self,
        context: ConsumerContext,
        lookup: CoordinatorLookup,
        membership: Membership,
        no_offset: Callable[[TopicPartition, PartitionState], None],
    ) -> None:
        super().__init__(context)
        self._lookup = lookup
        self._membership = membership
        self._backoff = retry_backoff(self._config, context.rng)
        self._no_offset = no_offset
        self._waiting: TimedRequests[_Query] = TimedRequests()

    def committed(self, partitions: Collection[TopicPartition], deadline_ms: int) -> Promise[Committed]:
        promise: Promise[Committed] = Promise()
        if partitions:
            query = _Query(partitions, self._backoff)
            query.promise, query.deadline_ms = promise, deadline_ms
            self._waiting.add(query)
        else:
            promise.resolve({})
        return promise

    def poll(self, now_ms: int) -> Poll:
        self._start_partitions(now_ms)
        if not self._waiting:
            return IDLE
        for late in self._waiting.take_expired(now_ms):
            assert late.promise is not None, "queries of starts have no deadline"
            late.promise.fail(ApiTimeout(f"the offsets of group {self._group_id!r} could not be read in time"))
        node_id = self._lookup.require()
        if node_id is None:
            return Poll(wake_at_ms=self._waiting.deadline_ms)
        wake_at_ms = self._waiting.wake_at_ms(now_ms)
        return Poll([self._send(node_id, query) for query in self._waiting.take_due(now_ms)], wake_at_ms)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(sent.request, OffsetFetchRequest)
        assert isinstance(response, OffsetFetchResponse)
        code, found = fetched_offsets(sent.request, response)
        failed = {p: f.code for p, f in found.items() if f.code is not ErrorCode.NONE}
        what, name = f"the committed offsets of group {self._group_id!r}", ""
        if code is ErrorCode.NONE and not failed:
            self._outages.recovered(COMMITTED, f"{what} are available", now_ms)
            self._found(sent.context, found)
            return
        if code is ErrorCode.NONE:
            partition, code = next(iter(failed.items()))
            name = partition.topic
            what = f"the committed offset of {partition} in group {self._group_id!r}"
        if code in COORDINATOR_MOVED:
            self._lookup.mark_unknown()
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._metadata.request_refresh()
        query: _Query = sent.context
        if code is ErrorCode.STALE_MEMBER_EPOCH and query.generation != self._fetch_generation:
            # the member epoch changed while the OffsetFetch was in flight: repeat it with the new epoch
            self._waiting.add(query)
            return
        # UNKNOWN_TOPIC_OR_PARTITION is permanent in OffsetFetch, although other APIs retry it.
        # STALE_MEMBER_EPOCH and UNKNOWN_MEMBER_ID are retried: OffsetFetch succeeds after the member has rejoined.
        is_not_member = code is ErrorCode.UNKNOWN_MEMBER_ID and query.promise is None
        of_membership = code is ErrorCode.STALE_MEMBER_EPOCH or is_not_member
        passing = code.retriable or code in COORDINATOR_MOVED or of_membership
        lasting = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not passing
        if not lasting:
            self._outages.report_code(COMMITTED, code, what, now_ms)
        self._failed(query, answer_error(self._config, code, what, name=name), now_ms, lasting=lasting)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if error.retriable:
            self._lookup.mark_unknown()
        self._failed(sent.context, error, now_ms, lasting=not error.retriable)

    def _start_partitions(self, now_ms: int) -> None:
        starts = {
            p: (s, s.run)
            for p, s in self._subscription.not_fetching
            if s.state is FetchState.INITIALIZING and not s.looking_up and s.retry_at_ms <= now_ms
        }
        if starts:
            for state, _ in starts.values():
                state.looking_up = True
            query = _Query(starts, self._backoff)
            query.starts = starts
            self._waiting.add(query)

    def _send(self, node_id: int, query: _Query) -> Unsent:
        ids = query.topic_ids = {topic: self._metadata.topic_id(topic) for topic in {p.topic for p in query.partitions}}
        query.generation = self._fetch_generation
        return Unsent(
            node_id,
            build_fetch(self._group_id, query.generation, query.partitions, ids),
            self._config.request_timeout_ms,
            channel=COORDINATOR_CHANNEL,
            max_version=None if all(ids.values()) else BY_NAME_FETCH,
            context=query,
            shape=shape_fetch,
        )

    @property
    def _fetch_generation(self) -> Generation:
        return self._membership.fetch_generation if self._subscription.mode.is_group else NO_GENERATION

    def _failed(self, query: _Query, error: KohortError, now_ms: int, *, lasting: bool) -> None:
        query.failed(now_ms)
        if not lasting:
            self._waiting.add(query)
        elif query.promise is not None:
            query.promise.fail(error)
        else:
            for state, run in query.starts.values():
                if state.run == run:
                    state.looking_up = False
                    state.retry_at_ms = query.retry_at_ms
            self._failures.append(error)

    def _found(self, query: _Query, found: Mapping[TopicPartition, FetchedOffset]) -> None:
        if query.promise is not None:
            query.promise.resolve({p: found[p].committed if p in found else None for p in query.partitions})
            return
        for partition, (state, run) in query.starts.items():
            if state.run != run or state.state is not FetchState.INITIALIZING:
                continue  # the user has moved the position while OffsetFetch was in flight
            committed = found[partition].committed if partition in found else None
            if committed is None:
                self._no_offset(partition, state)
            else:
                state.seek(Position(committed.offset, committed.leader_epoch), self._metadata.leader(partition))
                state.topic_id = query.topic_ids.get(partition.topic)
