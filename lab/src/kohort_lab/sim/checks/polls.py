"""Poll check: a member sends no heartbeat if its user has not polled for max.poll.interval.ms."""

from __future__ import annotations

from kohort.wire.messages.group_classic import HeartbeatRequest, SyncGroupRequest
from kohort.wire.messages.group_consumer import JOINING_EPOCH, ConsumerGroupHeartbeatRequest
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, WatchedConsumer, Watcher

SLACK_MS = 1_000


class Polls(Watcher):
    """Check of the user at each heartbeat."""

    def __init__(self, consumers: dict[str, WatchedConsumer]) -> None:
        self._consumers = consumers
        self._joined_ms: dict[str, int] = {}

    def requested(self, exchange: Exchange) -> None:
        consumer = self._consumers.get(exchange.client)
        if consumer is not None and isinstance(exchange.request, SyncGroupRequest):
            self._joined_ms[exchange.client] = exchange.sent_ms  # the interval starts at the join
        request = exchange.request
        if (
            consumer is None
            or not isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest)
            or consumer.polls
        ):
            return
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < JOINING_EPOCH:
            return  # a leave
        if exchange.sent_ms - consumer.frozen_until_ms <= SLACK_MS:
            return  # the process was frozen before its leave
        if request.member_id != consumer.member_id:
            return  # a request that waited for a connection precedes the LeaveGroup
        since_ms = max(consumer.poll_end_ms, self._joined_ms.get(exchange.client, 0))
        silent_ms = exchange.sent_ms - since_ms
        if silent_ms > consumer.max_poll_interval_ms + SLACK_MS:
            raise CheckFailed(
                f"{exchange.client} sends a heartbeat, although its user has not polled for {silent_ms} ms"
            )
