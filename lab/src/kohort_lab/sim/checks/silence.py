"""Heartbeat check: members of a settled group send heartbeats at their interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupResponse, SyncGroupRequest
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

SLACK_MS: Final = 2_000


class Silence(Watcher):
    """Time of each client's last heartbeat or join.

    A frozen process gets its JoinGroup response later, and sends its SyncGroup then.
    """

    def __init__(self) -> None:
        self.contact_ms: dict[str, int] = {}

    def requested(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, (HeartbeatRequest, SyncGroupRequest)):
            self.contact_ms[exchange.client] = exchange.sent_ms

    def answered(self, exchange: Exchange) -> None:
        if isinstance(exchange.answer, JoinGroupResponse):
            self.contact_ms[exchange.client] = exchange.answered_ms

    def check_contacts(self, clients: Iterable[str], interval_ms: int, now_ms: int) -> None:
        """Check in the calm phase that no member is silent for longer than ``interval_ms``, which includes network
        delay.
        """
        for client in clients:
            silent_ms = now_ms - self.contact_ms.get(client, now_ms)
            if silent_ms > interval_ms + SLACK_MS:
                raise CheckFailed(
                    f"{client} has sent no heartbeat for {silent_ms} ms; its interval is {interval_ms} ms"
                )
