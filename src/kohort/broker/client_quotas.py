"""Quotas of the clients of one broker (KIP-13, KIP-124, KIP-219, KIP-599).

Requests are measured only while a quota exists. The response to a client above its quota has a throttle time, during
which the client's requests are not served (protocol/security.md#throttle-times). Each broker measures for itself, so a
cluster of three brokers allows three times the quota, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kohort.broker.cluster.security_store import StoredQuotas
from kohort.broker.connections.connection import Connection
from kohort.broker.connections.open_connections import OpenConnections
from kohort.broker.counters import no_time
from kohort.broker.request import Answer, ConnectionId, ReplyTo, Request
from kohort.config.broker import BrokerConfig
from kohort.errors import ApiError, ErrorCode, ProtocolError
from kohort.notes import Note, info
from kohort.security.quotas.entities import Quota
from kohort.security.quotas.rates import QuotaWindow, TokenBucket, Usage, UsageRate
from kohort.security.quotas.table import Limit
from kohort.wire.apis import APIS, PRODUCE
from kohort.wire.headers import client_id_of
from kohort.wire.messages.transactions import WriteTxnMarkersRequest
from kohort.wire.schema import Message

NS_PER_PERCENT: Final = 10_000_000
"""Nanoseconds of processor time per second that a request quota of one percent allows."""
EXEMPT: Final = frozenset(key for key, api in APIS.items() if api.request is WriteTxnMarkersRequest)
BYTES_MAX: Final = 0x7FFFFFFF
A = TypeVar("A", bound=Answer)


class Throttle(NamedTuple):
    """Throttle time of a client in ms, and the quota that the client exceeded."""

    ms: int = 0
    quota: Quota = Quota.REQUEST_TIME
    value: float = 0.0


NO_THROTTLE: Final = Throttle()


@dataclass(slots=True, eq=False)
class RequestUsage:
    user: str
    client_id: str
    size: int
    spent_ns: int = 0
    since_ns: int | None = None
    throttle: Throttle = NO_THROTTLE
    is_measured: bool = False


class ClientQuotas:
    def __init__(self, config: BrokerConfig, kept: StoredQuotas) -> None:
        self.kept = kept
        self._window = window = QuotaWindow(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._rates = {quota: Usage(UsageRate, window) for quota in (Quota.PRODUCED, Quota.FETCHED, Quota.REQUEST_TIME)}
        self._changes = Usage(
            TokenBucket,
            QuotaWindow(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
        )
        self.in_flight: dict[ConnectionId, RequestUsage] = {}
        self.thread_time_ns: Callable[[], int] = no_time
        """Function that returns the processor time of the broker's thread; the server sets it."""
        self.throttled_ms: dict[Quota, int] = dict.fromkeys(Quota, 0)

    # ------------------------------------------------------------ requests in flight

    def begin(self, connection: ConnectionId, user: str, client_id: str, size: int) -> None:
        self.in_flight[connection] = RequestUsage(user, client_id, size, since_ns=self.thread_time_ns())

    def work(self, connection: ConnectionId) -> None:
        usage = self.in_flight.get(connection)
        if usage is not None:
            usage.since_ns = self.thread_time_ns()

    def rest(self, connection: ConnectionId) -> None:
        """Pause the measurement of a request's processor time while the request waits."""
        usage = self.in_flight.get(connection)
        if usage is not None:
            self._stop(usage)

    def settle(self, connection: ConnectionId, api_key: int, message: Message | None, now_ms: int) -> Throttle:
        """Count an answered request towards the quotas of its client; return the client's throttle time.

        ``message`` of None: the request has no response, and its processor time is not counted.
        """
        usage = self.in_flight.pop(connection, None)
        if usage is None or api_key in EXEMPT:
            return NO_THROTTLE
        throttle = usage.throttle
        if api_key == PRODUCE:
            throttle = self._used(Quota.PRODUCED, usage, usage.size, now_ms)
        if message is not None:
            throttle = max(throttle, self._time(usage, now_ms))
        if throttle.ms:
            self.throttled_ms[throttle.quota] += throttle.ms
        return throttle

    # ------------------------------------------------------------ bytes and partitions that handlers count

    def most_fetched(self, request: Request) -> int:
        """Return the maximum bytes of one Fetch response: the bytes that the client's quota allows in one window."""
        usage = self.in_flight.get(request.reply_to.connection)
        limit = usage and self.kept.table.limit(Quota.FETCHED, usage.user, usage.client_id)
        if not limit:
            return BYTES_MAX
        return int(min(limit.value * (self._window.samples - 1) * self._window.sample_ms / 1000, BYTES_MAX))

    def fetched(self, request: Request, size: int) -> int:
        """Count a Fetch response towards the client's consumer quota; return the throttle time in ms.

        If throttled, the response has no records, and its bytes are not counted.
        """
        usage = self.in_flight.get(request.reply_to.connection)
        if usage is None:
            return 0
        now_ms = request.now_ms
        usage.throttle = max(self._used(Quota.FETCHED, usage, size, now_ms), self._time(usage, now_ms))
        if usage.throttle.ms and (limit := self.kept.table.limit(Quota.FETCHED, usage.user, usage.client_id)):
            self._rate(Quota.FETCHED, limit, now_ms).record(-size, now_ms, self._window)
        return usage.throttle.ms

    def change_partitions(self, request: Request, count: int, *, strict: bool) -> None:
        """Count created or deleted partitions towards the client's mutation quota.

        Above the quota, ``strict`` raises ApiError; without it, the client is throttled.
        """
        usage = self.in_flight.get(request.reply_to.connection)
        limit = usage and self.kept.table.limit(Quota.MUTATIONS, usage.user, usage.client_id)
        if not usage or not limit:
            return
        now_ms, window = request.now_ms, self._changes.window
        bucket = self._changes.of((limit.user, limit.client_id), now_ms)
        if not strict:
            bucket.take(count, limit.value, now_ms, window)
        missing_ms = bucket.throttle_ms(limit.value, now_ms, window)
        if missing_ms:
            usage.throttle = max(usage.throttle, Throttle(missing_ms, Quota.MUTATIONS, limit.value))
        if strict:
            if missing_ms:
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            bucket.take(count, limit.value, now_ms, window)

    # ------------------------------------------------------------ processor time and other measured rates

    def _used(self, quota: Quota, usage: RequestUsage, used: float, now_ms: int) -> Throttle:
        limit = self.kept.table.limit(quota, usage.user, usage.client_id)
        if limit is None:
            return NO_THROTTLE
        rate = self._rate(quota, limit, now_ms)
        rate.record(used, now_ms, self._window)
        return Throttle(rate.throttle_ms(limit.value, now_ms, self._window), quota, limit.value)

    def _time(self, usage: RequestUsage, now_ms: int) -> Throttle:
        """Count a request's processor time towards the quota; return the throttle time, at most a sample window."""
        if usage.is_measured:
            return NO_THROTTLE
        self._stop(usage)
        usage.is_measured = True
        throttle = self._used(Quota.REQUEST_TIME, usage, usage.spent_ns / NS_PER_PERCENT, now_ms)
        return throttle._replace(ms=min(throttle.ms, self._window.sample_ms))

    def _rate(self, quota: Quota, limit: Limit, now_ms: int) -> UsageRate:
        return self._rates[quota].of((limit.user, limit.client_id), now_ms)

    def _stop(self, usage: RequestUsage) -> None:
        if usage.since_ns is not None:
            usage.spent_ns += self.thread_time_ns() - usage.since_ns
            usage.since_ns = None


