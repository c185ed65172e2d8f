"""Is what was read still part of the log? Positions are validated when the leader changed (KIP-320).

The rules: protocol/fetching.md#validation.

The leader is asked where the epoch of the last record read ends. Before the position: the log was cut off there, and
reading goes on from the cut if there is a reset policy; without one the user decides.
"""

from __future__ import annotations

from kohort.client.reading.failures import Failures
from kohort.client.reading.list_offsets import CONSUMER, REFRESHED, by_leader
from kohort.client.reading.positions import FetchState, PartitionState, Position
from kohort.client.reading.resets import Resets
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.backoff import Backoff
from kohort.client.requests.metadata import LeaderAndEpoch, Metadata
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.client.requests.troubles import READING, Troubles
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode, KohortError, LogTruncated, UnsupportedVersion, error_code
from kohort.model import TopicPartition, by_topic
from kohort.wire.messages.epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.schema import Message

Runs = dict[TopicPartition, tuple[PartitionState, int, LeaderAndEpoch]]


class Validation:
    """The source that validates positions."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        metadata: Metadata,
        resets: Resets,
        rng: Rng,
        failures: Failures,
        troubles: Troubles,
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._metadata = metadata
        self._resets = resets
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._failures = failures
        self._troubles = troubles
        self._seen_version = -1
        self._failed = 0

    def poll(self, now_ms: int) -> Poll:
        if self._seen_version != self._metadata.version:
            self._seen_version = self._metadata.version
            self._subscription.check_leaders()
        unsettled = self._subscription.unsettled
        if not unsettled:
            return IDLE
        waiting: dict[TopicPartition, int] = {}
        wakes: list[int] = []
        for partition, state in unsettled:
            if state.state is not FetchState.AWAIT_VALIDATION or state.looking_up:
                continue
            if state.retry_at_ms > now_ms:
                wakes.append(state.retry_at_ms)
            else:
                assert state.position is not None
                waiting[partition] = state.position.offset_epoch
        if not waiting:
            return Poll(wake_at_ms=min(wakes, default=None))
        grouped, leaderless = by_leader(waiting, self._metadata)
        if leaderless:
            self._metadata.request_refresh()
            wakes += [self._later(self._subscription.assigned[p], now_ms) for p in leaderless]
        unsent = []
        for node_id, epochs in grouped.items():
            ask = self._ask(node_id, epochs)
            if ask is not None:
                unsent.append(ask)
        return Poll(unsent, min(wakes, default=None))

    def _ask(self, node_id: int, epochs: dict[TopicPartition, int]) -> Unsent | None:
        """The request for one leader. A leader without an epoch has no history to compare with."""
        runs: Runs = {}
        for partition in list(epochs):
            state = self._subscription.assigned[partition]
            leader = self._metadata.leader(partition)
            assert leader is not None
            if leader.epoch < 0:
                state.validated(leader)
                del epochs[partition]
                continue
            state.looking_up = True
            runs[partition] = (state, state.run, leader)
        if not runs:
            return None
        topics = []
        for topic, numbers in by_topic(epochs).items():
            partitions = [
                OffsetForLeaderPartition(
                    partition=number,
                    current_leader_epoch=runs[TopicPartition(topic, number)][2].epoch,
                    leader_epoch=epochs[TopicPartition(topic, number)],
                )
                for number in numbers
            ]
            topics.append(OffsetForLeaderTopic(topic=topic, partitions=partitions))
        request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics)
        return Unsent(node_id, request, self._config.request_timeout_ms, context=runs)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, OffsetForLeaderEpochResponse)
        answers = {TopicPartition(t.topic, p.partition): p for t in response.topics for p in t.partitions}
        runs: Runs = sent.context
        for partition, (state, run, leader) in runs.items():
            if state.run != run or state.state is not FetchState.AWAIT_VALIDATION:
                continue  # the position changed meanwhile
            state.looking_up = False
            answer = answers.get(partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else error_code(answer.error_code)
            if answer is not None and code is ErrorCode.NONE:
                self._failed = 0
                self._judge(partition, state, leader, Position(answer.end_offset, answer.leader_epoch))
                continue
            self._later(state, now_ms)
            self._metadata.request_refresh()
            what = f"validating the position in {partition}"
            if code in REFRESHED or code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self._troubles.refused((READING, partition), code, what, now_ms)
            else:
                self._failures.append(ApiError(code, what))

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        runs: Runs = sent.context
        for state, run, leader in runs.values():
            if state.run != run:
                continue
            state.looking_up = False
            if isinstance(error, UnsupportedVersion):
                state.validated(leader)  # a broker too old to tell
            else:
                self._later(state, now_ms)
        if not error.retriable and not isinstance(error, UnsupportedVersion):
            self._failures.append(error)

    def _judge(self, partition: TopicPartition, state: PartitionState, leader: LeaderAndEpoch, end: Position) -> None:
        position = state.position
        assert position is not None
        undefined = end.offset < 0 or end.offset_epoch < 0
        if not undefined and end.offset >= position.offset:
            state.validated(leader)
        elif self._resets.has_policy:
            if undefined:
                self._resets.no_offset(partition, state)
            else:
                state.seek(end)
                state.validated(leader)
        else:
            state.looking_up = True  # until the user seeks
            error = LogTruncated(str(partition), position.offset, None if undefined else end.offset)
            self._failures.append_about(partition, state, error)

    def _later(self, state: PartitionState, now_ms: int) -> int:
        self._failed += 1
        state.retry_at_ms = now_ms + self._backoff.delay_ms(self._failed)
        return state.retry_at_ms
