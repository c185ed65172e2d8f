"""The logins of one client in a simulated world: what ``aio`` does beside its loop, at once and from given chance."""

from __future__ import annotations

from kohort.client.requests.credentials import Credentials, exchange_by_password
from kohort.client.requests.io import ConnectionId, TokenReady, WantToken
from kohort.clock import Rng
from kohort.errors import KohortError
from kohort.security.sasl.exchange import ClientExchange, Derivation
from kohort.security.sasl.scram import DerivedPasswords


class PasswordLogins:
    """Answers each ``WantToken`` of a client that logs in by a password."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._credentials: Credentials | None = None
        self._exchanges: dict[ConnectionId, ClientExchange] = {}
        self._derived = DerivedPasswords()

    def begin(self, credentials: Credentials | None) -> None:
        """Begin anew: the process has started, and its connections count from the beginning."""
        self._credentials = credentials
        self._exchanges.clear()

    def token(self, wanted: WantToken) -> TokenReady:
        """Work out a token; or the error with which the broker's half failed."""
        assert self._credentials is not None, "it has nothing to log in with"
        try:
            token = self._next(self._credentials, wanted)
        except KohortError as error:
            return TokenReady(wanted.connection, error, self._credentials.who)
        return TokenReady(wanted.connection, token, self._credentials.who)

    def _next(self, credentials: Credentials, wanted: WantToken) -> bytes | None:
        if wanted.challenge is None:
            exchange = exchange_by_password(credentials, self._rng, self._derived)
            self._exchanges[wanted.connection] = exchange
            return exchange.first()
        exchange = self._exchanges[wanted.connection]
        step = exchange.next(wanted.challenge)
        return exchange.derived(step.derive()) if isinstance(step, Derivation) else step
