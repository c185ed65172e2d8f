"""The connections that stand: who may have one, who is not served for a while, who was idle or slow for too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.broker.cluster.kept_quotas import KeptQuotas
from kohort.broker.connection_quotas import ConnectionQuotas
from kohort.broker.connections import Connection
from kohort.broker.frame_budget import FrameBudget
from kohort.broker.request import Caller, ConnectionId, ReplyTo
from kohort.clock import Timers, earliest
from kohort.config.broker import BrokerConfig
from kohort.notes import Note, debug, warning

NEVER: Final = -1


class OpenConnections:
    """Those of one broker, by their numbers, each of which is used once."""

    def __init__(self, config: BrokerConfig, quotas: KeptQuotas) -> None:
        self._by_number: dict[ConnectionId, Connection] = {}
        self._max_frame_bytes = config.socket_request_max_bytes
        self._idle_ms = config.connections_max_idle_ms
        self._idle: Timers[ConnectionId] = Timers()
        self._muted: Timers[ConnectionId] = Timers()
        self._quotas = ConnectionQuotas(config, quotas)
        self.opened = 0
        """How many were let in."""
        self.frame_budget = FrameBudget(config.queued_max_request_bytes)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Put changed options of the broker in force."""
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
        """How many were not let in."""
        return self._quotas.refused

    @property
    def wake_at_ms(self) -> int | None:
        """When somebody has been idle, slow or muted for long enough."""
        return earliest(self._idle.wake_at_ms, self._muted.wake_at_ms, self.frame_budget.wake_at_ms)

    def in_flight(self) -> list[ReplyTo]:
        """Return the requests that wait for their answers."""
        return [c.in_flight for c in self._by_number.values() if c.in_flight is not None]

    def open(self, number: ConnectionId, caller: Caller, now_ms: int) -> Note | None:
        """Let a connection stand, muted at first where it came too fast; or why it may not."""
        assert number not in self._by_number, "a connection's number is used once"
        admission = self._quotas.open(caller.host, caller.listener, now_ms)
        refusal = admission.refusal and warning(f"refused, {admission.refusal}", "refused")
        if refusal and admission.at_ms <= now_ms:
            return refusal.about(caller.host)
        self.opened += 1
        connection = self._by_number[number] = Connection(number, caller, self._max_frame_bytes, now_ms)
        connection.refused = refusal or None
        if admission.at_ms > now_ms:
            self.mute(connection, admission.at_ms)
            connection.paused = True
        if self._idle_ms != NEVER:
            self._idle.set(number, now_ms + self._idle_ms)
        return None

    def close(self, number: ConnectionId) -> Connection | None:
        """Forget a connection and return it, unless it was gone already. What it holds of the frame budget is freed by
        the caller."""
        connection = self._by_number.pop(number, None)
        if connection is not None:
            connection.closed = True
            self._quotas.close(connection.host, connection.caller.listener)
            self._idle.cancel(number)
            self._muted.cancel(number)
        return connection

    def mute(self, connection: Connection, until_ms: int) -> None:
        """Serve no request of a connection before ``until_ms``, nor read it; the later time holds."""
        connection.muted_until_ms = max(connection.muted_until_ms or 0, until_ms)
        self._muted.set(connection.connection_id, connection.muted_until_ms)

    def unmute_who_await_keys(self) -> Iterator[Connection]:
        """Yield the connections whose logins waited for keys: some have come."""
        for connection in list(self._by_number.values()):
            if connection.login is not None and connection.login.awaits_keys:
                connection.muted_until_ms = None
                self._muted.cancel(connection.connection_id)
                yield connection

    def unmute_due(self, now_ms: int) -> Iterator[Connection]:
        """Yield the connections that are served again from now on."""
        for number in list(self._muted.pop_due(now_ms)):
            connection = self._by_number.get(number)
            if connection is not None:  # it may have been closed since
                connection.muted_until_ms = None
                yield connection

    def overdue(self, now_ms: int) -> Iterator[tuple[Connection, Note]]:
        """Yield the connections that have to be closed, and why."""
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
                yield connection, debug(f"idle for {since_ms} ms")  # Kafka says nothing
        for number in self.frame_budget.late(now_ms):
            connection = self._by_number[number]
            size = connection.reader.frame_bytes
            problem = f"a request of {size} bytes comes too slowly while others wait (queued.max.request.bytes)"
            yield connection, warning(problem, "slow")
