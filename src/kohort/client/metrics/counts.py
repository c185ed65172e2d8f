"""Counters for the metrics of one client. They count requests, batches, polls and rebalances, not single records."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple, TypeVar

from kohort.config.client import ClientConfig
from kohort.errors import ErrorCode, KohortError, error_code
from kohort.wire.messages.group_classic import JoinGroupRequest, SyncGroupRequest
from kohort.wire.schema import Message


class SampleWindows(NamedTuple):
    samples: int = 2
    window_ms: int = 30_000

    @classmethod
    def of(cls, config: ClientConfig) -> SampleWindows:
        return cls(config.metrics_num_samples, max(config.metrics_sample_window_ms, 1))


class _Window(NamedTuple):
    began_ms: int
    values: int
    sum: float
    maximum: float


class SampleSummary(NamedTuple):
    """Summary of one metric over the recent sample windows, and since the client started."""

    values: int
    sum: float
    maximum: float
    rate: float
    value_rate: float
    """Number of recorded values per second, over the recent sample windows."""
    total_count: int
    total: float

    @property
    def average(self) -> float:
        return self.sum / self.values if self.values else math.nan


class Samples:
    """Values of one metric in the last ``metrics.num.samples`` windows of ``metrics.sample.window.ms``.

    A rate is divided by the time that these windows cover. The first value after the end of a window begins a new
    window.
    """

    __slots__ = ("_began_ms", "_count", "_ends_ms", "_most", "_over", "_past_count", "_past_sum", "_sum", "_windows")

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._over: deque[_Window] = deque(maxlen=max(windows.samples - 1, 0))
        self._began_ms = self._ends_ms = 0
        self._count = 0
        self._sum: float = 0
        self._most: float = -math.inf
        self._past_count = 0
        self._past_sum: float = 0

    def record(self, value: float, now_ms: int) -> None:
        if now_ms >= self._ends_ms:
            self._begin(now_ms)
        self._count += 1
        self._sum += value
        if value > self._most:
            self._most = value

    def _begin(self, now_ms: int) -> None:
        if self._count:
            self._over.append(_Window(self._began_ms, self._count, self._sum, self._most))
            self._past_count += self._count
            self._past_sum += self._sum
        self._began_ms, self._ends_ms = now_ms, now_ms + self._windows.window_ms
        self._count, self._sum, self._most = 0, 0, -math.inf

    def summary(self, now_ms: int) -> SampleSummary:
        counts_from_ms = now_ms - self._windows.samples * self._windows.window_ms
        now = _Window(self._began_ms, self._count, self._sum, self._most)
        recent = [w for w in (*list(self._over), now) if w.values and w.began_ms > counts_from_ms]
        values, summed = sum(w.values for w in recent), sum(w.sum for w in recent)
        seconds = self._seconds(now_ms - recent[0].began_ms if recent else 0)
        return SampleSummary(
            values=values,
            sum=summed,
            maximum=max((w.maximum for w in recent), default=math.nan),
            rate=summed / seconds,
            value_rate=values / seconds,
            total_count=self._past_count + self._count,
            total=self._past_sum + self._sum,
        )

    def _seconds(self, covered_ms: int) -> float:
        """Return the length in seconds of all sample windows together. A rate is a sum divided by this time.

        As in Kafka, each earlier window counts with its full length, even a window that does not exist yet.
        """
        window_ms = self._windows.window_ms
        missing = self._windows.samples - 1 - covered_ms // window_ms
        return max(covered_ms + max(missing, 0) * window_ms, 1) / 1000


def merge(readings: Iterable[SampleSummary]) -> SampleSummary:
    found = list(readings)
    return SampleSummary(
        values=sum(r.values for r in found),
        sum=sum(r.sum for r in found),
        maximum=max((r.maximum for r in found if r.values), default=math.nan),
        rate=sum(r.rate for r in found),
        value_rate=sum(r.value_rate for r in found),
        total_count=sum(r.total_count for r in found),
        total=sum(r.total for r in found),
    )


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
MAX_NAMES: Final = 10_000


class CountsByName(dict[K, V]):
    """Dict that creates the counter of a missing key. It drops the oldest key if it would exceed ``limit`` keys."""

    __slots__ = ("_create", "_limit")

    def __init__(self, create: Callable[[], V], limit: int = MAX_NAMES) -> None:
        super().__init__()
        self._create = create
        self._limit = limit

    def __missing__(self, name: K) -> V:
        if len(self) >= self._limit:
            del self[next(iter(self))]
        created = self[name] = self._create()
        return created


Api = type[Message]
JOINING: Final[frozenset[Api]] = frozenset({JoinGroupRequest, SyncGroupRequest})
"""Requests that join a group. As in Kafka, join-time and sync-time count only successful requests."""


class ErrorCounts:
    """Number of failures for each pair of API and error. The error is named by its error code or exception class."""

    def __init__(self) -> None:
        self.errors: Counter[tuple[Api, str]] = Counter()

    def refused(self, api: Api, code: ErrorCode) -> None:
        self.errors[api, code.name] += 1

    def failed(self, api: Api, error: KohortError) -> None:
        self.errors[api, type(error).__name__] += 1


class ApiMetrics:
    __slots__ = ("accepted", "latency", "refused", "sent", "sent_at_ms", "throttle")

    def __init__(self, windows: SampleWindows) -> None:
        self.sent = 0
        self.sent_at_ms: int | None = None
        self.latency = Samples(windows)
        self.accepted = Samples(windows)
        self.refused = 0
        self.throttle = Samples(windows)


class NodeMetrics:
    __slots__ = ("_traffic", "closed", "latency", "opened", "received", "sent")

    def __init__(self, traffic: TrafficMetrics) -> None:
        self._traffic = traffic
        self.opened = Samples(traffic.windows)
        self.closed = Samples(traffic.windows)
        self.sent = Samples(traffic.windows)
        self.received = Samples(traffic.windows)
        self.latency = Samples(traffic.windows)

    def request_sent(self, api: Api, size: int, now_ms: int) -> None:
        self.sent.record(size, now_ms)
        of_api = self._traffic.apis[api]
        of_api.sent += 1
        of_api.sent_at_ms = now_ms

    def response_received(
        self, api: Api, size: int, waited_ms: int, now_ms: int, *, code: int, throttle_ms: int
    ) -> None:
        """Count a response; ``code``: error code of the whole response, 0 without an error."""
        self.received.record(size, now_ms)
        self.latency.record(waited_ms, now_ms)
        of_api = self._traffic.apis[api]
        of_api.latency.record(waited_ms, now_ms)
        if not code:
            if api in JOINING:
                of_api.accepted.record(waited_ms, now_ms)
        # the first join of every member gets MEMBER_ID_REQUIRED (KIP-394), so it is no failure
        elif code != ErrorCode.MEMBER_ID_REQUIRED:
            of_api.refused += 1
            self._traffic.refused(api, error_code(code))
        if throttle_ms > 0:
            of_api.throttle.record(throttle_ms, now_ms)


class TrafficMetrics(ErrorCounts):
    def __init__(self, windows: SampleWindows) -> None:
        super().__init__()
        self.windows = windows
        self.apis: defaultdict[Api, ApiMetrics] = defaultdict(lambda: ApiMetrics(windows))
        self.nodes: CountsByName[int, NodeMetrics] = CountsByName(lambda: NodeMetrics(self))
        self.logins = Samples(windows)
        self.failed_logins = Samples(windows)


class ReadTopicMetrics:
    __slots__ = ("bytes", "records")

    def __init__(self, windows: SampleWindows) -> None:
        self.records = Samples(windows)
        self.bytes = Samples(windows)


class PollMetrics:
    """Times of a consumer's polls, for metrics. Listener callbacks count as time between polls."""

    __slots__ = ("at_ms", "idle", "interval", "is_inside", "last_ms")

    def __init__(self, windows: SampleWindows) -> None:
        self.interval = Samples(windows)
        self.idle = Samples(windows)
        self.last_ms: int | None = None
        self.at_ms: int = 0
        self.is_inside = False

    def entered(self, now_ms: int) -> None:
        if self.last_ms is not None:
            self.interval.record(now_ms - self.last_ms, now_ms)
        self.last_ms = self.at_ms = now_ms
        self.is_inside = True

    def resumed(self, now_ms: int) -> None:
        self.at_ms = now_ms
        self.is_inside = True

    def left(self, now_ms: int) -> None:
        if self.is_inside:
            self.is_inside = False
            if now_ms != self.at_ms:
                self.idle.record(now_ms - self.at_ms, now_ms)
                self.at_ms = now_ms


