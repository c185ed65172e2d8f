"""How many connections may stand, and how fast they may come: Kafka's ``max.connections*``, its
``max.connection.creation.rate``, and the quotas of addresses (KIP-308, KIP-612).

Kafka lets a connection above ``max.connections`` wait to be accepted; here it is closed like one above
``max.connections.per.ip``, which tells its peer and costs no handle. A connection that comes too fast waits as in
Kafka: nothing is read of it, and those that come after it on the same listener wait for it.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from kohort.broker.cluster.kept_quotas import KeptQuotas
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import ListenerLimits, inter_broker_listener, limits_of_listeners, parse_overrides
from kohort.config.options import INT_MAX
from kohort.security.quotas.rates import QuotaWindow, Usage, UsageRate

NO_LIMITS: Final = ListenerLimits()


class Admission(NamedTuple):
    """What becomes of a new connection: nothing of it is read before ``at_ms``, and with ``refusal`` it is closed
    then."""

    at_ms: int
    refusal: str | None = None


class ConnectionQuotas:
    """Counts connections by address and by listener, and measures how fast they come."""

    def __init__(self, config: BrokerConfig, kept: KeptQuotas) -> None:
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
        """When each listener takes its next connection."""
        self.count = 0
        self.refused = 0

    def reconfigure(self, config: BrokerConfig) -> None:
        """Put changed options of the broker in force; open connections stay."""
        self._most = config.max_connections
        self._most_per_address = config.max_connections_per_ip
        self._overrides = parse_overrides(config.max_connections_per_ip_overrides)
        self._rate = config.max_connection_creation_rate

    def open(self, host: str, listener: str, now_ms: int) -> Admission:
        """Count a connection from ``host`` to ``listener``; one that is refused at once is not counted."""
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
            held_up_ms = self._held_up(self._addresses.of((host, ""), at_ms), rate, at_ms, takes_back=True)
            if held_up_ms:
                self.refused += 1
                return Admission(at_ms + held_up_ms, f"more than {rate:g} connections per second from this address")
        return Admission(at_ms)

    def close(self, host: str, listener: str) -> None:
        """Uncount a connection that is gone."""
        self.count -= 1
        for counter, key in ((self._by_address, host), (self._by_listener, listener)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def _too_many(self, host: str, listener: str) -> str | None:
        most_here = self._overrides.get(host, self._most_per_address)
        if self._by_address[host] >= most_here:
            return f"{most_here} connections from this address stand already (max.connections.per.ip)"
        if self.count >= self._most and listener != self._inter_broker:
            return f"{self.count} connections stand already (max.connections)"
        most = self._of_listeners.get(listener.lower(), NO_LIMITS).most
        if self._by_listener[listener] >= most:
            return f"{most} connections to {listener} stand already (listener.name.{listener.lower()}.max.connections)"
        return None

    def _accepted_at(self, listener: str, now_ms: int) -> int:
        """Return when a listener takes the connection that comes now."""
        of_listener = self._of_listeners.get(listener.lower(), NO_LIMITS).rate
        if self._rate == INT_MAX and of_listener == INT_MAX:
            return now_ms
        at_ms = max(now_ms, self._accepts_at_ms.get(listener, 0))
        waits_ms = 0
        if self._rate != INT_MAX:
            waits_ms = self._held_up(self._all, self._rate, at_ms)
        if of_listener != INT_MAX:
            rate = self._listeners.setdefault(listener, UsageRate())
            waits_ms = max(waits_ms, self._held_up(rate, of_listener, at_ms))
        self._accepts_at_ms[listener] = at_ms + waits_ms
        return at_ms + waits_ms

    def _held_up(self, rate: UsageRate, quota: float, now_ms: int, *, takes_back: bool = False) -> int:
        """Count a connection; for how long it has to wait, which is one sample at most."""
        rate.record(1, now_ms, self._window)
        held_up_ms = min(rate.throttle_ms(quota, now_ms, self._window), self._window.sample_ms)
        if held_up_ms and takes_back:
            rate.record(-1, now_ms, self._window)
        return held_up_ms
