"""Sources of OAuth tokens: a callback, a file, an identity provider (OIDC), Amazon's signer, or an unsecured token."""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import json
import random
import re
import ssl
import urllib.error
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import url2pathname

from kohort.aio.system import in_thread, wall_ms
from kohort.client.requests.credentials import Credentials, TokenMethod
from kohort.client.requests.request_state import Backoff
from kohort.config.client import ClientConfig
from kohort.config.client_security import JWT_BEARER
from kohort.errors import AuthenticationFailed, ConnectionFailed, KohortError
from kohort.extras import needs
from kohort.notes import one_line
from kohort.secret import Secret


class Token(NamedTuple):
    """OAuth token and its properties. ``expires_ms`` is None if the expiry is unknown."""

    text: Secret
    expires_ms: int | None
    extensions: Mapping[str, str]
    principal: str = ""


def claims_of(token: str) -> Mapping[str, Any]:
    """Return the claims of a JWT without verifying its signature; an empty mapping for a token that is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        said = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return said if isinstance(said, dict) else {}


def expiry_ms(token: str) -> int | None:
    at = claims_of(token).get("exp")
    return int(at * 1000) if isinstance(at, int | float) and not isinstance(at, bool) else None


def describe_token(token: Token, now_ms: int) -> str:
    """Describe a token for error messages, without secrets: principal, expiry, audience, issuer."""
    claims = claims_of(token.text.reveal())
    name = token.principal or claims.get("sub")
    details = [f"a token of {name!r}" if name else "a token"]
    if token.expires_ms is not None:
        left_s = (token.expires_ms - now_ms) / 1000
        details.append(
            f"expires in {left_s:.0f} s" if left_s > 0 else f"expired {-left_s:.0f} s ago by this machine's clock"
        )
    details += [f"{key}={claims[key]!r}" for key in ("aud", "iss") if key in claims]
    return ", ".join(details)


def unsecured(options: Mapping[str, str], extensions: Mapping[str, str], now_ms: int) -> Token:
    """Create an unsigned token with the claims of Java's ``unsecuredLogin`` options (KIP-255).

    The value of a ``ListClaim`` option starts with the separator of its list.
    """
    claims: dict[str, Any] = {}
    for key, text in options.items():
        kind, _, claim = key.partition("_")
        match kind:
            case "StringClaim":
                claims[claim] = text
            case "NumberClaim":
                claims[claim] = float(text) if "." in text else int(text)
            case "ListClaim":
                claims[claim] = text[1:].split(text[0]) if text else []
    lifetime_ms = int(float(options.get("LifetimeSeconds", "3600")) * 1000)
    claims |= {"iat": now_ms / 1000, "exp": (now_ms + lifetime_ms) / 1000}
    text = f"{_part({'alg': 'none'})}.{_part(claims)}."
    principal = str(claims.get(options.get("PrincipalClaimName") or "sub", ""))
    return Token(Secret(text), now_ms + lifetime_ms, extensions, principal)


def _part(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


RESPONSE_MAX_BYTES: Final = 1 << 20
ERROR_MAX_CHARS: Final = 300
ATTEMPTS_MOST: Final = 4
"""Maximum number of attempts to fetch a token. After the last attempt the client reconnects to the broker."""
NO_TIMEOUT_MS: Final = 30_000
PERMANENT: Final = frozenset({*range(400, 408), *range(409, 416), 501, 505})
"""HTTP statuses of a token endpoint that are not retried, as in Kafka's client."""


async def fetch_token(config: ClientConfig, credentials: Credentials) -> Token:
    """Request a token from the identity provider with a client secret (KIP-768) or an assertion (KIP-1139).

    Raises AuthenticationFailed for a permanent refusal, such as a wrong secret; ConnectionFailed after
    ``ATTEMPTS_MOST`` attempts.
    """
    rng = random.Random()
    backoff = Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms, rng)
    for attempt in range(1, ATTEMPTS_MOST + 1):
        try:
            return await in_thread(lambda: _ask(config, credentials))
        except ConnectionFailed:
            if attempt == ATTEMPTS_MOST:
                raise
            await asyncio.sleep(backoff.delay_ms(attempt) / 1000)
    raise AssertionError("the last attempt to fetch a token must return a token or raise an error")


