"""Finds out from the metadata why there is nothing to read or to write although nothing fails: the topic or the
partition is not there, nobody leads it, or no topic matches. They are asked for again, and may appear later.
"""

from __future__ import annotations

from typing import Final

from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.client.requests.troubles import PASSING_MS, Troubles
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.wire.schema import Message

TOPIC: Final = "topic"
PATTERN: Final = "pattern"
PARTITION: Final = "partition"


class TopicWatch:
    """A source that asks nothing. Without a ``subscription`` it looks at topics alone."""

    def __init__(self, metadata: Metadata, troubles: Troubles, subscription: SubscriptionState | None = None) -> None:
        self._metadata = metadata
        self._troubles = troubles
        self._subscription = subscription
        self._seen: tuple[int, object] = (-1, None)
        self._missing: dict[str, str] = {}
        self._unread: dict[TopicPartition, str] = {}

    def poll(self, now_ms: int) -> Poll:
        assigned = None if self._subscription is None else self._subscription.assigned
        if self._seen[0] != self._metadata.version or self._seen[1] is not assigned:
            self._seen = (self._metadata.version, assigned)
            self._look_at_topics(now_ms)
            if self._subscription is not None:
                self._look_at_partitions(self._subscription, now_ms)
                self._look_at_pattern(self._subscription, now_ms)
        return IDLE

    def on_response(self, _sent: Unsent, _response: Message, _now_ms: int) -> None:
        """Do nothing: nothing is asked."""

    def on_failure(self, _sent: Unsent, _error: KohortError, _now_ms: int) -> None:
        """Do nothing: nothing is asked."""

    def _look_at_topics(self, now_ms: int) -> None:
        errors = self._metadata.errors()
        missing = {name: f"topic {name!r} cannot be used: {code.name}" for name, code in errors.items()}
        for name in self._missing.keys() - missing.keys():
            if self._metadata.topic(name) is None:
                self._troubles.forget((TOPIC, name))  # nobody asks for it any more
            else:
                self._troubles.mended((TOPIC, name), f"topic {name!r} is there", now_ms)
        for name, text in missing.items():
            if errors[name].retriable:  # whatever else is raised
                self._troubles.report((TOPIC, name), text, now_ms, patience_ms=PASSING_MS)
        self._missing = missing

    def _look_at_partitions(self, subscription: SubscriptionState, now_ms: int) -> None:
        unread: dict[TopicPartition, str] = {}
        for partition in subscription.assigned:
            info = self._metadata.topic(partition.topic)
            if info is None:
                continue
            if partition.partition not in info.partitions:
                there = f"0 to {len(info.partitions) - 1}" if info.partitions else "none"
                unread[partition] = f"{partition} is not there: topic {partition.topic!r} has partitions {there}"
            elif info.partitions[partition.partition].leader_id < 0:
                unread[partition] = f"{partition} has no leader"
        for partition in self._unread.keys() - unread.keys():
            if partition in subscription.assigned:
                self._troubles.mended((PARTITION, partition), f"{partition} is there and has a leader", now_ms)
            else:
                self._troubles.forget((PARTITION, partition))
        for partition, text in unread.items():
            self._troubles.report((PARTITION, partition), text, now_ms, patience_ms=PASSING_MS)
        self._unread = unread

    def _look_at_pattern(self, subscription: SubscriptionState, now_ms: int) -> None:
        pattern = subscription.pattern
        if pattern is None or not subscription.pattern_was_matched:
            return
        if any(pattern.fullmatch(name) for name in self._metadata.topics()):
            self._troubles.mended(PATTERN, f"a topic matches {pattern.pattern!r}", now_ms)
        else:
            text = f"none of the cluster's topics matches {pattern.pattern!r} as a whole"
            self._troubles.report(PATTERN, text, now_ms)
