"""Reset or validate positions of partitions that have no valid position (protocol/fetching.md#resets)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kohort.client.reading.context import ConsumerContext, ConsumerSource
from kohort.client.reading.list_offsets import (
    CONSUMER,
    EARLIEST,
    LATEST,
    REFRESHED,
    OffsetAndTimestamp,
    build_list_offsets,
    listed_offsets,
)
from kohort.client.reading.subscription import FetchState, PartitionState, Position
from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import LeaderAndEpoch
from kohort.client.requests.outages import READING
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.config.client import reset_duration_ms
from kohort.errors import (
    ApiError,
    ErrorCode,
    KohortError,
    LogTruncated,
    NoOffsetForPartition,
    UnsupportedVersion,
    error_code,
)
from kohort.model import TopicPartition
from kohort.wire.messages import list_offsets as wire
from kohort.wire.schema import Message


class LeaderQuery(NamedTuple):
    """Partition in a request to its leader; ``run`` is the partition's position number when the request was sent."""

    partition: TopicPartition
    state: PartitionState
    run: int
    leader: LeaderAndEpoch


BuildRequest = Callable[[int, list[LeaderQuery]], Unsent | None]
"""Function that builds the request to a node for the given partitions; returns None if no request is needed."""


class LeaderQueries:
    """Requests to the leaders of the partitions that wait in one FetchState. Failed requests are repeated.

    Each partition has one request in flight. A seek or a new assignment changes the partition's position number
    (``run``), and responses to requests with the old number are ignored.
    """

    def __init__(self, waiting_in: FetchState, context: ConsumerContext) -> None:
        self._waiting_in = waiting_in
        self._subscription = context.subscription
        self._metadata = context.metadata
        self._failures = RequestState(retry_backoff(context.config, context.rng))
        """Back-off that all partitions share, so that one request retries all of them."""

    def poll(self, now_ms: int, build: BuildRequest) -> Poll:
        """Build one request to each leader. Partitions without a leader wait for metadata."""
        wakes: list[int] = []
        by_leader: dict[int, list[LeaderQuery]] = {}
        for partition, state in self._subscription.not_fetching:
            if state.state is not self._waiting_in or state.looking_up:
                continue
            if state.retry_at_ms > now_ms:
                wakes.append(state.retry_at_ms)
            elif (leader := self._metadata.leader(partition)) is None:
                self._metadata.request_refresh()
            else:
                by_leader.setdefault(leader.node_id, []).append(LeaderQuery(partition, state, state.run, leader))
        unsent = [request for node_id, queries in by_leader.items() if (request := build(node_id, queries)) is not None]
        for request in unsent:
            for query in request.context:
                query.state.looking_up = True
        return Poll(unsent, min(wakes, default=None)) if unsent or wakes else IDLE

    def ended(self, sent: Unsent) -> list[LeaderQuery]:
        """Complete a request. Return its partitions, except those whose position has moved since it was sent."""
        queries: list[LeaderQuery] = sent.context
        current = [q for q in queries if q.state.run == q.run and q.state.state is self._waiting_in]
        for query in current:
            query.state.looking_up = False
        return current

    def succeeded(self) -> None:
        self._failures.succeeded()

    def retry_later(self, state: PartitionState, now_ms: int) -> None:
        """Retry the request of a partition after the shared back-off.

        A failure during the back-off does not lengthen it.
        """
        if now_ms >= self._failures.retry_at_ms:
            self._failures.failed(now_ms)
        state.retry_at_ms = self._failures.retry_at_ms


NONE: Final = "none"
MAX_NAMED: Final = 20


