"""What a consumer counts: polls, what they handed out, fetches, rebalances.

Counted by the poll and by the fetched piece, never by the record. What is known anyway, such as lag, is not counted but
looked up when somebody asks.
"""

from __future__ import annotations

from collections import defaultdict

from kohort.client.metrics.bounded import CountsByName
from kohort.client.metrics.samples import Samples, SampleWindows
from kohort.client.metrics.traffic import ErrorCounts


class ReadTopicMetrics:
    """What was read of one topic."""

    __slots__ = ("bytes", "records")

    def __init__(self, windows: SampleWindows) -> None:
        self.records = Samples(windows)
        """Of each piece that was handed out."""
        self.bytes = Samples(windows)
        """Of each piece that was fetched of a partition, as it came."""


class PollMetrics:
    """When the user polls, and for how long. Listeners are the user's own work."""

    __slots__ = ("at_ms", "idle", "interval", "is_inside", "last_ms")

    def __init__(self, windows: SampleWindows) -> None:
        self.interval = Samples(windows)
        """Milliseconds from the begin of one poll to that of the next."""
        self.idle = Samples(windows)
        """Milliseconds in polls, where there were any."""
        self.last_ms: int | None = None
        """When the last poll began."""
        self.at_ms: int = 0
        """When a poll was entered or left last."""
        self.is_inside = False

    def entered(self, now_ms: int) -> None:
        """Note that a poll begins."""
        if self.last_ms is not None:
            self.interval.record(now_ms - self.last_ms, now_ms)
        self.last_ms = self.at_ms = now_ms
        self.is_inside = True

    def resumed(self, now_ms: int) -> None:
        """Note that a poll goes on: the listener has returned."""
        self.at_ms = now_ms
        self.is_inside = True

    def left(self, now_ms: int) -> None:
        """Note that a poll is over, or that a listener is called."""
        if self.is_inside:
            self.is_inside = False
            if now_ms != self.at_ms:
                self.idle.record(now_ms - self.at_ms, now_ms)
                self.at_ms = now_ms


class RebalanceMetrics:
    """Rebalances as this member saw them: from its first request to its assignment."""

    __slots__ = ("began_ms", "ended_ms", "failed", "latency", "reason")

    def __init__(self, windows: SampleWindows) -> None:
        self.latency = Samples(windows)
        """Milliseconds of those that came to an assignment."""
        self.failed = Samples(windows)
        """Joins and syncs that were refused or not answered, and members that fell out of their group meanwhile."""
        self.reason = ""
        """Why the last one began, in words."""
        self.began_ms: int | None = None
        """When the one that is under way began."""
        self.ended_ms: int | None = None
        """When the last one came to an assignment."""

    def began(self, reason: str, now_ms: int) -> None:
        """Note that one begins; nothing if one is under way."""
        if self.began_ms is None:
            self.began_ms, self.reason = now_ms, reason

    def ended(self, now_ms: int) -> None:
        """Note that the one under way has come to an assignment; nothing if none is."""
        if self.began_ms is not None:
            self.latency.record(now_ms - self.began_ms, now_ms)
            self.began_ms, self.ended_ms = None, now_ms

    def failed_once(self, now_ms: int) -> None:
        """Count an attempt that came to nothing; the rebalance goes on with the next."""
        self.failed.record(1, now_ms)


class ReadingMetrics(ErrorCounts):
    """Of one consumer. Its errors are those of partitions."""

    def __init__(self, windows: SampleWindows | None = None) -> None:
        super().__init__()
        windows = windows or SampleWindows()
        self.polls = PollMetrics(windows)
        self.topics: CountsByName[str, ReadTopicMetrics] = CountsByName(lambda: ReadTopicMetrics(windows))
        self.fetched = Samples(windows)
        """Bytes of each answer that brought records, of all its partitions."""
        self.rebalances = RebalanceMetrics(windows)
        self.listeners: defaultdict[str, Samples] = defaultdict(lambda: Samples(windows))
        """Milliseconds that the listener took, by what it was told: revoked, assigned, lost."""
        self.blocked_ms: dict[str, int] = {"commit": 0, "committed": 0}
        """How long calls waited for the coordinator."""

    def brought(self, topic: str, size: int, now_ms: int) -> None:
        """Count bytes that were fetched of a partition."""
        self.topics[topic].bytes.record(size, now_ms)