class Throttling:
    """Measures the requests of all connections for the quotas, and throttles clients."""

    def __init__(self, quotas: ClientQuotas, connections: OpenConnections) -> None:
        self._quotas = quotas
        self._connections = connections
        self._notes: list[Note] = []

    def begin(self, connection: Connection, frame: bytes | bytearray) -> None:
        try:
            client_id, _ = client_id_of(frame)
        except ProtocolError:
            return  # the frame is malformed: dispatch rejects it
        user = connection.caller.principal.name
        self._quotas.begin(connection.connection_id, user, client_id or "", len(frame))

    def settle(self, reply_to: ReplyTo, answer: A, now_ms: int) -> A:
        """Count an answered request towards its quotas; return the answer with the client's throttle time."""
        number = reply_to.connection
        usage = self._quotas.in_flight.get(number)
        connection = self._connections.get(number)
        message = answer if isinstance(answer, Message) else None
        throttle = self._quotas.settle(number, reply_to.api_key, message, now_ms)
        if usage is None or connection is None or not throttle.ms:
            return answer
        self._connections.mute(connection, now_ms + throttle.ms)
        text = (
            f"client {usage.client_id!r} of user {usage.user!r} is throttled for {throttle.ms} ms "
            f"({throttle.quota}={throttle.value:g})"
        )
        self._notes.append(info(text, "throttled").about(connection.host))
        if hasattr(answer, "throttle_time_ms"):
            answer = copy(answer)
            setattr(answer, "throttle_time_ms", throttle.ms)  # noqa: B010 - frozen for the type checker alone
        return answer

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes
