"""Credentials of a client, from ``sasl.jaas.config`` or other sasl options; contradictions raise ConfigError."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kohort.clock import Rng
from kohort.config.client import ClientConfig
from kohort.config.client_security import JWT_BEARER
from kohort.config.listener_security import SecurityProtocol
from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.security import jaas
from kohort.security.sasl.exchange import ClientExchange
from kohort.security.sasl.plain import PlainClient
from kohort.security.sasl.scram import DerivedPasswords, ScramClient, new_nonce

MECHANISMS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    jaas.PLAIN_MODULE: ("PLAIN",),
    jaas.SCRAM_MODULE: ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    jaas.OAUTH_MODULE: ("OAUTHBEARER",),
    jaas.KERBEROS_MODULE: ("GSSAPI",),
    jaas.MSK_MODULE: ("AWS_MSK_IAM",),
}
"""SASL mechanisms for each login module class in ``sasl.jaas.config``."""
BY_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
SHOWN: Final = ("clientId", "scope", "extension_", "unsecuredLogin", "aws")
"""Prefixes of keys in ``sasl.jaas.config`` whose values are not secret."""
NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d+)?")
UNSECURED_OPTION: Final = re.compile(r'([A-Za-z_]+)=(?:"([^"]*)"|(\S*))')


class TokenMethod(Enum):
    """Source of OAUTHBEARER tokens."""

    CALLBACK = "sasl.oauth.token.provider"
    OIDC = "sasl.oauthbearer.token.endpoint.url"
    FILE = "file:"
    UNSECURED = "unsecured"
    MSK = "AWS_MSK_IAM"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a client. ``options``: claims of an unsecured token, or an AWS profile name."""

    mechanism: str
    username: str = ""
    password: Secret | None = None
    method: TokenMethod | None = None
    client_id: str = ""
    client_secret: Secret | None = None
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    principal: str = ""
    keytab: str = ""
    service: str = ""

    @property
    def identity(self) -> str:
        name = self.username or self.principal
        return f"{'user' if self.username else 'principal'} {name!r}" if name else ""


def credentials_of(config: ClientConfig) -> Credentials | None:
    if not SecurityProtocol(config.security_protocol).uses_sasl:
        return None
    entry = None if config.sasl_jaas_config is None else jaas.parse_jaas(config.sasl_jaas_config)
    mechanism = config.sasl_mechanism
    if entry is not None:
        _check_class(entry, mechanism)
    if mechanism in BY_PASSWORD:
        return _by_password(config, mechanism, entry)
    if mechanism == "GSSAPI":
        return _kerberos(config, entry)
    return _by_token(config, mechanism, entry)


def _check_class(entry: jaas.JaasEntry, mechanism: str) -> None:
    mechanisms = MECHANISMS_OF.get(entry.module)
    if mechanisms is None:
        known = ", ".join(MECHANISMS_OF)
        raise ConfigError(f"sasl.jaas.config names the class {entry.module}: expected one of {known}")
    if mechanism not in mechanisms:
        expected = " or ".join(mechanisms)
        raise ConfigError(
            f"sasl.jaas.config names {entry.module}, and sasl.mechanism is {mechanism}: set sasl.mechanism={expected}"
        )


def _by_password(config: ClientConfig, mechanism: str, entry: jaas.JaasEntry | None) -> Credentials:
    username, password = config.sasl_username, config.sasl_password
    if entry is not None:
        if username is not None:
            raise ConfigError("sasl.jaas.config and sasl.username both name the user: set one of them")
        if entry.get("tokenauth") == "true":
            raise ConfigError("sasl.jaas.config has tokenauth=true: delegation tokens are not supported")
        username, password = entry.get("username"), entry.options.get("password")
    if not username or not password:
        missing = "username" if not username else "password"
        where = f"{missing}=... in sasl.jaas.config" if entry is not None else f"sasl.{missing}"
        raise ConfigError(f"sasl.mechanism={mechanism} needs the option {where}")
    return Credentials(mechanism, username, password)


