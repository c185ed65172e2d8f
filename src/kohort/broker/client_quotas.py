"""What the clients of one broker use of what they may (KIP-13, KIP-124, KIP-219, KIP-599).

A request is measured only if anybody has a quota when it is taken up. Whoever goes over a quota is answered at once,
told for how long it is held up, and not served meanwhile (protocol/security.md#throttle-times). A broker measures for
itself: a quota of a cluster of three is three times as much, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kohort.broker.cluster.security_store import KeptQuotas
from kohort.broker.connections.connection import Connection
from kohort.broker.connections.open_connections import OpenConnections
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
"""A hundredth of a second of one thread, in nanoseconds."""
EXEMPT: Final = frozenset(key for key, api in APIS.items() if api.request is WriteTxnMarkersRequest)
"""Requests between brokers."""
BYTES_MAX: Final = 0x7FFFFFFF
A = TypeVar("A", bound=Answer)


class HeldUp(NamedTuple):
    """Throttle time, and the quota behind it."""

    ms: int = 0
    quota: Quota = Quota.REQUEST_TIME
    value: float = 0.0


NOT_HELD_UP: Final = HeldUp()


@dataclass(slots=True, eq=False)
class Charge:
    """A request in flight: user, client id, size, cost so far."""

    user: str
    client_id: str
    size: int
    spent_ns: int = 0
    since_ns: int | None = None
    held_up: HeldUp = NOT_HELD_UP
    is_measured: bool = False


def no_time() -> int:
    """Measure nothing: no request takes any time."""
    return 0


class ClientQuotas:
    def __init__(self, config: BrokerConfig, kept: KeptQuotas) -> None:
        self.kept = kept
        window = QuotaWindow(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._window = window
        self._rates = {quota: Usage(UsageRate, window) for quota in (Quota.PRODUCED, Quota.FETCHED, Quota.REQUEST_TIME)}
        self._changes = Usage(
            TokenBucket,
            QuotaWindow(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
        )
        self.under_way: dict[ConnectionId, Charge] = {}
        self.thread_time_ns: Callable[[], int] = no_time
        """What says how long the thread has worked; given by whoever runs the broker."""
        self.throttled_ms: dict[Quota, int] = dict.fromkeys(Quota, 0)
        """How long clients were held up in all, by quota."""

    # ------------------------------------------------------------ a request under way

    def begin(self, connection: ConnectionId, user: str, client_id: str, size: int) -> None:
        """Measure a request of so many bytes from now on."""
        self.under_way[connection] = Charge(user, client_id, size, since_ns=self.thread_time_ns())

    def work(self, connection: ConnectionId) -> None:
        charge = self.under_way.get(connection)
        if charge is not None:
            charge.since_ns = self.thread_time_ns()

    def rest(self, connection: ConnectionId) -> None:
        """Note that it waits."""
        charge = self.under_way.get(connection)
        if charge is not None:
            self._stop(charge)

    def settle(self, connection: ConnectionId, api_key: int, message: Message | None, now_ms: int) -> HeldUp:
        """Count a request that is answered now; for how long its client is held up.

        Without a ``message`` it is one that nobody answers, whose time is not counted.
        """
        charge = self.under_way.pop(connection, None)
        if charge is None or api_key in EXEMPT:
            return NOT_HELD_UP
        held_up = charge.held_up
        if api_key == PRODUCE:
            held_up = self._used(Quota.PRODUCED, charge, charge.size, now_ms)
        if message is not None:
            held_up = max(held_up, self._time(charge, now_ms))
        if held_up.ms:
            self.throttled_ms[held_up.quota] += held_up.ms
        return held_up

    # ------------------------------------------------------------ what handlers ask

    def most_fetched(self, request: Request) -> int:
        """Return how many bytes one answer to a fetch may have: no more than the quota lets through in a window."""
        charge = self.under_way.get(request.reply_to.connection)
        limit = charge and self.kept.table.limit(Quota.FETCHED, charge.user, charge.client_id)
        if not limit:
            return BYTES_MAX
        return int(min(limit.value * (self._window.samples - 1) * self._window.sample_ms / 1000, BYTES_MAX))

    def fetched(self, request: Request, size: int) -> int:
        """Count an answer to a fetch before it is given; for how long the client is held up. If it is, the answer is
        not given, and not counted."""
        charge = self.under_way.get(request.reply_to.connection)
        if charge is None:
            return 0
        now_ms = request.now_ms
        charge.held_up = max(self._used(Quota.FETCHED, charge, size, now_ms), self._time(charge, now_ms))
        if charge.held_up.ms:
            self._take_back(charge, size, now_ms)
        return charge.held_up.ms

    def change_partitions(self, request: Request, count: int, *, strict: bool) -> None:
        """Count partitions that are made or deleted. Raises ApiError where the client has made too many and is told so:
        ``strict``; or else they are let pass, and the client is held up."""
        charge = self.under_way.get(request.reply_to.connection)
        limit = charge and self.kept.table.limit(Quota.MUTATIONS, charge.user, charge.client_id)
        if not charge or not limit:
            return
        now_ms, window = request.now_ms, self._changes.window
        bucket = self._changes.of((limit.user, limit.client_id), now_ms)
        if not strict:
            bucket.take(count, limit.value, now_ms, window)
        missing_ms = bucket.throttle_ms(limit.value, now_ms, window)
        if missing_ms:
            charge.held_up = max(charge.held_up, HeldUp(missing_ms, Quota.MUTATIONS, limit.value))
        if strict:
            if missing_ms:
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            bucket.take(count, limit.value, now_ms, window)

    # ------------------------------------------------------------ measuring

    def _used(self, quota: Quota, charge: Charge, used: float, now_ms: int) -> HeldUp:
        limit = self.kept.table.limit(quota, charge.user, charge.client_id)
        if limit is None:
            return NOT_HELD_UP
        rate = self._rate(quota, limit, now_ms)
        rate.record(used, now_ms, self._window)
        return HeldUp(rate.throttle_ms(limit.value, now_ms, self._window), quota, limit.value)

    def _time(self, charge: Charge, now_ms: int) -> HeldUp:
        """Count the processor time of a request; the delay is at most one sample."""
        if charge.is_measured:
            return NOT_HELD_UP
        self._stop(charge)
        charge.is_measured = True
        held_up = self._used(Quota.REQUEST_TIME, charge, charge.spent_ns / NS_PER_PERCENT, now_ms)
        return held_up._replace(ms=min(held_up.ms, self._window.sample_ms))

    def _take_back(self, charge: Charge, used: float, now_ms: int) -> None:
        limit = self.kept.table.limit(Quota.FETCHED, charge.user, charge.client_id)
        if limit is not None:
            self._rate(Quota.FETCHED, limit, now_ms).record(-used, now_ms, self._window)

    def _rate(self, quota: Quota, limit: Limit, now_ms: int) -> UsageRate:
        return self._rates[quota].of((limit.user, limit.client_id), now_ms)

    def _stop(self, charge: Charge) -> None:
        if charge.since_ns is not None:
            charge.spent_ns += self.thread_time_ns() - charge.since_ns
            charge.since_ns = None


class Throttling:
    """Between the requests of connections and what is measured of them."""

    def __init__(self, quotas: ClientQuotas, connections: OpenConnections) -> None:
        self._quotas = quotas
        self._connections = connections
        self._notes: list[Note] = []

    def begin(self, connection: Connection, frame: bytes | bytearray) -> None:
        """Measure the request in ``frame`` from now on."""
        try:
            client_id, _ = client_id_of(frame)
        except ProtocolError:
            return  # it will not be served either
        user = connection.caller.principal.name
        self._quotas.begin(connection.connection_id, user, client_id or "", len(frame))

    def settle(self, reply_to: ReplyTo, answer: A, now_ms: int) -> A:
        """Count a request that is measured, now that it is answered; return the answer, which says for how long the
        client is held up if it is."""
        number = reply_to.connection
        charge = self._quotas.under_way.get(number)
        connection = self._connections.get(number)
        message = answer if isinstance(answer, Message) else None
        held_up = self._quotas.settle(number, reply_to.api_key, message, now_ms)
        if charge is None or connection is None or not held_up.ms:
            return answer
        self._connections.mute(connection, now_ms + held_up.ms)
        self._notes.append(_throttled_note(charge.client_id, charge.user, held_up).about(connection.host))
        if hasattr(answer, "throttle_time_ms"):
            answer = copy(answer)
            setattr(answer, "throttle_time_ms", held_up.ms)  # noqa: B010 - frozen for the type checker alone
        return answer

    def take_notes(self) -> list[Note]:
        """Return lines for the broker's log, each given once."""
        notes, self._notes = self._notes, []
        return notes


def _throttled_note(client_id: str, user: str, held_up: HeldUp) -> Note:
    return info(
        f"client {client_id!r} of user {user!r} is throttled for {held_up.ms} ms ({held_up.quota}={held_up.value:g})",
        "throttled",
    )
