"""Tokens from an identity provider: OIDC with the client's secret (KIP-768), or with an assertion (KIP-1139).

One POST, by the standard library in a thread. What another try would not mend, such as a wrong secret, ends the login;
what might pass is asked again with growing waits.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from kohort.aio.credentials.threads import in_thread
from kohort.aio.system import wall_ms
from kohort.client.requests.backoff import Backoff
from kohort.client.requests.credentials import Credentials
from kohort.client.requests.own_tokens import Token, expiry_ms
from kohort.config.client import ClientConfig
from kohort.config.client_security import JWT_BEARER
from kohort.errors import AuthenticationFailed, ConnectionFailed
from kohort.extras import needs
from kohort.notes import one_line
from kohort.secret import Secret

ANSWER_MAX_BYTES: Final = 1 << 20
WORDS_MAX_CHARS: Final = 300
TRIES_MOST: Final = 4
"""Then the login fails as a lost connection does, and is tried again as one."""
NO_TIMEOUT_MS: Final = 30_000
"""Where no timeout is set: a thread shall not wait for ever."""
LASTING: Final = frozenset({*range(400, 408), *range(409, 416), 501, 505})
"""Answers of HTTP that another try would not change, as in Kafka's client."""


async def fetch_token(config: ClientConfig, credentials: Credentials) -> Token:
    """Ask the identity provider for a token. Raises AuthenticationFailed, or ConnectionFailed after some tries."""
    rng = random.Random()
    backoff = Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms, rng)
    for attempt in range(1, TRIES_MOST + 1):
        try:
            return await in_thread(lambda: _ask(config, credentials))
        except ConnectionFailed:
            if attempt == TRIES_MOST:
                raise
            await asyncio.sleep(backoff.delay_ms(attempt) / 1000)
    raise AssertionError("the last try returns or raises")


def _ask(config: ClientConfig, credentials: Credentials) -> Token:
    url = config.sasl_oauthbearer_token_endpoint_url or ""
    where = f"the token endpoint {urlsplit(url)._replace(query='', fragment='').geturl()}"
    timeout_ms = config.sasl_login_read_timeout_ms or config.sasl_login_connect_timeout_ms or NO_TIMEOUT_MS
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=https_context(config)), _NoRedirects())
    try:
        with opener.open(_request(config, credentials, url), timeout=timeout_ms / 1000) as answer:
            return _token_in(answer.read(ANSWER_MAX_BYTES), where, credentials)
    except urllib.error.HTTPError as error:
        words = f"{where} answers {error.code} {error.reason}{_said(error.read(ANSWER_MAX_BYTES))}"
        if error.code in LASTING or error.code in range(300, 400):
            raise AuthenticationFailed(words) from None
        raise ConnectionFailed(words) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            told = error.reason.verify_message
            raise AuthenticationFailed(
                f"{where} is not trusted: {told}; its authority is for https.ca.location"
            ) from None
        raise ConnectionFailed(f"{where} cannot be reached: {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise ConnectionFailed(f"{where} cannot be reached: {error or type(error).__name__}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A secret goes where the user said, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def https_context(config: ClientConfig) -> ssl.SSLContext:
    """Return how an identity provider is judged: by the system's authorities, those of ``https.ca.location``, and
    those of the brokers where they are PEM. Raises AuthenticationFailed for a file that cannot be read."""
    context = ssl.create_default_context()
    for location in (config.https_ca_location, config.ssl_ca_location):
        if location is None:
            continue
        path = Path(location)
        try:
            if path.is_dir():
                context.load_verify_locations(capath=str(path))
            else:
                context.load_verify_locations(cafile=str(path))
        except (OSError, ssl.SSLError) as error:
            raise AuthenticationFailed(f"the authorities in {path} cannot be read: {error}") from None
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
    """Return the token in an answer. ``expires_in`` says when it ends where it is no JWT."""
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    text = said.get("access_token") if isinstance(said, dict) else None
    if not isinstance(text, str) or not text:
        raise AuthenticationFailed(f"{where} answers without an access_token")
    expires_ms = expiry_ms(text)
    lasts_s = said.get("expires_in")
    if expires_ms is None and isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool):
        expires_ms = wall_ms() + int(lasts_s * 1000)
    return Token(Secret(text), expires_ms, credentials.extensions)


def _said(body: bytes) -> str:
    """Return what an error's body says (RFC 6749, section 5.2), on one line and short."""
    try:
        said = json.loads(body)
        words = ": ".join(str(said[key]) for key in ("error", "error_description") if said.get(key))
    except (ValueError, AttributeError):
        return ""
    return f" ({one_line(words, WORDS_MAX_CHARS)})" if words else ""


def _assertion(config: ClientConfig) -> str:
    """Read the assertion, or make and sign it."""
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
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise AuthenticationFailed(f"{path} cannot be read: {why}") from None
