"""A client's token, kept for all its connections and renewed in the background before it expires (KIP-255)."""

from __future__ import annotations

import asyncio
import contextlib
import random

from kohort.aio.credentials.token_sources import TokenSource
from kohort.aio.system import wall_ms
from kohort.client.requests.own_tokens import Token
from kohort.config.client import ClientConfig
from kohort.errors import AuthenticationFailed, KohortError

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
        """Forget a token that a broker refused: the next login gets another one."""
        self._tokens.pop(host if self._per_host else "", None)

    def close(self) -> None:
        """End what is under way."""
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
