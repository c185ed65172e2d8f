"""The logins of one client's connections: works out each token that its engine wants, without holding up the loop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final

from kohort.aio.credentials.kerberos import KerberosClient
from kohort.aio.credentials.token_sources import Token, TokenSource, token_source, told
from kohort.aio.system import in_thread, wall_ms
from kohort.client.requests.credentials import Credentials, TokenMethod, exchange_by_password
from kohort.client.requests.io import ConnectionId, RequestToken, TokenReady
from kohort.config.client import ClientConfig
from kohort.errors import AuthenticationFailed, KohortError
from kohort.security.sasl.exchange import ClientExchange, Derivation
from kohort.security.sasl.oauthbearer import OAuthBearerClient
from kohort.security.sasl.scram import DerivedPasswords

LOOK_AGAIN_S = 60.0
"""A sleep is never longer than this: machines sleep too, and their clocks are put right."""


def renewed_at_ms(config: ClientConfig, token: Token, now_ms: int, chance: float) -> int | None:
    """Return when a token that was had at ``now_ms`` is to be replaced; None where nobody knows when it expires.

    That is at the refresh window's part of its life, not before the shortest period and not within the buffer; where
    these two are longer than its life, they do not count (KIP-255).
    """
    if token.expires_ms is None:
        return None
    life_ms = max(0, token.expires_ms - now_ms)
    factor = config.sasl_login_refresh_window_factor + config.sasl_login_refresh_window_jitter * chance
    at_ms = now_ms + int(life_ms * min(factor, 1.0))
    shortest_ms = config.sasl_login_refresh_min_period_seconds * 1000
    buffer_ms = config.sasl_login_refresh_buffer_seconds * 1000
    if shortest_ms + buffer_ms >= life_ms:
        return at_ms
    return max(min(at_ms, token.expires_ms - buffer_ms), now_ms + shortest_ms)


class TokenCache:
    """One token for each broker's host that its source tells apart; ``per_host`` for such a source."""

    def __init__(self, config: ClientConfig, source: TokenSource, *, per_host: bool = False) -> None:
        self._config = config
        self._source = source
        self._per_host = per_host
        self._tokens: dict[str, tuple[Token, int]] = {}
        self._fetching: dict[str, asyncio.Task[Token]] = {}
        self._renewing: dict[str, asyncio.Task[None]] = {}

    async def token(self, host: str) -> Token:
        """Return a token that is good, fetched if need be. Raises KohortError where none can be had."""
        key = host if self._per_host else ""
        held = self._tokens.get(key)
        now_ms = wall_ms()
        if held is None:
            return await self._fetch(key)
        token, renew_at_ms = held
        is_good = token.expires_ms is not None and now_ms < token.expires_ms
        if is_good and (now_ms < renew_at_ms or key in self._fetching):
            return token
        try:
            return await self._fetch(key)
        except KohortError:
            if is_good:
                return token  # it is tried again in the background
            raise

    def reject(self, host: str) -> None:
        self._tokens.pop(host if self._per_host else "", None)

    def close(self) -> None:
        for task in [*self._renewing.values(), *self._fetching.values()]:
            task.cancel()

    async def _fetch(self, key: str) -> Token:
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._ask(key))
        return await asyncio.shield(task)

    async def _ask(self, key: str) -> Token:
        try:
            token = await self._source(key)
        finally:
            self._fetching.pop(key, None)
        now_ms = wall_ms()
        if token.expires_ms is not None and token.expires_ms <= now_ms:
            ago_s = (now_ms - token.expires_ms) / 1000
            raise AuthenticationFailed(f"the token that was had expired {ago_s:.0f} s ago by this clock")
        at_ms = renewed_at_ms(self._config, token, now_ms, random.random())  # no secret
        if at_ms is None:
            return token  # whose end nobody knows: each login asks for one
        self._tokens[key] = (token, at_ms)
        if key not in self._renewing:
            self._renewing[key] = asyncio.create_task(self._renew(key))
        return token

    async def _renew(self, key: str) -> None:
        """Have a new token before the old one is over. What fails is tried again, and told by the next login."""
        try:
            while (held := self._tokens.get(key)) is not None:
                token, at_ms = held
                if token.expires_ms is None or token.expires_ms <= wall_ms():
                    return
                left_s = (at_ms - wall_ms()) / 1000
                if left_s > 0:
                    await asyncio.sleep(min(left_s, LOOK_AGAIN_S))
                    continue
                with contextlib.suppress(KohortError):
                    await self._fetch(key)
                if self._tokens.get(key) is held:
                    await asyncio.sleep(self._config.sasl_login_retry_backoff_max_ms / 1000)
        finally:
            self._renewing.pop(key, None)


GSSAPI: Final = "GSSAPI"


class _UnderWay:
    def __init__(self, exchange: ClientExchange, who: str) -> None:
        self.exchange = exchange
        self.who = who


class Logins:
    """Answers each ``RequestToken`` with a ``TokenReady``, later and on the same loop."""

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

    def want(self, wanted: RequestToken) -> None:
        self._tasks[wanted.connection] = asyncio.get_running_loop().create_task(self._work(wanted))

    def forget(self, connection: ConnectionId) -> None:
        self._under_way.pop(connection, None)
        task = self._tasks.pop(connection, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        for connection in [*self._tasks, *self._under_way]:
            self.forget(connection)
        if self._tokens is not None:
            self._tokens.close()

    async def _work(self, wanted: RequestToken) -> None:
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

    async def _token(self, wanted: RequestToken) -> bytes | None:
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
            return _UnderWay(KerberosClient(own, service), own.identity)
        return _UnderWay(exchange_by_password(own, self._rng, self._derived), own.identity)
