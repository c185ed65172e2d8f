"""Objects that all request sources of one consumer share, such as config, metadata and subscription."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kohort.client.metrics.counts import ReadingMetrics
from kohort.client.reading.subscription import PartitionState, SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import KohortError
from kohort.model import TopicPartition


class Failures:
    """Errors for the next polls to raise, oldest first. A seek or a revocation drops the partition's errors."""

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._errors: deque[tuple[KohortError, TopicPartition | None, PartitionState | None, int]] = deque()

    def append(self, error: KohortError) -> None:
        self._errors.append((error, None, None, 0))

    def append_about(self, partition: TopicPartition, state: PartitionState, error: KohortError) -> None:
        """Raise ``error`` at the next poll, unless the partition was unassigned or its position has moved."""
        self._errors.append((error, partition, state, state.run))

    def __bool__(self) -> bool:
        while self._errors:
            _, partition, state, run = self._errors[0]
            if partition is None or state is None:
                return True
            if self._subscription.assigned.get(partition) is state and state.run == run:
                return True
            self._errors.popleft()
        return False

    def popleft(self) -> KohortError:
        return self._errors.popleft()[0]


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """Objects that all request sources of one consumer share.

    ``failures``: errors that the next polls raise. ``notes``: log lines that are not written yet.
    """

    config: ConsumerConfig
    subscription: SubscriptionState
    metadata: Metadata
    failures: Failures
    notes: Notes
    outages: Outages
    rng: Rng
    metrics: ReadingMetrics = field(default_factory=ReadingMetrics)


class ConsumerSource:
    """Base class of a consumer's request sources."""

    def __init__(self, context: ConsumerContext) -> None:
        self._config = context.config
        self._group_id = context.config.group_id or ""
        self._subscription = context.subscription
        self._metadata = context.metadata
        self._failures = context.failures
        self._notes = context.notes
        self._outages = context.outages
        self._metrics = context.metrics