def _kerberos(config: ClientConfig, entry: jaas.JaasEntry | None) -> Credentials:
    if config.sasl_username is not None:
        raise ConfigError(
            "sasl.username is set, but sasl.mechanism is GSSAPI (the default), which does not use it: "
            f"set sasl.mechanism to {', '.join(BY_PASSWORD[:-1])} or {BY_PASSWORD[-1]}"
        )
    options = {} if entry is None else {key: entry.get(key) or "" for key in entry.options}
    return Credentials(
        "GSSAPI",
        principal=config.sasl_kerberos_principal or options.get("principal", ""),
        keytab=config.sasl_kerberos_keytab or options.get("keyTab", ""),
        service=options.get("serviceName", "") or config.sasl_kerberos_service_name,
    )


def _by_token(config: ClientConfig, mechanism: str, entry: jaas.JaasEntry | None) -> Credentials:
    if config.sasl_username is not None:
        raise ConfigError(
            f"sasl.mechanism={mechanism} takes no sasl.username: the token names the principal; "
            "for a password use PLAIN or SCRAM"
        )
    options = {} if entry is None else {k: entry.get(k) or "" for k in entry.options if k.startswith(SHOWN)}
    extensions = _pairs("sasl.oauthbearer.extensions", config.sasl_oauthbearer_extensions)
    extensions |= {
        key.removeprefix("extension_"): text for key, text in options.items() if key.startswith("extension_")
    }
    secret = config.sasl_oauthbearer_client_credentials_client_secret
    found = Credentials(
        OAUTHBEARER,
        method=_method(config, mechanism, options),
        client_id=config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId", ""),
        client_secret=secret or (entry.options.get("clientSecret") if entry is not None else None),
        scope=config.sasl_oauthbearer_scope or options.get("scope", ""),
        extensions=extensions,
        options=options,
    )
    if found.method is TokenMethod.OIDC:
        _check_oidc(config, found)
    if found.method is TokenMethod.UNSECURED:
        return _unsecured(config, found)
    return found


def _method(config: ClientConfig, mechanism: str, options: Mapping[str, str]) -> TokenMethod:
    provider = config.sasl_oauth_token_provider
    if provider is not None:
        if not callable(provider) and not callable(getattr(provider, "token", None)):
            raise ConfigError("sasl.oauth.token.provider: expected a function, or an object with a method token()")
        return TokenMethod.CALLBACK
    if mechanism == TokenMethod.MSK.value:
        return TokenMethod.MSK
    endpoint = config.sasl_oauthbearer_token_endpoint_url
    if endpoint is not None:
        scheme = endpoint.partition(":")[0].lower()
        if scheme not in {"http", "https", "file"}:
            raise ConfigError(
                f"sasl.oauthbearer.token.endpoint.url={endpoint!r}: expected an address that starts with "
                "http:, https: or file:"
            )
        return TokenMethod.FILE if scheme == "file" else TokenMethod.OIDC
    is_unsecured = any(key.startswith("unsecuredLogin") for key in options)
    if is_unsecured or config.enable_sasl_oauthbearer_unsecure_jwt:
        return TokenMethod.UNSECURED
    raise ConfigError(
        "sasl.mechanism=OAUTHBEARER needs a token source: sasl.oauthbearer.token.endpoint.url or "
        "sasl.oauth.token.provider"
    )


def _check_oidc(config: ClientConfig, found: Credentials) -> None:
    if config.sasl_oauthbearer_grant_type == JWT_BEARER:
        if config.sasl_oauthbearer_assertion_file is None and (
            config.sasl_oauthbearer_assertion_private_key_file is None
        ):
            raise ConfigError(
                f"sasl.oauthbearer.grant.type={JWT_BEARER} needs sasl.oauthbearer.assertion.private.key.file or "
                "sasl.oauthbearer.assertion.file"
            )
        return
    for value, name in (
        (found.client_id, "sasl.oauthbearer.client.credentials.client.id"),
        (found.client_secret, "sasl.oauthbearer.client.credentials.client.secret"),
    ):
        if not value:
            raise ConfigError(f"sasl.oauthbearer.token.endpoint.url needs {name}")


