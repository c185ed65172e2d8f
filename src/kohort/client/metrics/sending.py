"""What a producer counts: batches as they leave, what became of them, and how long its user had to wait.

Everything is counted by the batch, never by the record.
"""

from __future__ import annotations

from collections import Counter

from kohort.client.metrics.bounded import CountsByName
from kohort.client.metrics.samples import Samples, SampleWindows
from kohort.client.metrics.traffic import ErrorCounts


class SentTopicMetrics:
    """What was sent to one topic."""

    __slots__ = ("bytes", "compression", "lost", "records", "retried")

    def __init__(self, windows: SampleWindows) -> None:
        self.records = Samples(windows)
        """Of each batch."""
        self.bytes = Samples(windows)
        """Of each batch, as it is sent."""
        self.compression = Samples(windows)
        """Bytes of each batch as it is sent, by those that it had before."""
        self.retried = Samples(windows)
        self.lost = Samples(windows)


class SendingMetrics(ErrorCounts):
    """Of one producer. Its errors are those of partitions."""

    def __init__(self, windows: SampleWindows) -> None:
        super().__init__()
        self.topics: CountsByName[str, SentTopicMetrics] = CountsByName(lambda: SentTopicMetrics(windows))
        self.queue_ms = Samples(windows)
        """How long a batch was in the producer before it left for the first time."""
        self.requests = Samples(windows)
        """Records of each request."""
        self.splits = Samples(windows)
        self.no_room = Samples(windows)
        """Calls that found no room in the buffer within ``max.block.ms``."""
        self.blocked_ms: Counter[str] = Counter()
        """How long calls waited, by what for: ``buffer``, ``metadata``, ``flush``, and the calls of transactions."""

    def left(self, topic: str, records: int, size: int, queued_ms: int, now_ms: int) -> None:
        """Count a batch of ``size`` bytes that leaves for the first time."""
        of_topic = self.topics[topic]
        of_topic.records.record(records, now_ms)
        of_topic.bytes.record(size, now_ms)
        self.queue_ms.record(queued_ms, now_ms)

    def compressed(self, topic: str, ratio: float, now_ms: int) -> None:
        """Count how much of a batch's size is left."""
        self.topics[topic].compression.record(ratio, now_ms)

    def tries_again(self, topic: str, records: int, now_ms: int) -> None:
        """Count a batch that is to be sent once more."""
        self.topics[topic].retried.record(records, now_ms)

    def gave_up(self, topic: str, records: int, now_ms: int) -> None:
        """Count a batch that failed."""
        self.topics[topic].lost.record(records, now_ms)
