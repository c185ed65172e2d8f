"""Questions about positions, put to the leaders of their partitions: where to begin, and is it still the same log?

A partition is asked for once at a time. An answer counts only while the partition waits where it waited then: whoever
has moved it meanwhile (a seek, another assignment) has begun a new run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kohort.client.reading.context import ConsumerContext
from kohort.client.reading.positions import FetchState, PartitionState
from kohort.client.requests.backoff import retry_backoff
from kohort.client.requests.metadata import LeaderAndEpoch
from kohort.client.requests.request_state import RequestState
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.model import TopicPartition


class Question(NamedTuple):
    """One partition that its leader is asked about, and its run at that time."""

    partition: TopicPartition
    state: PartitionState
    run: int
    leader: LeaderAndEpoch


BuildRequest = Callable[[int, list[Question]], Unsent | None]
"""Makes the request for one node; its context are the questions that it asks. None if it asks nothing."""


class LeaderQuestions:
    """Asks about every assigned partition that waits in one state, again after a back-off until there is an answer."""

    def __init__(self, waiting_in: FetchState, context: ConsumerContext) -> None:
        self._waiting_in = waiting_in
        self._subscription = context.subscription
        self._metadata = context.metadata
        self._failures = RequestState(retry_backoff(context.config, context.rng))
        """One back-off for all partitions, so that one request asks about them again."""

    def poll(self, now_ms: int, build: BuildRequest) -> Poll:
        """Build one request for each leader. A partition without a leader is asked about when metadata name one."""
        wakes: list[int] = []
        by_leader: dict[int, list[Question]] = {}
        for partition, state in self._subscription.not_fetching:
            if state.state is not self._waiting_in or state.looking_up:
                continue
            if state.retry_at_ms > now_ms:
                wakes.append(state.retry_at_ms)
            elif (leader := self._metadata.leader(partition)) is None:
                self._metadata.request_refresh()
            else:
                by_leader.setdefault(leader.node_id, []).append(Question(partition, state, state.run, leader))
        unsent = [request for node_id, asked in by_leader.items() if (request := build(node_id, asked)) is not None]
        for request in unsent:
            for question in request.context:
                question.state.looking_up = True
        return Poll(unsent, min(wakes, default=None)) if unsent or wakes else IDLE

    def ended(self, sent: Unsent) -> list[Question]:
        """Take note of an answer or a failure; return the questions whose partitions still wait for it."""
        asked: list[Question] = sent.context
        current = [q for q in asked if q.state.run == q.run and q.state.state is self._waiting_in]
        for question in current:
            question.state.looking_up = False
        return current

    def succeeded(self) -> None:
        """Begin to count failures anew."""
        self._failures.succeeded()

    def ask_again(self, state: PartitionState, now_ms: int) -> None:
        """Ask about a partition again after the back-off; all that fail before its end count as one failure."""
        if now_ms >= self._failures.retry_at_ms:
            self._failures.failed(now_ms)
        state.retry_at_ms = self._failures.retry_at_ms