class Resets(ConsumerSource):
    """Request source that resets positions by ``auto.offset.reset`` (ListOffsets)."""

    def __init__(self, context: ConsumerContext) -> None:
        super().__init__(context)
        self._queries = LeaderQueries(FetchState.AWAIT_RESET, context)

    @property
    def has_policy(self) -> bool:
        return self._config.auto_offset_reset != NONE

    def no_offset(self, partition: TopicPartition, state: PartitionState) -> None:
        if partition.topic in self._subscription.read_from_start:
            state.await_reset("earliest")
            return
        if self.has_policy:
            state.await_reset(self._config.auto_offset_reset)
            return
        state.looking_up = True  # auto.offset.reset=none: fetch nothing until the user seeks
        group = f"committed in group {self._config.group_id!r}" if self._config.group_id else "known"
        text = f"{partition}: no offset is {group}, and auto.offset.reset is none; call seek()"
        self._failures.append_about(partition, state, NoOffsetForPartition(text))

    def out_of_range(self, partition: TopicPartition, state: PartitionState) -> None:
        offset = -1 if state.position is None else state.position.offset
        if self.has_policy:
            self.warn_and_reset(state, f"offset {offset} of {partition} is out of range")
            return
        state.stuck = True  # auto.offset.reset=none: fetch nothing until the user seeks
        text = f"offset {offset} of {partition} is out of range, and auto.offset.reset is none; call seek()"
        self._failures.append_about(partition, state, ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text))

    def recreated(self, partition: TopicPartition) -> None:
        position = self._subscription.assigned[partition].position
        assert position is not None, "a partition without a position is read from its reset"
        state = self._subscription.restart(partition)
        if self.has_policy:
            topic, offset = partition.topic, position.offset
            self.warn_and_reset(
                state, f"{partition}: read up to {offset}, but topic {topic!r} was deleted and created again"
            )
            return
        state.looking_up = True  # auto.offset.reset=none: fetch nothing until the user seeks
        error = LogTruncated(str(partition), position.offset, None, is_recreated=True)
        self._failures.append_about(partition, state, error)

    def warn_and_reset(self, state: PartitionState, problem: str) -> None:
        policy = self._config.auto_offset_reset
        self._notes.warn(f"{problem}; its position is reset (auto.offset.reset={policy})")
        state.await_reset(policy)

    def poll(self, now_ms: int) -> Poll:
        not_fetching = self._subscription.not_fetching
        if not not_fetching:
            return IDLE
        if self._config.group_id is None:
            for partition, state in not_fetching:
                if state.state is FetchState.INITIALIZING and not state.looking_up:
                    self.no_offset(partition, state)
        return self._queries.poll(now_ms, lambda node_id, queries: self._build_request(node_id, queries, now_ms))

    def _timestamp(self, policy: str, now_ms: int) -> int:
        duration = reset_duration_ms(policy)
        if duration is not None:
            return max(0, now_ms - duration)
        return EARLIEST if policy == "earliest" else LATEST

    def _build_request(self, node_id: int, queries: list[LeaderQuery], now_ms: int) -> Unsent:
        targets = {q.partition: self._timestamp(q.state.reset_to, now_ms) for q in queries}
        unsent = build_list_offsets(node_id, targets, self._config, self._metadata)
        unsent.context = queries
        return unsent

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, wire.ListOffsetsResponse)
        listed = listed_offsets(response)
        found_at: list[str] = []
        for partition, state, _, _ in self._queries.ended(sent):
            unanswered = (ErrorCode.UNKNOWN_SERVER_ERROR, OffsetAndTimestamp(-1, -1))
            code, found = listed.get(partition, unanswered)
            if code is ErrorCode.NONE:
                policy = state.reset_to
                if self._move_to(partition, state, found):
                    found_at.append(f"{partition} to {found.offset} ({policy})")
                continue
            self._queries.retry_later(state, now_ms)
            self._metadata.request_refresh()
            what = f"looking for the {state.reset_to} offset of {partition}"
            if code in REFRESHED or code.retriable:
                self._outages.report_code((READING, partition), code, what, now_ms)
            else:
                self._failures.append(answer_error(self._config, code, what, name=partition.topic))
        if found_at:
            rest = len(found_at) - MAX_NAMED
            names = ", ".join(found_at[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
            self._notes.info(f"positions reset: {names}")

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        for query in self._queries.ended(sent):
            self._queries.retry_later(query.state, now_ms)
        if not error.retriable:
            self._failures.append(error)

    def _move_to(self, partition: TopicPartition, state: PartitionState, found: OffsetAndTimestamp) -> bool:
        """Move the position to the offset from ListOffsets. If no record matches, reset to latest and return False."""
        self._queries.succeeded()
        if found.offset < 0:
            state.await_reset("latest")
            return False
        leader = self._metadata.leader(partition)
        state.seek(Position(found.offset, found.leader_epoch), leader, trusted=True)
        state.topic_id = self._metadata.topic_id(partition.topic)
        return True


class Validation(ConsumerSource):
    """Request source that validates positions after a leader change (KIP-320, protocol/fetching.md#validation).

    The request names the leader epoch of the last record read, and the new leader returns the end offset of that epoch.
    An end offset below the position means a truncated log. Then reading continues at the end offset if
    ``auto.offset.reset`` is set; otherwise LogTruncated is raised to the user.
    """

    def __init__(self, context: ConsumerContext, resets: Resets) -> None:
        super().__init__(context)
        self._resets = resets
        self._queries = LeaderQueries(FetchState.AWAIT_VALIDATION, context)
        self._seen_version = -1

    def poll(self, now_ms: int) -> Poll:
        if self._seen_version != self._metadata.version:
            self._seen_version = self._metadata.version
            for partition in self._subscription.recreated():
                self._resets.recreated(partition)
            self._subscription.check_leaders()
        return self._queries.poll(now_ms, self._build_request) if self._subscription.not_fetching else IDLE

    def _build_request(self, node_id: int, queries: list[LeaderQuery]) -> Unsent | None:
        topics: dict[str, wire.OffsetForLeaderTopic] = {}
        compared: list[LeaderQuery] = []
        for query in queries:
            (topic, number), state, _, leader = query
            if leader.epoch < 0:
                state.validated(leader)
                continue
            assert state.position is not None
            compared.append(query)
            of_topic = topics.setdefault(topic, wire.OffsetForLeaderTopic(topic=topic, partitions=[]))
            of_topic.partitions.append(
                wire.OffsetForLeaderPartition(
                    partition=number, current_leader_epoch=leader.epoch, leader_epoch=state.position.offset_epoch
                )
            )
        if not compared:
            return None
        request = wire.OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))
        return Unsent(node_id, request, self._config.request_timeout_ms, context=compared)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, wire.OffsetForLeaderEpochResponse)
        answers = {TopicPartition(t.topic, p.partition): p for t in response.topics for p in t.partitions}
        for partition, state, _, leader in self._queries.ended(sent):
            answer = answers.get(partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else error_code(answer.error_code)
            if answer is not None and code is ErrorCode.NONE:
                self._queries.succeeded()
                self._compare(partition, state, leader, Position(answer.end_offset, answer.leader_epoch))
                continue
            self._queries.retry_later(state, now_ms)
            self._metadata.request_refresh()
            what = f"validating the position in {partition}"
            if code in REFRESHED or code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self._outages.report_code((READING, partition), code, what, now_ms)
            else:
                self._failures.append(answer_error(self._config, code, what, name=partition.topic))

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        for _, state, _, leader in self._queries.ended(sent):
            if isinstance(error, UnsupportedVersion):
                state.validated(leader)  # brokers without OffsetForLeaderEpoch cannot validate positions
            else:
                self._queries.retry_later(state, now_ms)
        if not error.retriable and not isinstance(error, UnsupportedVersion):
            self._failures.append(error)

    def _compare(self, partition: TopicPartition, state: PartitionState, leader: LeaderAndEpoch, end: Position) -> None:
        position = state.position
        assert position is not None
        undefined = end.offset < 0 or end.offset_epoch < 0
        if not undefined and end.offset >= position.offset:
            state.validated(leader)
        elif self._resets.has_policy:
            if undefined:
                self._resets.warn_and_reset(
                    state, f"{partition}: the log was truncated before position {position.offset}"
                )
            else:
                self._notes.warn(
                    f"{partition}: the log was truncated at {end.offset}, before position {position.offset}"
                )
                state.seek(end)
                state.validated(leader)
        else:
            state.looking_up = True  # auto.offset.reset=none: fetch nothing until the user seeks
            error = LogTruncated(str(partition), position.offset, None if undefined else end.offset)
            self._failures.append_about(partition, state, error)
