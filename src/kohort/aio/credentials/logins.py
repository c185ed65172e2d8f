"""SASL logins of a client's connections: compute each SASL token without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kohort.aio.credentials.kerberos import KerberosClient
from kohort.aio.credentials.token_sources import Token, TokenSource, describe_token, token_source
from kohort.aio.system import in_thread, wall_ms
from kohort.client.requests.credentials import Credentials, TokenMethod, exchange_by_password
from kohort.client.requests.io import ConnectionId, RequestToken, TokenReady
from kohort.config.client import ClientConfig
from kohort.errors import AuthenticationFailed, KohortError
from kohort.security.sasl.exchange import ClientExchange, Derivation
from kohort.security.sasl.oauthbearer import OAuthBearerClient
from kohort.security.sasl.scram import DerivedPasswords

LONGEST_SLEEP_S: Final = 60.0
"""Longest sleep in seconds of the task that renews a token.

After a suspension of the machine or a clock change, the renewal is late by at most this time.
"""


def renewed_at_ms(config: ClientConfig, token: Token, now_ms: int, chance: float) -> int | None:
    """Return the time at which to renew a token that was fetched at ``now_ms``; None if its expiry is unknown.

    The renewal is due after the part of the lifetime that ``sasl.login.refresh.window.factor`` sets, but not within the
    configured minimum period after the fetch, and not within the configured buffer time before the expiry. If minimum
    period and buffer time together exceed the lifetime, both are ignored (KIP-255).
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
    """Cached OAuth tokens of a client: one token for all brokers, or one for each host name if ``per_host`` is True."""

    def __init__(self, config: ClientConfig, source: TokenSource, *, per_host: bool = False) -> None:
        self._config = config
        self._source = source
        self._per_host = per_host
        self._tokens: dict[str, tuple[Token, int]] = {}
        self._fetching: dict[str, asyncio.Task[Token]] = {}
        self._renewing: dict[str, asyncio.Task[None]] = {}

    async def token(self, host: str) -> Token:
        """Return the cached token if it is valid, else fetch one. Raises KohortError if fetching fails."""
        key = host if self._per_host else ""
        cached = self._tokens.get(key)
        now_ms = wall_ms()
        if cached is None:
            return await self._fetch(key)
        token, renew_at_ms = cached
        is_good = token.expires_ms is not None and now_ms < token.expires_ms
        if is_good and (now_ms < renew_at_ms or key in self._fetching):
            return token
        try:
            return await self._fetch(key)
        except KohortError:
            if is_good:
                return token  # the token is still valid, and the background renewal tries again
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
            raise AuthenticationFailed(f"the fetched token expired {ago_s:.0f} s ago by this machine's clock")
        # the renewal time is no secret, so random.random() suffices
        at_ms = renewed_at_ms(self._config, token, now_ms, random.random())
        if at_ms is None:
            return token  # the expiry is unknown, so each login fetches a token
        self._tokens[key] = (token, at_ms)
        if key not in self._renewing:
            self._renewing[key] = asyncio.create_task(self._renew(key))
        return token

    async def _renew(self, key: str) -> None:
        """Renew a token before it expires. Ignore errors and try again later: the next login reports the error."""
        try:
            while (cached := self._tokens.get(key)) is not None:
                token, at_ms = cached
                if token.expires_ms is None or token.expires_ms <= wall_ms():
                    return
                left_s = (at_ms - wall_ms()) / 1000
                if left_s > 0:
                    await asyncio.sleep(min(left_s, LONGEST_SLEEP_S))
                    continue
                with contextlib.suppress(KohortError):
                    await self._fetch(key)
                if self._tokens.get(key) is cached:
                    await asyncio.sleep(self._config.sasl_login_retry_backoff_max_ms / 1000)
        finally:
            self._renewing.pop(key, None)


GSSAPI: Final = "GSSAPI"


class _LoginInFlight(NamedTuple):
    exchange: ClientExchange
    who: str


class Logins:
    """Performs the SASL logins of a client: answers each ``RequestToken`` with a ``TokenReady`` on the event loop."""

    def __init__(self, config: ClientConfig, credentials: Credentials, answer: Callable[[TokenReady], None]) -> None:
        self._config = config
        self._credentials = credentials
        self._answer = answer
        self._in_flight: dict[ConnectionId, _LoginInFlight] = {}
        self._tasks: dict[ConnectionId, asyncio.Task[None]] = {}
        self._rng = random.SystemRandom()
        self._derived = DerivedPasswords()
        self._tokens: TokenCache | None = None
        if credentials.method is not None:
            per_host = credentials.method is TokenMethod.MSK
            self._tokens = TokenCache(config, token_source(config, credentials), per_host=per_host)

    def want(self, request: RequestToken) -> None:
        self._tasks[request.connection] = asyncio.get_running_loop().create_task(self._work(request))

    def forget(self, connection: ConnectionId) -> None:
        self._in_flight.pop(connection, None)
        task = self._tasks.pop(connection, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        for connection in [*self._tasks, *self._in_flight]:
            self.forget(connection)
        if self._tokens is not None:
            self._tokens.close()

    async def _work(self, request: RequestToken) -> None:
        connection = request.connection
        token: bytes | KohortError | None
        try:
            token = await self._token(request)
        except KohortError as error:
            token = error
        except Exception as error:  # noqa: BLE001  # an internal error must neither block nor end the client
            token = AuthenticationFailed(f"an internal error of kohort ended the login: {type(error).__name__}")
        self._tasks.pop(connection, None)
        login = self._in_flight.get(connection)
        if token is None or isinstance(token, KohortError):
            self._in_flight.pop(connection, None)
        self._answer(TokenReady(connection, token, "" if login is None else login.who))

    async def _token(self, request: RequestToken) -> bytes | None:
        if request.challenge is None:
            login = self._in_flight[request.connection] = await self._begin(request.host)
            exchange = login.exchange
            return await in_thread(exchange.first) if exchange.mechanism == GSSAPI else exchange.first()
        exchange = self._in_flight[request.connection].exchange
        reply = partial(exchange.next, request.challenge)
        step = await in_thread(reply) if exchange.mechanism == GSSAPI else reply()
        if isinstance(step, Derivation):
            step = exchange.derived(await in_thread(step.derive))
        if isinstance(exchange, OAuthBearerClient) and exchange.problem and self._tokens is not None:
            self._tokens.reject(request.host)
        return step

    async def _begin(self, host: str) -> _LoginInFlight:
        own = self._credentials
        if self._tokens is not None:
            token = await self._tokens.token(host)
            return _LoginInFlight(OAuthBearerClient(token.text, token.extensions), describe_token(token, wall_ms()))
        if own.mechanism == GSSAPI:
            return _LoginInFlight(KerberosClient(own, self._config.sasl_kerberos_domain_name or host), own.identity)
        return _LoginInFlight(exchange_by_password(own, self._rng, self._derived), own.identity)
