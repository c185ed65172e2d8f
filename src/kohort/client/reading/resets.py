"""Where to go without a position: the source that resets partitions by policy (protocol/fetching.md#resets)."""

from __future__ import annotations

from typing import Final

from kohort.client.reading.failures import Failures
from kohort.client.reading.list_offsets import (
    EARLIEST,
    LATEST,
    REFRESHED,
    OffsetAndTimestamp,
    build_list_offsets,
    by_leader,
    listed_offsets,
)
from kohort.client.reading.positions import FetchState, PartitionState, Position
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.backoff import Backoff
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.client.requests.troubles import READING, Troubles
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig, duration_ms
from kohort.errors import ApiError, ErrorCode, KohortError, NoOffsetForPartition
from kohort.model import TopicPartition
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.schema import Message

NONE: Final = "none"
Runs = dict[TopicPartition, tuple[PartitionState, int]]


class Resets:
    """Finds the end of the log that a policy names, and puts partitions there."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        metadata: Metadata,
        rng: Rng,
        failures: Failures,
        troubles: Troubles,
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._metadata = metadata
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._failures = failures
        self._troubles = troubles
        self._failed = 0

    @property
    def has_policy(self) -> bool:
        return self._config.auto_offset_reset != NONE

    def no_offset(self, partition: TopicPartition, state: PartitionState) -> None:
        """Nothing is committed: reset by policy, or tell the user that there is none."""
        if self.has_policy:
            state.await_reset(self._config.auto_offset_reset)
            return
        state.looking_up = True  # until the user seeks
        group = f"committed in group {self._config.group_id!r}" if self._config.group_id else "known"
        text = f"{partition}: no offset is {group}, and auto.offset.reset is none; seek() somewhere"
        self._failures.append_about(partition, state, NoOffsetForPartition(text))

    def out_of_range(self, partition: TopicPartition, state: PartitionState) -> None:
        """The log does not reach to the position (any more): reset by policy, or tell the user."""
        if self.has_policy:
            state.await_reset(self._config.auto_offset_reset)
            return
        state.stuck = True  # until the user seeks
        offset = -1 if state.position is None else state.position.offset
        text = f"{partition} has no offset {offset}, and auto.offset.reset is none; seek() somewhere"
        self._failures.append_about(partition, state, ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text))

    def poll(self, now_ms: int) -> Poll:
        unsettled = self._subscription.unsettled
        if not unsettled:
            return IDLE
        targets: dict[TopicPartition, int] = {}
        wakes: list[int] = []
        for partition, state in unsettled:
            if self._config.group_id is None and state.state is FetchState.INITIALIZING and not state.looking_up:
                self.no_offset(partition, state)
            if state.state is not FetchState.AWAIT_RESET or state.looking_up:
                continue
            if state.retry_at_ms > now_ms:
                wakes.append(state.retry_at_ms)
            else:
                targets[partition] = self._timestamp(state.reset_to, now_ms)
        if not targets:
            return Poll(wake_at_ms=min(wakes, default=None))
        grouped, leaderless = by_leader(targets, self._metadata)
        if leaderless:
            self._metadata.request_refresh()
            wakes += [self._later(self._subscription.assigned[p], now_ms) for p in leaderless]
        return Poll([self._ask(n, t) for n, t in grouped.items()], min(wakes, default=None))

    def _timestamp(self, policy: str, now_ms: int) -> int:
        duration = duration_ms(policy)
        if duration is not None:
            return max(0, now_ms - duration)
        return EARLIEST if policy == "earliest" else LATEST

    def _ask(self, node_id: int, targets: dict[TopicPartition, int]) -> Unsent:
        unsent = build_list_offsets(node_id, targets, self._config, self._metadata)
        runs: Runs = {}
        for partition in targets:
            state = self._subscription.assigned[partition]
            state.looking_up = True
            runs[partition] = (state, state.run)
        unsent.context = runs
        return unsent

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, ListOffsetsResponse)
        runs: Runs = sent.context
        listed = listed_offsets(response)
        for partition, (state, run) in runs.items():
            if state.run != run or state.state is not FetchState.AWAIT_RESET:
                continue  # the user has sought meanwhile
            state.looking_up = False
            unanswered = (ErrorCode.UNKNOWN_SERVER_ERROR, OffsetAndTimestamp(-1, -1))
            code, found = listed.get(partition, unanswered)
            if code is ErrorCode.NONE:
                self._put(partition, state, found)
                continue
            self._later(state, now_ms)
            self._metadata.request_refresh()
            what = f"looking for the {state.reset_to} offset of {partition}"
            if code in REFRESHED or code.retriable:
                self._troubles.refused((READING, partition), code, what, now_ms)
            else:
                self._failures.append(ApiError(code, what))

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        runs: Runs = sent.context
        for state, run in runs.values():
            if state.run == run:
                state.looking_up = False
                self._later(state, now_ms)
        if not error.retriable:
            self._failures.append(error)

    def _put(self, partition: TopicPartition, state: PartitionState, found: OffsetAndTimestamp) -> None:
        self._failed = 0
        if found.offset < 0:
            state.await_reset("latest")  # nothing is as young as the policy asks for
            return
        leader = self._metadata.leader(partition)
        state.seek(Position(found.offset, found.leader_epoch), leader, trusted=True)

    def _later(self, state: PartitionState, now_ms: int) -> int:
        self._failed += 1
        state.retry_at_ms = now_ms + self._backoff.delay_ms(self._failed)
        return state.retry_at_ms
