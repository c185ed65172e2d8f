"""Nobody logs in whom the cluster does not know: a login that began after its user was removed fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kohort.broker.cluster.security_store import SecurityStore
from kohort.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeRequest
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.world import World


class KnownUsers(Watcher):
    """Which users are not there, since when, and when the login of each link began."""

    hears_all = True

    def __init__(self, world: World, users: Mapping[str, str]) -> None:
        self._world = world
        self._users = users
        self._section: list[Any] = []
        self._gone_ms: dict[str, int] = {}
        self._began_ms: dict[int, int] = {}
        self.security: Callable[[], SecurityStore | None] = lambda: None
        self.refused = 0
        """How many logins failed as they had to."""
        self.answered_ms: dict[str, int] = {}
        """When a login of each client was answered last, well or not: it waits a while before it tries again, or has
        just come back, and must find its coordinator."""

    def look(self) -> None:
        """See who is gone now."""
        security = self.security()
        if security is not None and (section := security.section("users")) is not self._section:
            self._section = section
            self._gone_ms = self._gone(user["name"] for user in section)

    def _gone(self, there: Iterable[str]) -> dict[str, int]:
        gone = sorted({*self._users.values()} - {*there})
        return {user: self._gone_ms.get(user, self._world.now_ms) for user in gone}

    def asked(self, exchange: Exchange) -> None:
        if isinstance(exchange.asked, SaslHandshakeRequest):
            self._began_ms[exchange.link_id] = exchange.sent_ms

    def answered(self, exchange: Exchange) -> None:
        self.look()
        if isinstance(exchange.answer, SaslAuthenticateResponse):
            self.answered_ms[exchange.client] = exchange.answered_ms
            self.check_known(exchange.client, self._began_ms[exchange.link_id], exchange.error)

    def check_known(self, client: str, began_ms: int, error: int) -> None:
        """Check that a token of a client is refused where its user was gone before its login began."""
        gone_ms = self._gone_ms.get(self._users.get(client, ""))
        if gone_ms is None or began_ms <= gone_ms:
            return
        if not error:
            raise CheckFailed(f"{client} is let in, and its user had been removed")
        self.refused += 1
