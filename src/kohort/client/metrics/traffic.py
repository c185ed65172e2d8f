"""What goes to brokers and comes back: requests by API and by node, bytes, connections, and what went wrong.

The engine and its connections count here, once for a request and once for its answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final, NamedTuple

from kohort.client.metrics.bounded import CountsByName
from kohort.client.metrics.samples import Samples, SampleWindows
from kohort.errors import ErrorCode, KohortError, error_code
from kohort.wire.messages.group_classic import JoinGroupRequest, SyncGroupRequest
from kohort.wire.schema import Message

Api = type[Message]
"""An API, by its request."""
JOINING: Final[frozenset[Api]] = frozenset({JoinGroupRequest, SyncGroupRequest})
"""Only those of them that were not refused count for how long a join takes, as in Kafka."""


class ErrorCounts:
    """How often requests, or parts of them, failed or were refused: by API and kind of error, which is Kafka's name of
    the code, or the class of what became of the connection."""

    def __init__(self) -> None:
        self.errors: Counter[tuple[Api, str]] = Counter()

    def refused(self, api: Api, code: ErrorCode) -> None:
        """Count an error that a broker answered, for a request or for a part of it."""
        self.errors[api, code.name] += 1

    def failed(self, api: Api, error: KohortError) -> None:
        """Count a request that got no answer."""
        self.errors[api, type(error).__name__] += 1


class Answer(NamedTuple):
    """What is counted of one answer."""

    size: int
    waited_ms: int
    code: int
    """The error for the request as a whole, if the answer has such."""
    throttle_ms: int


class ApiMetrics:
    """The requests of one API."""

    __slots__ = ("accepted", "latency", "refused", "sent", "sent_at_ms", "throttle")

    def __init__(self, windows: SampleWindows) -> None:
        self.sent = 0
        self.sent_at_ms: int | None = None
        """When the last one was written."""
        self.latency = Samples(windows)
        """Milliseconds from writing it to its answer."""
        self.accepted = Samples(windows)
        """The same of joins and syncs that were not refused."""
        self.refused = 0
        """Answers with an error for the request as a whole."""
        self.throttle = Samples(windows)
        """Milliseconds for which brokers held up this client, where they did."""


class NodeMetrics:
    """What one node was asked, and what it answered."""

    __slots__ = ("_traffic", "closed", "latency", "opened", "received", "sent")

    def __init__(self, traffic: TrafficMetrics) -> None:
        self._traffic = traffic
        self.opened = Samples(traffic.windows)
        """Connections."""
        self.closed = Samples(traffic.windows)
        self.sent = Samples(traffic.windows)
        """Bytes of each request."""
        self.received = Samples(traffic.windows)
        """Bytes of each answer."""
        self.latency = Samples(traffic.windows)
        """Milliseconds from writing a request to its answer."""

    def asked(self, api: Api, size: int, now_ms: int) -> None:
        """Count a request that was written."""
        self.sent.record(size, now_ms)
        of_api = self._traffic.apis[api]
        of_api.sent += 1
        of_api.sent_at_ms = now_ms

    def answered(self, api: Api, answer: Answer, now_ms: int) -> None:
        """Count an answer, and what it says of the request as a whole."""
        size, waited_ms, code, throttle_ms = answer
        self.received.record(size, now_ms)
        self.latency.record(waited_ms, now_ms)
        of_api = self._traffic.apis[api]
        of_api.latency.record(waited_ms, now_ms)
        if not code:
            if api in JOINING:
                of_api.accepted.record(waited_ms, now_ms)
        elif code != ErrorCode.MEMBER_ID_REQUIRED:  # the member is told its id, and joins with it (KIP-394)
            of_api.refused += 1
            self._traffic.refused(api, error_code(code))
        if throttle_ms:
            of_api.throttle.record(throttle_ms, now_ms)


class TrafficMetrics(ErrorCounts):
    """Of one client, with all nodes."""

    def __init__(self, windows: SampleWindows) -> None:
        super().__init__()
        self.windows = windows
        self.apis: defaultdict[Api, ApiMetrics] = defaultdict(lambda: ApiMetrics(windows))
        self.nodes: CountsByName[int, NodeMetrics] = CountsByName(lambda: NodeMetrics(self))
        self.logins = Samples(windows)
        self.failed_logins = Samples(windows)