class RebalanceMetrics:
    """Metrics of a member's rebalances; a rebalance lasts from its first request to the assignment."""

    __slots__ = ("began_ms", "ended_ms", "failed", "latency", "reason")

    def __init__(self, windows: SampleWindows) -> None:
        self.latency = Samples(windows)
        self.failed = Samples(windows)
        """Number of failed JoinGroup and SyncGroup requests, and of memberships that ended during a rebalance."""
        self.reason = ""
        self.began_ms: int | None = None
        self.ended_ms: int | None = None

    def began(self, reason: str, now_ms: int) -> None:
        if self.began_ms is None:
            self.began_ms, self.reason = now_ms, reason

    def ended(self, now_ms: int) -> None:
        if self.began_ms is not None:
            self.latency.record(now_ms - self.began_ms, now_ms)
            self.began_ms, self.ended_ms = None, now_ms

    def failed_attempt(self, now_ms: int) -> None:
        self.failed.record(1, now_ms)


class ReadingMetrics(ErrorCounts):
    def __init__(self, windows: SampleWindows | None = None) -> None:
        super().__init__()
        windows = windows or SampleWindows()
        self.polls = PollMetrics(windows)
        self.topics: CountsByName[str, ReadTopicMetrics] = CountsByName(lambda: ReadTopicMetrics(windows))
        self.fetched = Samples(windows)
        self.rebalances = RebalanceMetrics(windows)
        self.listeners: defaultdict[str, Samples] = defaultdict(lambda: Samples(windows))
        """Durations in ms of listener callbacks, for each kind of callback: revoked, assigned, lost."""
        self.blocked_ms: dict[str, int] = {"commit": 0, "committed": 0}


