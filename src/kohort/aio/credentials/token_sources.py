"""Where a token is had from: the user's function, a file, an identity provider, Amazon's signer; or it is made here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kohort.aio.credentials.oidc import fetch_token
from kohort.aio.credentials.threads import in_thread
from kohort.aio.system import wall_ms
from kohort.client.requests.credentials import Credentials, TokenMethod
from kohort.client.requests.own_tokens import Token, expiry_ms, unsecured
from kohort.config.client import ClientConfig
from kohort.errors import AuthenticationFailed, KohortError
from kohort.extras import needs
from kohort.secret import Secret

MILLISECONDS_FROM: Final = 100_000_000_000
"""A time of expiry above this is in milliseconds, as Amazon's signer has it: in seconds it would be the year 5138."""
MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")
TokenSource = Callable[[str], Awaitable[Token]]
"""Gets a token for a broker's host. Raises AuthenticationFailed where another try would not mend it, and another
KohortError where it might."""


def token_source(config: ClientConfig, credentials: Credentials) -> TokenSource:
    """Return where tokens are from, by what the options say."""

    async def called(_host: str) -> Token:
        return await _from_callback(config, credentials.extensions)

    async def asked(_host: str) -> Token:
        return await fetch_token(config, credentials)

    async def read(_host: str) -> Token:
        return await in_thread(lambda: _from_file(config.sasl_oauthbearer_token_endpoint_url or "", credentials))

    async def made(_host: str) -> Token:
        return unsecured(credentials.options, credentials.extensions, wall_ms())

    async def signed(host: str) -> Token:
        region = config.sasl_aws_region or _region_of(host)
        return await in_thread(lambda: _signed_by_amazon(region, credentials))

    return {
        TokenMethod.CALLBACK: called,
        TokenMethod.OIDC: asked,
        TokenMethod.FILE: read,
        TokenMethod.UNSECURED: made,
        TokenMethod.MSK: signed,
    }[credentials.method or TokenMethod.CALLBACK]


async def _from_callback(config: ClientConfig, extensions: Mapping[str, str]) -> Token:
    """Call the user's function: with ``sasl.oauthbearer.config`` where it takes an argument, as librdkafka's do."""
    provider = config.sasl_oauth_token_provider
    function = getattr(provider, "token", None) if not callable(provider) else provider
    assert function is not None, "credentials_of has checked it"
    args = (config.sasl_oauthbearer_config or "",) if _takes_argument(function) else ()
    try:
        is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # an object whose call is a coroutine
        )
        given = function(*args) if is_coroutine else await in_thread(lambda: function(*args))
        if inspect.isawaitable(given):
            given = await given
    except KohortError:
        raise
    except Exception as error:
        raise AuthenticationFailed(f"sasl.oauth.token.provider raised {type(error).__name__}: {error}") from error
    return _token_of(given, extensions)


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _token_of(given: Any, extensions: Mapping[str, str]) -> Token:
    """Take a text, or (token, expiry in seconds[, principal[, extensions]])."""
    parts = given if isinstance(given, tuple | list) else (given,)
    text = parts[0] if parts else None
    text = text.reveal() if isinstance(text, Secret) else text
    if not isinstance(text, str) or not text:
        raise AuthenticationFailed(
            f"sasl.oauth.token.provider returned {type(given).__name__}: expected a token, or "
            "(token, time of expiry in seconds)"
        )
    expires_ms = expiry_ms(text)
    if len(parts) > 1 and parts[1] is not None:
        if isinstance(parts[1], bool) or not isinstance(parts[1], int | float):
            raise AuthenticationFailed(
                f"sasl.oauth.token.provider returned {type(parts[1]).__name__} as the time of expiry: expected seconds "
                "since 1970"
            )
        expires_ms = int(parts[1] if parts[1] >= MILLISECONDS_FROM else parts[1] * 1000)
    principal = str(parts[2]) if len(parts) > 2 and parts[2] else ""
    more = dict(parts[3]) if len(parts) > 3 and parts[3] else {}
    return Token(Secret(text), expires_ms, {**extensions, **more}, principal)


def _from_file(url: str, credentials: Credentials) -> Token:
    path = Path(url2pathname(urlsplit(url).path))
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise AuthenticationFailed(f"the file with the token, {path}, cannot be read: {why}") from None
    if not text:
        raise AuthenticationFailed(f"the file with the token, {path}, is empty")
    return Token(Secret(text), expiry_ms(text), credentials.extensions)


def _region_of(host: str) -> str | None:
    found = MSK_HOST.search(host)
    return None if found is None else found[1]


def _signed_by_amazon(region: str | None, credentials: Credentials) -> Token:
    with needs("msk", "sasl.mechanism=AWS_MSK_IAM"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
    options = credentials.options
    if region is None:
        raise AuthenticationFailed("the broker's name does not say its region of AWS: set sasl.aws.region")
    try:
        if profile := options.get("awsProfileName"):
            text, expires = Signer.generate_auth_token_from_profile(region, profile)
        elif role := options.get("awsRoleArn"):
            session = options.get("awsRoleSessionName") or "kohort"
            text, expires = Signer.generate_auth_token_from_role_arn(region, role, session)
        else:
            text, expires = Signer.generate_auth_token(region)
    except Exception as error:
        raise AuthenticationFailed(f"no token for MSK: {type(error).__name__}: {error}") from error
    return _token_of((text, expires), credentials.extensions)
