"""The logins of one client's connections: works out each token that its engine wants, without holding up the loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from kohort.aio.credentials.kerberos import KerberosClient
from kohort.aio.credentials.threads import in_thread
from kohort.aio.credentials.token_cache import TokenCache
from kohort.aio.credentials.token_sources import token_source
from kohort.aio.system import wall_ms
from kohort.client.requests.credentials import Credentials, TokenMethod, exchange_by_password
from kohort.client.requests.io import ConnectionId, TokenReady, WantToken
from kohort.client.requests.own_tokens import told
from kohort.config.client import ClientConfig
from kohort.errors import AuthenticationFailed, KohortError
from kohort.security.sasl.exchange import ClientExchange, Derivation
from kohort.security.sasl.oauthbearer import OAuthBearerClient
from kohort.security.sasl.scram import DerivedPasswords

GSSAPI: Final = "GSSAPI"


class _UnderWay:
    """One login: its half of the exchange, and who logs in."""

    def __init__(self, exchange: ClientExchange, who: str) -> None:
        self.exchange = exchange
        self.who = who


class Logins:
    """Answers each ``WantToken`` with a ``TokenReady``, later and on the same loop."""

    def __init__(self, config: ClientConfig, credentials: Credentials, answer: Callable[[TokenReady], None]) -> None:
        self._config = config
        self._credentials = credentials
        self._answer = answer
        self._under_way: dict[ConnectionId, _UnderWay] = {}
        self._tasks: dict[ConnectionId, asyncio.Task[None]] = {}
        self._rng = random.SystemRandom()
        self._derived = DerivedPasswords()
        self._tokens: TokenCache | None = None
        if credentials.method is not None:
            per_host = credentials.method is TokenMethod.MSK
            self._tokens = TokenCache(config, token_source(config, credentials), per_host=per_host)

    def want(self, wanted: WantToken) -> None:
        """Begin to work out a token."""
        self._tasks[wanted.connection] = asyncio.get_running_loop().create_task(self._work(wanted))

    def forget(self, connection: ConnectionId) -> None:
        """End the login of a connection that is closed."""
        self._under_way.pop(connection, None)
        task = self._tasks.pop(connection, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """End everything."""
        for connection in [*self._tasks, *self._under_way]:
            self.forget(connection)
        if self._tokens is not None:
            self._tokens.close()

    async def _work(self, wanted: WantToken) -> None:
        connection = wanted.connection
        try:
            ready = TokenReady(connection, await self._token(wanted), self._who(connection))
        except KohortError as error:
            ready = TokenReady(connection, error, self._who(connection))
        except Exception as error:  # noqa: BLE001  # a client must not wait for ever, nor end, for a login's defect
            words = f"a defect in kohort ended the login: {type(error).__name__}"
            ready = TokenReady(connection, AuthenticationFailed(words), self._who(connection))
        self._tasks.pop(connection, None)
        if ready.token is None or isinstance(ready.token, KohortError):
            self._under_way.pop(connection, None)
        self._answer(ready)

    def _who(self, connection: ConnectionId) -> str:
        found = self._under_way.get(connection)
        return "" if found is None else found.who

    async def _token(self, wanted: WantToken) -> bytes | None:
        if wanted.challenge is None:
            started = await self._begin(wanted.host)
            self._under_way[wanted.connection] = started
            exchange = started.exchange
            return await in_thread(exchange.first) if exchange.mechanism == GSSAPI else exchange.first()
        exchange = self._under_way[wanted.connection].exchange
        challenge = wanted.challenge
        if exchange.mechanism == GSSAPI:
            step = await in_thread(lambda: exchange.next(challenge))
        else:
            step = exchange.next(challenge)
        if isinstance(step, Derivation):
            derivation = step
            step = exchange.derived(await in_thread(derivation.derive))
        if isinstance(exchange, OAuthBearerClient) and exchange.problem and self._tokens is not None:
            self._tokens.reject(wanted.host)
        return step

    async def _begin(self, host: str) -> _UnderWay:
        own = self._credentials
        if self._tokens is not None:
            token = await self._tokens.token(host)
            return _UnderWay(OAuthBearerClient(token.text, token.extensions), told(token, wall_ms()))
        if own.mechanism == GSSAPI:
            service = self._config.sasl_kerberos_domain_name or host
            return _UnderWay(KerberosClient(own, service), own.who)
        return _UnderWay(exchange_by_password(own, self._rng, self._derived), own.who)