class SentTopicMetrics:
    __slots__ = ("bytes", "compression", "lost", "records", "retried")

    def __init__(self, windows: SampleWindows) -> None:
        self.records = Samples(windows)
        self.bytes = Samples(windows)
        self.compression = Samples(windows)
        """Compression ratio of each record batch: compressed bytes / uncompressed bytes."""
        self.retried = Samples(windows)
        self.lost = Samples(windows)


class SendingMetrics(ErrorCounts):
    def __init__(self, windows: SampleWindows) -> None:
        super().__init__()
        self.topics: CountsByName[str, SentTopicMetrics] = CountsByName(lambda: SentTopicMetrics(windows))
        self.queue_ms = Samples(windows)
        self.requests = Samples(windows)
        self.splits = Samples(windows)
        self.buffer_full = Samples(windows)
        """Number of ``send`` calls that failed because ``buffer.memory`` was full for ``max.block.ms``."""
        self.blocked_ms: Counter[str] = Counter()
        """Time in ms that producer calls were blocked, for each cause: buffer, metadata, flush, transaction calls."""

    def records_sent(self, topic: str, records: int, size: int, queued_ms: int, now_ms: int) -> None:
        of_topic = self.topics[topic]
        of_topic.records.record(records, now_ms)
        of_topic.bytes.record(size, now_ms)
        self.queue_ms.record(queued_ms, now_ms)
