"""What the sources of one consumer work with, each its part: handed to them as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.client.metrics.reading import ReadingMetrics
from kohort.client.reading.failures import Failures
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.notes import Notes
from kohort.client.requests.troubles import Troubles
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """Of one consumer. ``failures`` are raised at the user's next poll, ``notes`` and ``troubles`` go to the log."""

    config: ConsumerConfig
    subscription: SubscriptionState
    metadata: Metadata
    failures: Failures
    notes: Notes
    troubles: Troubles
    rng: Rng
    metrics: ReadingMetrics = field(default_factory=ReadingMetrics)