def _ask(config: ClientConfig, credentials: Credentials) -> Token:
    url = config.sasl_oauthbearer_token_endpoint_url or ""
    where = f"the token endpoint {urlsplit(url)._replace(query='', fragment='').geturl()}"
    timeout_ms = config.sasl_login_read_timeout_ms or config.sasl_login_connect_timeout_ms or NO_TIMEOUT_MS
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=https_context(config)), _NoRedirects())
    try:
        with opener.open(_request(config, credentials, url), timeout=timeout_ms / 1000) as answer:
            return _token_in(answer.read(RESPONSE_MAX_BYTES), where, credentials)
    except urllib.error.HTTPError as error:
        details = f"{where} answers {error.code} {error.reason}{_error_text(error.read(RESPONSE_MAX_BYTES))}"
        if error.code in PERMANENT or error.code in range(300, 400):
            raise AuthenticationFailed(details) from None
        raise ConnectionFailed(details) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            reason = error.reason.verify_message
            raise AuthenticationFailed(f"{where} is not trusted: {reason}; add its CA to https.ca.location") from None
        raise ConnectionFailed(f"{where} is unreachable: {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise ConnectionFailed(f"{where} is unreachable: {error or type(error).__name__}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses HTTP redirects: the client's secret is sent only to the configured address of the token endpoint."""

    def redirect_request(self, *_: Any) -> None:
        return None


def https_context(config: ClientConfig) -> ssl.SSLContext:
    """Return the TLS context for connections to identity providers.

    It trusts the CAs of the system, those in ``https.ca.location``, and the CAs configured for brokers if these are
    PEM. Raises AuthenticationFailed for an unreadable file.
    """
    context = ssl.create_default_context()
    for location in (config.https_ca_location, config.ssl_ca_location):
        if location is None:
            continue
        cafile, capath = (None, location) if Path(location).is_dir() else (location, None)
        try:
            context.load_verify_locations(cafile, capath)
        except (OSError, ssl.SSLError) as error:
            raise AuthenticationFailed(f"cannot read the CA certificates in {location}: {error}") from None
    for text in (config.https_ca_pem, config.ssl_ca_pem):
        if text is not None:
            context.load_verify_locations(cadata=text)
    return context


def _request(config: ClientConfig, credentials: Credentials, url: str) -> urllib.request.Request:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    form = {"grant_type": config.sasl_oauthbearer_grant_type}
    if config.sasl_oauthbearer_grant_type == JWT_BEARER:
        form["assertion"] = _assertion(config)
    else:
        secret = credentials.client_secret.reveal() if credentials.client_secret is not None else ""
        pair = [credentials.client_id, secret]
        if config.sasl_oauthbearer_header_urlencode:
            pair = [quote_plus(part) for part in pair]
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(pair).encode()).decode()
    if credentials.scope:
        form["scope"] = credentials.scope
    return urllib.request.Request(url, urlencode(form).encode(), headers, method="POST")


def _token_in(body: bytes, where: str, credentials: Credentials) -> Token:
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    text = said.get("access_token") if isinstance(said, dict) else None
    if not isinstance(text, str) or not text:
        raise AuthenticationFailed(f"{where} returned no access_token in its answer")
    expires_ms = expiry_ms(text)
    lasts_s = said.get("expires_in")
    if expires_ms is None and isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool):
        expires_ms = wall_ms() + int(lasts_s * 1000)
    return Token(Secret(text), expires_ms, credentials.extensions)


def _error_text(body: bytes) -> str:
    try:
        said = json.loads(body)
        details = ": ".join(str(said[key]) for key in ("error", "error_description") if said.get(key))
    except (ValueError, AttributeError):
        return ""
    return f" ({one_line(details, ERROR_MAX_CHARS)})" if details else ""


def _assertion(config: ClientConfig) -> str:
    path = config.sasl_oauthbearer_assertion_file
    if path is not None:
        return _read(path).strip()
    now_s = wall_ms() // 1000
    claims: dict[str, Any] = {
        "iat": now_s,
        "exp": now_s + config.sasl_oauthbearer_assertion_claim_exp_seconds,
        "nbf": now_s - config.sasl_oauthbearer_assertion_claim_nbf_seconds,
    }
    named: Mapping[str, str | None] = {
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
        "iss": config.sasl_oauthbearer_assertion_claim_iss,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
    }
    claims |= {key: value for key, value in named.items() if value is not None}
    if config.sasl_oauthbearer_assertion_claim_jti_include:
        claims["jti"] = str(uuid.uuid4())
    return _signed(config, claims)


