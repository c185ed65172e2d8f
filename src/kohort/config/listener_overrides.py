"""Options of one listener: ``listener.name.<name in lower case>.<option>``.

Login options may have the mechanism as a prefix: ``listener.name.external.plain.sasl.jaas.config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kohort.config.listener_security import MECHANISMS, ListenerConfig
from kohort.config.options import Option, option, options_of, unknown_option
from kohort.errors import ConfigError
from kohort.secret import Secret

PREFIX: Final = "listener.name."
LIMITS: Final = ("max.connections", "max.connection.creation.rate")
IGNORED_OF_LISTENERS: Final = frozenset(
    """
    num.network.threads ssl.protocol ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm
    ssl.secure.random.implementation ssl.endpoint.identification.algorithm ssl.allow.dn.changes ssl.allow.san.changes
    sasl.mechanism.inter.broker.protocol sasl.mechanism.controller.protocol sasl.client.callback.handler.class
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
    sasl.login.refresh.buffer.seconds sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms
    sasl.kerberos.service.name sasl.kerberos.kinit.cmd sasl.kerberos.ticket.renew.window.factor
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.header.urlencode
    """.split()  # noqa: SIM905 - forty words read better unquoted
)
"""Kafka's listener options without effect: Java classes, and options of a broker as a client."""

_OPTIONS: Final[Mapping[str, Option]] = {o.name: o for o in options_of(ListenerConfig)}
_MECHANISMS: Final = frozenset(mechanism.lower() for mechanism in MECHANISMS)
_LIMIT: Final[Option] = option(0, "", low=0, bits=32).metadata["option"]
_KERBEROS: Final = "gssapi."
_OF_LOGINS: Final = ("sasl.", "connections.max.reauth.ms")
"""Prefixes of login options: ``listener.name.`` options with a mechanism before the option name."""

Overrides = Mapping[str, Mapping[str, Any]]
"""Overrides by listener name in lower case, then by option name, which may begin with a mechanism."""


def option_of(rest: str) -> Option | None:
    mechanism, _, inner = rest.partition(".")
    if rest in LIMITS:
        return replace(_LIMIT, name=rest)
    if mechanism in _MECHANISMS and inner.startswith(_OF_LOGINS):
        return _OPTIONS.get(inner)
    return _OPTIONS.get(rest)


def split_name(name: str) -> tuple[str, str]:
    """Split ``listener.name.<listener>.<rest>``; a listener's name may contain dots."""
    text = name.removeprefix(PREFIX)
    ends = [i for i, letter in enumerate(text) if letter == "."]
    for end in ends:
        rest = text[end + 1 :]
        if option_of(rest) or rest in IGNORED_OF_LISTENERS or rest.startswith(_KERBEROS):
            return text[:end].lower(), rest
    end = ends[0] if ends else len(text)
    return text[:end].lower(), text[end + 1 :]


def gather(given: Mapping[str, Any]) -> Overrides:
    """Return the overrides by listener; options without effect are omitted.

    Raises ConfigError with the full name for an unknown option or an invalid value.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        listener, rest = split_name(name)
        declared = option_of(rest)
        if declared is not None:
            replace(declared, name=name).parse(value)
            is_secret = declared.type is Secret and value is not None
            found.setdefault(listener, {})[rest] = Secret(value) if is_secret else value
        elif rest.startswith(_KERBEROS):
            raise ConfigError(f"{name}: listeners do not support GSSAPI, only {', '.join(MECHANISMS)}")
        elif rest not in IGNORED_OF_LISTENERS:
            raise unknown_option(name, [f"{PREFIX}{listener}.{known}" for known in (*_OPTIONS, *LIMITS)])
    return found


def overlaid(base: ListenerConfig, said: Mapping[str, Any], listener: str, mechanism: str = "") -> ListenerConfig:
    """Return the options of a listener: ``base`` with its overrides, and those of a mechanism."""
    values: dict[str, Any] = {o.attribute: getattr(base, o.attribute) for o in _OPTIONS.values()}
    for prefix in ("", f"{mechanism.lower()}.") if mechanism else ("",):
        for declared in _OPTIONS.values():
            rest = f"{prefix}{declared.name}"
            if rest in said:
                named = replace(declared, name=f"{PREFIX}{listener.lower()}.{rest}")
                values[declared.attribute] = named.parse(said[rest])
    return ListenerConfig(**values)
