"""Options of a schema registry, with Confluent's names after ``schema.registry.``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kohort.config.options import INT_MAX, Option, option, options_of, parse_config
from kohort.errors import ConfigError
from kohort.nearest import did_you_mean
from kohort.secret import HIDDEN, Secret

PREFIX: Final = "schema.registry."
IMPLIED: Final = {
    "basic.auth.credentials.source": ("USER_INFO", "URL"),
    "bearer.auth.credentials.source": ("STATIC_TOKEN",),
}
"""Options of Confluent's clients whose given values are implied by other options."""


class _Url(str):
    """URL whose ``repr`` hides its login."""

    __slots__ = ()

    def __repr__(self) -> str:
        login, at, rest = self.rpartition("@")
        return repr(f"{login.partition('://')[0]}://{HIDDEN}@{rest}" if at else str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistryConfig:
    """Addresses, login, TLS, retries and caches of a schema registry."""

    schema_registry_url: list[str] = option([], "Addresses of the schema registry, tried in turn.")
    schema_registry_basic_auth_user_info: Secret | None = option(
        None, "Login at the registry, USER:PASSWORD; a URL may contain it, too.", of=Secret
    )
    schema_registry_bearer_auth_token: Secret | None = option(None, "Bearer token for the registry.", of=Secret)
    schema_registry_bearer_auth_logical_cluster: str | None = option(
        None, "Logical cluster of the registry, sent with a bearer token."
    )
    schema_registry_bearer_auth_identity_pool_id: str | None = option(None, "Identity pool, sent with a bearer token.")
    schema_registry_ssl_ca_location: str | None = option(
        None, "File or folder of the registry's certificate authorities; default: the operating system's."
    )
    schema_registry_ssl_certificate_location: str | None = option(
        None, "File with the client's certificate chain for the registry: PEM."
    )
    schema_registry_ssl_key_location: str | None = option(
        None, "File with the private key of that certificate; default: the same file."
    )
    schema_registry_ssl_key_password: Secret | None = option(None, "Password of that private key.", of=Secret)
    schema_registry_timeout: float = option(30.0, "Time limit of one request to the registry, in seconds.")
    schema_registry_max_retries: int = option(3, "Retries after 408, 429, 5xx and lost connections.", low=0, high=100)
    schema_registry_retries_wait_ms: int = option(1000, "Longest delay before the first retry.", low=0, high=INT_MAX)
    schema_registry_retries_max_wait_ms: int = option(20000, "Longest delay before a retry.", low=0, high=INT_MAX)
    schema_registry_cache_capacity: int = option(1000, "Limit of cached schemas, and of cached subjects.", low=1)
    schema_registry_cache_latest_ttl_sec: float | None = option(
        None, "Age in seconds at which the latest version of a subject is read again; default: never.", of=float
    )

    def __post_init__(self) -> None:
        for url in self.schema_registry_url:
            _checked(url)
        object.__setattr__(self, "schema_registry_url", [_Url(url) for url in self.schema_registry_url])
        if self.schema_registry_basic_auth_user_info and self.schema_registry_bearer_auth_token:
            raise ConfigError(
                "schema.registry.basic.auth.user.info and schema.registry.bearer.auth.token exclude each other"
            )
        for name in ("bearer.auth.token", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"):
            text = getattr(self, f"{PREFIX}{name}".replace(".", "_"))
            text = text.reveal() if isinstance(text, Secret) else text
            if text is not None and not (text.isascii() and text.isprintable()):
                raise ConfigError(
                    f"{PREFIX}{name}: expected printable ASCII characters; a line break at the end is not part of it"
                )
        if self.schema_registry_timeout <= 0:
            raise ConfigError(f"schema.registry.timeout={self.schema_registry_timeout}: expected seconds above 0")
        if self.schema_registry_ssl_key_location and not self.schema_registry_ssl_certificate_location:
            raise ConfigError("schema.registry.ssl.key.location needs schema.registry.ssl.certificate.location")


def registry_options() -> dict[str, Option]:
    """Return the options by Confluent's names, without the prefix."""
    return {o.name.removeprefix(PREFIX): o for o in options_of(SchemaRegistryConfig)}


def registry_config(given: Mapping[str, Any]) -> SchemaRegistryConfig:
    """Build the configuration from Confluent's names, with or without ``schema.registry.``.

    Raises ConfigError for an unknown option, a value out of bounds, and without a URL.
    """
    known = registry_options()
    options: dict[str, Any] = {}
    for spelling, value in given.items():
        name = spelling.replace("_", ".").removeprefix(PREFIX)
        if name in IMPLIED:
            if value not in IMPLIED[name]:
                raise ConfigError(f"{spelling}={value!r} is not supported: expected {' or '.join(IMPLIED[name])}")
            continue
        if name not in known:
            raise ConfigError(f"unknown option {spelling!r} of a schema registry{did_you_mean(name, known)}")
        if value is not None:
            options[PREFIX + name] = value
    config = parse_config(SchemaRegistryConfig, options)
    if not config.schema_registry_url:
        raise ConfigError("schema.registry.url is missing: expected http://HOST:PORT, or several with commas between")
    return config


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """One URL of a registry, without its login. ``user_info``: USER:PASSWORD of the URL."""

    url: str
    user_info: Secret | None = field(default=None)

    @classmethod
    def parse(cls, url: str) -> RegistryAddress:
        parts = _checked(url)
        login = None
        if parts.username is not None:
            login = Secret(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
        host = parts.netloc.rpartition("@")[2]
        return cls(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", login)


def _checked(url: str) -> Any:
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        problem = "escape / and @ of the login with %2F and %40" if "@" in url else error  # the error may show a login
        raise ConfigError(f"schema.registry.url: {problem}; {expected}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        shown = url.rpartition("@")[2]  # a login stands before it
        raise ConfigError(f"schema.registry.url={shown!r}: {expected}")
    return parts