def _signed(config: ClientConfig, claims: Mapping[str, Any]) -> str:
    with needs("security", "sasl.oauthbearer.assertion.private.key.file"):
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey
    path = config.sasl_oauthbearer_assertion_private_key_file or ""
    algorithm = config.sasl_oauthbearer_assertion_algorithm
    password = config.sasl_oauthbearer_assertion_private_key_passphrase
    kind = RSAKey if algorithm == "RS256" else ECKey
    try:
        key = kind.import_key(_read(path), password=None if password is None else password.reveal())
        return jwt.encode({"alg": algorithm, "typ": "JWT"}, dict(claims), key, algorithms=[algorithm])
    except (ValueError, TypeError, JoseError) as error:
        raise AuthenticationFailed(f"the key in {path} cannot sign with {algorithm}: {type(error).__name__}") from None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise AuthenticationFailed(f"cannot read the token or key file {path}: {why}") from None


MILLISECONDS_FROM: Final = 100_000_000_000
"""Larger expiry times are in milliseconds, as from Amazon's signer. In seconds they would be after the year 5138."""
MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")
TokenSource = Callable[[str], Awaitable[Token]]
"""Function that returns a token for a broker's host. Raises AuthenticationFailed for permanent errors."""


def token_source(config: ClientConfig, credentials: Credentials) -> TokenSource:
    async def unsigned(_host: str) -> Token:
        return unsecured(credentials.options, credentials.extensions, wall_ms())

    match credentials.method:
        case TokenMethod.OIDC:
            return lambda _host: fetch_token(config, credentials)
        case TokenMethod.FILE:
            url = config.sasl_oauthbearer_token_endpoint_url or ""
            return lambda _host: in_thread(lambda: _from_file(url, credentials))
        case TokenMethod.UNSECURED:
            return unsigned
        case TokenMethod.MSK:
            region = config.sasl_aws_region
            return lambda host: in_thread(lambda: _signed_by_amazon(region or _region_of(host), credentials))
    return lambda _host: _from_callback(config, credentials.extensions)


async def _from_callback(config: ClientConfig, extensions: Mapping[str, str]) -> Token:
    """Call the user's function with ``sasl.oauthbearer.config``, as librdkafka does, and return its token."""
    provider = config.sasl_oauth_token_provider
    function = getattr(provider, "token", None) if not callable(provider) else provider
    assert function is not None, "credentials_of has checked it"
    args = (config.sasl_oauthbearer_config or "",) if _takes_argument(function) else ()
    try:
        is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # an object with a coroutine ``__call__``
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
    parts = given if isinstance(given, tuple | list) else (given,)
    text = parts[0] if parts else None
    text = text.reveal() if isinstance(text, Secret) else text
    if not isinstance(text, str) or not text:
        raise AuthenticationFailed(
            f"sasl.oauth.token.provider returned {type(given).__name__}: expected a token, or "
            "(token, expiry time in seconds since 1970)"
        )
    expires_ms = expiry_ms(text)
    if len(parts) > 1 and parts[1] is not None:
        if isinstance(parts[1], bool) or not isinstance(parts[1], int | float):
            raise AuthenticationFailed(
                f"sasl.oauth.token.provider returned {type(parts[1]).__name__} as the expiry time: expected seconds "
                "since 1970"
            )
        expires_ms = int(parts[1] if parts[1] >= MILLISECONDS_FROM else parts[1] * 1000)
    principal = str(parts[2]) if len(parts) > 2 and parts[2] else ""
    more = dict(parts[3]) if len(parts) > 3 and parts[3] else {}
    return Token(Secret(text), expires_ms, {**extensions, **more}, principal)


def _from_file(url: str, credentials: Credentials) -> Token:
    path = url2pathname(urlsplit(url).path)
    text = _read(path).strip()
    if not text:
        raise AuthenticationFailed(f"the token file {path} is empty")
    return Token(Secret(text), expiry_ms(text), credentials.extensions)


def _region_of(host: str) -> str | None:
    found = MSK_HOST.search(host)
    return None if found is None else found[1]


def _signed_by_amazon(region: str | None, credentials: Credentials) -> Token:
    with needs("msk", "sasl.mechanism=AWS_MSK_IAM"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
    options = credentials.options
    if region is None:
        raise AuthenticationFailed("the broker's host name has no AWS region: set sasl.aws.region")
    try:
        if profile := options.get("awsProfileName"):
            text, expires = Signer.generate_auth_token_from_profile(region, profile)
        elif role := options.get("awsRoleArn"):
            session = options.get("awsRoleSessionName") or "kohort"
            text, expires = Signer.generate_auth_token_from_role_arn(region, role, session)
        else:
            text, expires = Signer.generate_auth_token(region)
    except Exception as error:
        raise AuthenticationFailed(f"cannot create a token for MSK: {type(error).__name__}: {error}") from error
    return _token_of((text, expires), credentials.extensions)
