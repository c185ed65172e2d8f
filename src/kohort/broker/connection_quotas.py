"""How many connections may stand, in all and from one address: Kafka's ``max.connections*``.

Kafka lets a connection above ``max.connections`` wait to be accepted; here it is closed like one above
``max.connections.per.ip``, which tells its peer and costs no handle.
"""

from __future__ import annotations

from collections import Counter

from kohort.config.broker import BrokerConfig
from kohort.config.connection_limits import parse_overrides


class ConnectionQuotas:
    """Counts connections by address."""

    def __init__(self, config: BrokerConfig) -> None:
        self._most = config.max_connections
        self._most_per_address = config.max_connections_per_ip
        self._overrides = parse_overrides(config.max_connections_per_ip_overrides)
        self._by_address: Counter[str] = Counter()
        self.count = 0
        self.refused = 0

    def open(self, host: str) -> str | None:
        """Count a connection from ``host``; or why it may not stand, and then it is not counted."""
        most_here = self._overrides.get(host, self._most_per_address)
        refusal = None
        if self._by_address[host] >= most_here:
            refusal = f"{most_here} connections from this address stand already (max.connections.per.ip)"
        elif self.count >= self._most:
            refusal = f"{self.count} connections stand already (max.connections)"
        if refusal is not None:
            self.refused += 1
            return refusal
        self._by_address[host] += 1
        self.count += 1
        return None

    def close(self, host: str) -> None:
        """Uncount a connection that is gone."""
        self.count -= 1
        self._by_address[host] -= 1
        if not self._by_address[host]:
            del self._by_address[host]