def _unsecured(config: ClientConfig, found: Credentials) -> Credentials:
    options = {
        key.removeprefix("unsecuredLogin"): text
        for key, text in found.options.items()
        if key.startswith("unsecuredLogin")
    }
    extensions = dict(found.extensions)
    extensions |= {k.removeprefix("Extension_"): v for k, v in options.items() if k.startswith("Extension_")}
    if not options:
        pairs = _unsecured_pairs(config.sasl_oauthbearer_config or "")
        claim = pairs.get("principalClaimName", "sub")
        options = {"PrincipalClaimName": claim, f"StringClaim_{claim}": pairs.get("principal", "")}
        options["LifetimeSeconds"] = pairs.get("lifeSeconds", "3600")
        if pairs.get("scope"):
            options[f"ListClaim_{pairs.get('scopeClaimName', 'scope')}"] = "," + pairs["scope"]
        extensions |= {k.removeprefix("extension_"): v for k, v in pairs.items() if k.startswith("extension_")}
    claim = options.get("PrincipalClaimName") or "sub"
    if not options.get(f"StringClaim_{claim}"):
        jaas_option = f"unsecuredLoginStringClaim_{claim}=... in sasl.jaas.config"
        where = jaas_option if found.options else "sasl.oauthbearer.config=principal=..."
        raise ConfigError(f"an unsecured token needs a principal: set {where}")
    lifetime = options.get("LifetimeSeconds", "3600")
    if not re.fullmatch(r"\d{1,9}(\.\d+)?", lifetime) or float(lifetime) <= 0:
        raise ConfigError(f"the lifetime of an unsecured token is {lifetime!r}: expected a number of seconds above 0")
    for key, text in options.items():
        if key.startswith("NumberClaim_") and not NUMBER.fullmatch(text):
            raise ConfigError(f"unsecuredLogin{key}={text!r} in sasl.jaas.config: expected a number")
    return Credentials(OAUTHBEARER, method=TokenMethod.UNSECURED, extensions=extensions, options=options)


def _unsecured_pairs(text: str) -> dict[str, str]:
    found = {m[1]: m[2] if m[2] is not None else m[3] for m in UNSECURED_OPTION.finditer(text)}
    if UNSECURED_OPTION.sub("", text).strip():
        raise ConfigError(
            "sasl.oauthbearer.config: expected NAME=VALUE pairs separated by blanks, such as principal=alice"
        )
    return found


def _pairs(name: str, text: str | None) -> dict[str, str]:
    if not text:
        return {}
    found = dict(part.strip().split("=", 1) for part in text.split(",") if "=" in part)
    if len(found) != len(text.split(",")):
        raise ConfigError(f"{name}: expected key=value pairs separated by commas")
    return found


def exchange_by_password(credentials: Credentials, rng: Rng, derived: DerivedPasswords | None = None) -> ClientExchange:
    password = credentials.password or Secret("")
    if credentials.mechanism == "PLAIN":
        return PlainClient(credentials.username, password)
    return ScramClient(credentials.mechanism, credentials.username, password, new_nonce(rng), derived)


def principal_of(config: ClientConfig) -> str:
    """Return the principal of this client as ACLs name it, or "" if only the broker knows it.

    Only the broker knows the principal of a certificate or of an external token.
    """
    credentials = credentials_of(config)
    if credentials is None:
        return "" if SecurityProtocol(config.security_protocol).uses_tls else "User:ANONYMOUS"
    claim = credentials.options.get("PrincipalClaimName") or "sub"
    name = credentials.username or credentials.options.get(f"StringClaim_{claim}", "")
    return f"User:{name}" if name else ""
