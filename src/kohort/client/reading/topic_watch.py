"""Log missing topics, partitions without a leader, and patterns without a matching topic, until they appear."""

from __future__ import annotations

from typing import Final

from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import TRANSIENT_MS, Outages
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.wire.schema import Message

TOPIC: Final = "topic"
PATTERN: Final = "pattern"
PARTITION: Final = "partition"


class TopicWatch:
    """Request source without requests. It logs missing topics, and missing partitions of ``subscription``."""

    def __init__(self, metadata: Metadata, outages: Outages, subscription: SubscriptionState | None = None) -> None:
        self._metadata = metadata
        self._outages = outages
        self._subscription = subscription
        self._seen: tuple[int, object] = (-1, None)
        self._missing: dict[str, str] = {}
        self._unread: dict[TopicPartition, str] = {}

    def poll(self, now_ms: int) -> Poll:
        assigned = None if self._subscription is None else self._subscription.assigned
        if self._seen[0] != self._metadata.version or self._seen[1] is not assigned:
            self._seen = (self._metadata.version, assigned)
            self._check_topics(now_ms)
            if self._subscription is not None:
                self._check_partitions(self._subscription, now_ms)
                self._check_pattern(self._subscription, now_ms)
        return IDLE

    def on_response(self, _sent: Unsent, _response: Message, _now_ms: int) -> None: ...

    def on_failure(self, _sent: Unsent, _error: KohortError, _now_ms: int) -> None: ...

    def _check_topics(self, now_ms: int) -> None:
        errors = self._metadata.errors()
        missing = {name: f"topic {name!r} cannot be used: {code.name}" for name, code in errors.items()}
        for name in self._missing.keys() - missing.keys():
            if self._metadata.topic(name) is None:
                self._outages.forget((TOPIC, name))  # the client no longer tracks the topic
            else:
                self._outages.recovered((TOPIC, name), f"topic {name!r} exists", now_ms)
        for name, text in missing.items():
            if errors[name].retriable:  # permanent errors are raised to the user instead of logged
                self._outages.report((TOPIC, name), text, now_ms, patience_ms=TRANSIENT_MS)
        self._missing = missing

    def _check_partitions(self, subscription: SubscriptionState, now_ms: int) -> None:
        unread: dict[TopicPartition, str] = {}
        for partition in subscription.assigned:
            info = self._metadata.topic(partition.topic)
            if info is None:
                continue
            if partition.partition not in info.partitions:
                there = f"0 to {len(info.partitions) - 1}" if info.partitions else "none"
                unread[partition] = (
                    f"partition {partition} does not exist: topic {partition.topic!r} has partitions {there}"
                )
            elif info.partitions[partition.partition].leader_id < 0:
                unread[partition] = f"{partition} has no leader"
        for partition in self._unread.keys() - unread.keys():
            if partition in subscription.assigned:
                self._outages.recovered((PARTITION, partition), f"{partition} exists and has a leader", now_ms)
            else:
                self._outages.forget((PARTITION, partition))
        for partition, text in unread.items():
            self._outages.report((PARTITION, partition), text, now_ms, patience_ms=TRANSIENT_MS)
        self._unread = unread

    def _check_pattern(self, subscription: SubscriptionState, now_ms: int) -> None:
        pattern = subscription.pattern
        if pattern is None or not subscription.pattern_was_matched:
            return
        if any(pattern.fullmatch(name) for name in self._metadata.topics()):
            self._outages.recovered(PATTERN, f"a topic matches {pattern.pattern!r}", now_ms)
        else:
            text = f"no topic of the cluster fully matches {pattern.pattern!r}"
            self._outages.report(PATTERN, text, now_ms)
