"""Login check: a login that starts after the removal of its user fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kohort.broker.cluster.security_store import SecurityStore
from kohort.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeRequest
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.world import World


class KnownUsers(Watcher):
    """Removed users with the time of the removal, and the start of each link's login."""

    hears_all = True

    def __init__(self, world: World, users: Mapping[str, str]) -> None:
        self._world = world
        self._users = users
        self._section: list[Any] = []
        self._removed_ms: dict[str, int] = {}
        self._began_ms: dict[int, int] = {}
        self.security: Callable[[], SecurityStore | None] = lambda: None
        self.refused = 0
        """Number of correctly rejected logins."""
        self.answered_ms: dict[str, int] = {}
        """Time of each client's last login response.

        A client pauses before a retry, and then looks up its coordinator.
        """

    def look(self) -> None:
        """Update the removed users."""
        security = self.security()
        if security is not None and (section := security.section("users")) is not self._section:
            self._section = section
            self._removed_ms = self._removal_times(user["name"] for user in section)

    def _removal_times(self, there: Iterable[str]) -> dict[str, int]:
        removed = sorted({*self._users.values()} - {*there})
        return {user: self._removed_ms.get(user, self._world.now_ms) for user in removed}

    def requested(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, SaslHandshakeRequest):
            self._began_ms[exchange.link_id] = exchange.sent_ms

    def answered(self, exchange: Exchange) -> None:
        self.look()
        if isinstance(exchange.answer, SaslAuthenticateResponse):
            self.answered_ms[exchange.client] = exchange.answered_ms
            self.check_user_exists(exchange.client, self._began_ms[exchange.link_id], exchange.error)

    def check_user_exists(self, client: str, began_ms: int, error: int) -> None:
        """Check that a login fails if its user was removed before its start."""
        removed_ms = self._removed_ms.get(self._users.get(client, ""))
        if removed_ms is None or began_ms <= removed_ms:
            return
        if not error:
            raise CheckFailed(f"{client} logs in, but its user was removed before")
        self.refused += 1
