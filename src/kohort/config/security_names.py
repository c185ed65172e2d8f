"""Spellings of security options in Java's clients, librdkafka, kafka-python and aiokafka.

An option without a counterpart is ignored. If the connection would be less secure without it, it raises an error with
its replacement. Names have dots: ``ssl_cafile`` is ``ssl.cafile``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from kohort.config.client_security import CLIENT_CREDENTIALS, JWT_BEARER, ClientSecurityConfig
from kohort.config.options import options_of
from kohort.errors import ConfigError
from kohort.secret import Secret

SAME: Final[Mapping[str, str]] = {
    # Java
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    # librdkafka
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.credentials.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.claim.issuer": "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.subject": "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.claim.audience": "sasl.oauthbearer.assertion.claim.aud",
    "oauth.cb": "sasl.oauth.token.provider",
    # kafka-python, aiokafka
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "ssl.cafile": "ssl.ca.location",
    "ssl.capath": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
    "ssl.ciphers": "ssl.cipher.suites",
    # Confluent's serializers
    "basic.auth.user.info": "schema.registry.basic.auth.user.info",
    "bearer.auth.token": "schema.registry.bearer.auth.token",
}
WITHOUT_COUNTERPART: Final = frozenset({
    "ssl.truststore.type", "ssl.keystore.type", "ssl.protocol", "ssl.provider", "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm", "ssl.secure.random.implementation", "security.providers", "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer",
    "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "basic.auth.credentials.source",
})  # fmt: skip
"""Options without a counterpart: store types are detected, ``ssl.enabled.protocols`` has the TLS versions, the Kerberos
library fetches tickets, and the broker validates tokens.
"""
FILES: Final = "use files: ssl.ca.location, ssl.certificate.location, ssl.key.location"
OWN_TOKENS: Final = "use a function that returns a token: sasl.oauth.token.provider"
OPENSSL: Final = "Python's OpenSSL is used"
REFUSED: Final[Mapping[str, str]] = {
    "ssl.context": FILES,
    "ssl.ca": FILES,
    "ssl.certificate": FILES,
    "ssl.key": FILES,
    "ssl.crl.location": "revocation lists are not supported",
    "ssl.crlfile": "revocation lists are not supported",
    "ssl.engine.factory.class": FILES,
    "ssl.engine.location": OPENSSL,
    "ssl.engine.id": OPENSSL,
    "ssl.providers": OPENSSL,
    "ssl.curves.list": OPENSSL,
    "ssl.sigalgs.list": OPENSSL,
    "schema.registry.ssl.truststore.location": "use PEM: schema.registry.ssl.ca.location",
    "schema.registry.ssl.keystore.location": "use PEM: schema.registry.ssl.certificate.location",
    "ssl.client.auth": "it is an option of brokers; the client's certificate is ssl.certificate.location",
    "sasl.login.class": OWN_TOKENS,
    "sasl.oauthbearer.assertion.template.file": "use the claims: sasl.oauthbearer.assertion.claim.iss, .sub, .aud",
    "sasl.oauthbearer.assertion.jwt.template.file": "use the claims: sasl.oauthbearer.assertion.claim.iss, .sub, .aud",
    "sasl.oauthbearer.assertion.private.key.pem": "use a file: sasl.oauthbearer.assertion.private.key.file",
    "oauthbearer.token.refresh.cb": OWN_TOKENS,
}
HIDDEN_NAMES: Final = frozenset(o.name for o in options_of(ClientSecurityConfig) if o.type is Secret)
LOGIN_HANDLERS: Final = frozenset({"OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"})
"""Java's token classes by simple name, ignored because other options select the source of tokens."""
MSK_HANDLER: Final = "IAMClientCallbackHandler"
RETRIEVERS: Final[Mapping[str, str]] = {
    "DefaultJwtRetriever": "",
    "FileJwtRetriever": "",
    "ClientCredentialsJwtRetriever": CLIENT_CREDENTIALS,
    "JwtBearerJwtRetriever": JWT_BEARER,
}
Taken = Callable[[str, Any], "tuple[str, Any] | None"]


def translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by Kafka's names. Raises ConfigError for a rejected one or conflicting spellings."""
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        if name in WITHOUT_COUNTERPART:
            continue
        if name in REFUSED:
            raise ConfigError(f"{name} is not supported: {REFUSED[name]}")
        special = SPECIAL.get(name)
        ours = (SAME.get(name, name), value) if special is None else special(name, value)
        if ours is None:
            continue
        target, value = ours
        if target in found and _text(found[target]) != _text(value):
            raise ConfigError(f"{spelled[target]} and {name} are the same option with different values")
        found[target], spelled[target] = value, name
    return found


def is_hidden(name: str) -> bool:
    """True if the value of an option is secret; ``name`` may be the spelling of another client."""
    return SAME.get(name, name) in HIDDEN_NAMES


def _text(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value


def _check_hostname(name: str, value: Any) -> tuple[str, Any]:
    wanted = {"true": "https", "false": "none"}.get(str(value).strip().lower())
    if wanted is None:
        raise ConfigError(f"{name}={value!r}: expected true or false")
    return "ssl.endpoint.identification.algorithm", wanted


def _no_effect(*allowed: str) -> Taken:
    def check(name: str, value: Any) -> None:
        if str(value).strip().lower() not in allowed:
            expected = " or ".join(filter(None, allowed))
            raise ConfigError(f"{name}={value!r}: expected {expected}; otherwise {OWN_TOKENS}")

    return check


def _login_handler(name: str, value: Any) -> None:
    if _simple(value) not in LOGIN_HANDLERS | {MSK_HANDLER}:
        raise ConfigError(f"{name}={value!r}: Java classes are not supported: {OWN_TOKENS}")


def _provider(name: str, value: Any) -> tuple[str, Any]:
    """Load the function ``MODULE:FUNCTION``, as written in files and in Spark options."""
    if not isinstance(value, str):
        return name, value
    module, colon, function = value.partition(":")
    if not colon or not module or not function:
        raise ConfigError(f"{name}={value!r}: expected a function, or MODULE:FUNCTION")
    try:
        return name, getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name}={value!r}: cannot import it: {error}") from None


def _retriever(name: str, value: Any) -> tuple[str, Any] | None:
    grant = RETRIEVERS.get(_simple(value))
    if grant is None:
        raise ConfigError(f"{name}={value!r}: Java classes are not supported: {OWN_TOKENS}")
    return ("sasl.oauthbearer.grant.type", grant) if grant else None


def _grant(_name: str, value: Any) -> tuple[str, Any]:
    text = str(value).strip()
    return "sasl.oauthbearer.grant.type", JWT_BEARER if text.lower() in {"jwt-bearer", "jwt_bearer"} else text


def _simple(value: Any) -> str:
    return str(value).strip().removeprefix("class ").rpartition(".")[2]


SPECIAL: Final[Mapping[str, Taken]] = {
    "ssl.check.hostname": _check_hostname,
    "sasl.oauthbearer.method": _no_effect("oidc", "default", ""),
    "sasl.oauthbearer.metadata.authentication.type": _no_effect("none", ""),
    "sasl.login.callback.handler.class": _login_handler,
    "sasl.client.callback.handler.class": _login_handler,
    "sasl.oauthbearer.jwt.retriever.class": _retriever,
    "sasl.oauthbearer.grant.type": _grant,
    "sasl.oauth.token.provider": _provider,
}
