"""Open connections: limits of their number and rate, muting, and idle timeouts.

Implements ``max.connections*``, ``max.connection.creation.rate`` and quotas of addresses (KIP-308, KIP-612). Kafka
delays a connection above ``max.connections``; here it is closed, as above ``max.connections.per.ip``. A connection
above the rate is delayed, as in Kafka, together with later connections on the same listener.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kohort.broker.cluster.security_store import StoredQuotas
from kohort.broker.connections.budgets import FrameBudget
from kohort.broker.connections.connection import Connection
from kohort.broker.request import Caller, ConnectionId, ReplyTo
from kohort.clock import Timers, earliest
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import ListenerLimits, inter_broker_listener, limits_of_listeners, parse_overrides
from kohort.config.options import INT_MAX
from kohort.notes import Note, debug, warning
from kohort.security.quotas.rates import QuotaWindow, Usage, UsageRate

NEVER: Final = -1
NO_LIMITS: Final = ListenerLimits()


class OpenConnections:
    """All open connections of a broker; connection ids are not reused."""

    def __init__(self, config: BrokerConfig, quotas: StoredQuotas) -> None:
        self._by_number: dict[ConnectionId, Connection] = {}
        self._config = config
        self._idle_ms = config.connections_max_idle_ms
        self._idle: Timers[ConnectionId] = Timers()
        self._muted: Timers[ConnectionId] = Timers()
        self._quotas = ConnectionQuotas(config, quotas)
        self.opened = 0
        self.frame_budget = FrameBudget(config.queued_max_request_bytes)

    def reconfigure(self, config: BrokerConfig) -> None:
        self._config = config
        self._quotas.reconfigure(config)

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, number: ConnectionId) -> Connection | None:
        return self._by_number.get(number)

    def values(self) -> Iterable[Connection]:
        return self._by_number.values()

    def __getitem__(self, number: ConnectionId) -> Connection:
        return self._by_number[number]

    @property
    def refused(self) -> int:
        return self._quotas.refused

    @property
    def wake_at_ms(self) -> int | None:
        """Time in ms of the next connection to close as idle or slow, or to unmute."""
        return earliest(self._idle.wake_at_ms, self._muted.wake_at_ms, self.frame_budget.wake_at_ms)

    def in_flight(self) -> list[ReplyTo]:
        return [c.in_flight for c in self._by_number.values() if c.in_flight is not None]

    def open(self, number: ConnectionId, caller: Caller, now_ms: int) -> Note | None:
        """Register a new connection, muted if it exceeds the rate; return the reason if it is rejected."""
        assert number not in self._by_number, "the server never reuses the id of a connection"
        admission = self._quotas.open(caller.host, caller.listener, now_ms)
        refusal = admission.refusal and warning(f"connection rejected: {admission.refusal}", "refused")
        if refusal and admission.at_ms <= now_ms:
            return refusal.about(caller.host)
        self.opened += 1
        connection = self._by_number[number] = Connection(number, caller, self._config, now_ms)
        connection.refused = refusal or None
        if admission.at_ms > now_ms:
            self.mute(connection, admission.at_ms)
            connection.paused = True
        if self._idle_ms != NEVER:
            self._idle.set(number, now_ms + self._idle_ms)
        return None

    def close(self, number: ConnectionId) -> Connection | None:
        """Remove and return a closed connection. The caller frees its frame budget."""
        connection = self._by_number.pop(number, None)
        if connection is not None:
            connection.closed = True
            self._quotas.close(connection.host, connection.caller.listener)
            self._idle.cancel(number)
            self._muted.cancel(number)
        return connection

    def mute(self, connection: Connection, until_ms: int) -> None:
        """Stop serving and reading a connection until ``until_ms``, or until a longer mute ends."""
        connection.muted_until_ms = max(connection.muted_until_ms or 0, until_ms)
        self._muted.set(connection.connection_id, connection.muted_until_ms)

    def unmute_awaiting_keys(self) -> Iterator[Connection]:
        """Unmute and yield the connections whose SASL logins waited for OAUTHBEARER keys."""
        for connection in list(self._by_number.values()):
            if connection.login is not None and connection.login.awaits_keys:
                connection.muted_until_ms = None
                self._muted.cancel(connection.connection_id)
                yield connection

    def unmute_due(self, now_ms: int) -> Iterator[Connection]:
        """Unmute and yield the connections whose mute ended."""
        for number in list(self._muted.pop_due(now_ms)):
            connection = self._by_number.get(number)
            if connection is not None:  # the connection may have been closed during its mute
                connection.muted_until_ms = None
                yield connection

    def overdue(self, now_ms: int) -> Iterator[tuple[Connection, Note]]:
        """Yield connections that are idle or send a large request too slowly, each with the reason to close it."""
        for number in list(self._idle.pop_due(now_ms)):
            connection = self._by_number[number]
            since_ms = now_ms - connection.active_ms
            waits_for_us = (
                connection.in_flight is not None or connection.awaits_memory or connection.muted_until_ms is not None
            )
            if waits_for_us or since_ms < self._idle_ms:
                active_ms = now_ms if waits_for_us else connection.active_ms
                self._idle.set(number, active_ms + self._idle_ms)
            else:
                # at level debug: Kafka does not log closed idle connections
                yield connection, debug(f"idle for {since_ms} ms")
        for number in self.frame_budget.late(now_ms):
            connection = self._by_number[number]
            size = connection.reader.frame_bytes
            problem = (
                f"a request of {size} bytes arrives too slowly while other requests wait (queued.max.request.bytes)"
            )
            yield connection, warning(problem, "slow")


class Admission(NamedTuple):
    """Admission of a new connection: its delay, or the reason and time of its rejection."""

    at_ms: int
    refusal: str | None = None


class ConnectionQuotas:
    """Number and rate of the connections of each client address and each listener."""

    def __init__(self, config: BrokerConfig, kept: StoredQuotas) -> None:
        self.reconfigure(config)
        self._of_listeners = limits_of_listeners(config)
        self._inter_broker = inter_broker_listener(config)
        self._kept = kept
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._window = QuotaWindow(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._all = UsageRate()
        self._listeners: dict[str, UsageRate] = {}
        self._addresses = Usage(UsageRate, self._window)
        self._accepts_at_ms: dict[str, int] = {}
        """Time in ms at which each listener may serve its next new connection."""
        self.count = 0
        self.refused = 0

    def reconfigure(self, config: BrokerConfig) -> None:
        self._most = config.max_connections
        self._most_per_address = config.max_connections_per_ip
        self._overrides = parse_overrides(config.max_connections_per_ip_overrides)
        self._rate = config.max_connection_creation_rate

    def open(self, host: str, listener: str, now_ms: int) -> Admission:
        """Count a new connection and return its delay; a connection rejected at once is not counted."""
        refusal = self._too_many(host, listener)
        if refusal is not None:
            self.refused += 1
            return Admission(now_ms, refusal)
        self._by_address[host] += 1
        self._by_listener[listener] += 1
        self.count += 1
        at_ms = self._accepted_at(listener, now_ms)
        rate = self._kept.table.connection_rate(host)
        if rate is not None:
            delay_ms = self._delay_ms(self._addresses.of((host, ""), at_ms), rate, at_ms, takes_back=True)
            if delay_ms:
                self.refused += 1
                return Admission(at_ms + delay_ms, f"more than {rate:g} connections per second from this address")
        return Admission(at_ms)

    def close(self, host: str, listener: str) -> None:
        self.count -= 1
        for counter, key in ((self._by_address, host), (self._by_listener, listener)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def _too_many(self, host: str, listener: str) -> str | None:
        most_here = self._overrides.get(host, self._most_per_address)
        if self._by_address[host] >= most_here:
            return f"{most_here} connections from this address are open already (max.connections.per.ip)"
        if self.count >= self._most and listener != self._inter_broker:
            return f"{self.count} connections are open already (max.connections)"
        most = self._of_listeners.get(listener.lower(), NO_LIMITS).most
        if self._by_listener[listener] >= most:
            return (
                f"{most} connections to {listener} are open already (listener.name.{listener.lower()}.max.connections)"
            )
        return None

    def _accepted_at(self, listener: str, now_ms: int) -> int:
        of_listener = self._of_listeners.get(listener.lower(), NO_LIMITS).rate
        if self._rate == INT_MAX and of_listener == INT_MAX:
            return now_ms
        at_ms = max(now_ms, self._accepts_at_ms.get(listener, 0))
        waits_ms = 0
        if self._rate != INT_MAX:
            waits_ms = self._delay_ms(self._all, self._rate, at_ms)
        if of_listener != INT_MAX:
            rate = self._listeners.setdefault(listener, UsageRate())
            waits_ms = max(waits_ms, self._delay_ms(rate, of_listener, at_ms))
        self._accepts_at_ms[listener] = at_ms + waits_ms
        return at_ms + waits_ms

    def _delay_ms(self, rate: UsageRate, quota: float, now_ms: int, *, takes_back: bool = False) -> int:
        """Count a new connection in a measured rate; return the delay in ms, at most one quota window sample."""
        rate.record(1, now_ms, self._window)
        delay_ms = min(rate.throttle_ms(quota, now_ms, self._window), self._window.sample_ms)
        if delay_ms and takes_back:
            rate.record(-1, now_ms, self._window)
        return delay_ms
