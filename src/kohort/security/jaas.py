"""Parser of ``sasl.jaas.config``: ``<class> required key="value" ...;`` (protocol/security.md#jaas).

Classes are known by their simple names, so a shaded ``kafkashaded.org.apache...PlainLoginModule`` is accepted. Values
are never shown, neither in errors nor in a ``repr``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.errors import ConfigError
from kohort.secret import HIDDEN, Secret

OPTION: Final = "sasl.jaas.config"
PLAIN_MODULE: Final = "PlainLoginModule"
SCRAM_MODULE: Final = "ScramLoginModule"
OAUTH_MODULE: Final = "OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "Krb5LoginModule"
MSK_MODULE: Final = "IAMLoginModule"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
SHOWN_KEYS: Final = re.compile(
    r"username|password|clientId|clientSecret|scope|tokenauth|useKeyTab|keyTab|principal|storeKey|serviceName"
    r"|useTicketCache|debug|(?:user_|extension_|unsecured|aws)\w*"
)
QUOTED: Final = r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"""
TOKEN: Final = re.compile(rf"""\s*(?:(?P<quoted>{QUOTED})|(?P<mark>[=;])|(?P<bare>[^\s"'=;][^\s"=;]*))""", re.DOTALL)
COMMENT: Final = re.compile(rf"({QUOTED})|/\*.*?\*/|//[^\n]*", re.DOTALL)
ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    module: str
    options: Mapping[str, Secret] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        value = self.options.get(key)
        return None if value is None else value.reveal()

    def under(self, prefix: str) -> dict[str, Secret]:
        """Return the options whose keys begin with ``prefix``, such as ``user_``; the keys lose the prefix."""
        return {key.removeprefix(prefix): value for key, value in self.options.items() if key.startswith(prefix)}


def parse_jaas(config: Secret, option: str = OPTION) -> JaasEntry:
    """Parse one entry. Raises ConfigError with Kafka's message."""
    tokens = _tokens(config.reveal(), option)
    if not tokens:
        raise ConfigError(f"{option}: Login module not specified in JAAS config")
    (module, _), rest = tokens[0], tokens[1:]
    if not rest or rest[0] == (";", True):
        raise ConfigError(f"{option}: Login module control flag not specified in JAAS config")
    flag, rest = rest[0][0], rest[1:]
    if flag.lower() not in FLAGS:
        raise ConfigError(f"{option}: Login module control flag is none of {', '.join(FLAGS)} in JAAS config")
    options: dict[str, Secret] = {}
    while rest and rest[0] != (";", True):
        key = rest[0][0]
        if len(rest) < 3 or rest[1] != ("=", True) or rest[2][1]:
            shown = key if SHOWN_KEYS.fullmatch(key) else HIDDEN
            raise ConfigError(f"{option}: Value not specified for key '{shown}' in JAAS config")
        options[key] = Secret(rest[2][0])
        rest = rest[3:]
    if not rest:
        raise ConfigError(f"{option}: JAAS config entry not terminated by semi-colon")
    if len(rest) > 1:
        raise ConfigError(f"{option}: JAAS config property contains several login modules, should be 1 module")
    return JaasEntry(re.split(r"[.$]", module)[-1], options)


def _tokens(text: str, option: str) -> list[tuple[str, bool]]:
    text = COMMENT.sub(lambda found: found[1] or " ", text)
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = TOKEN.match(text, at)
        if found is None:  # only an open quotation mark matches no token
            raise ConfigError(f"{option}: unclosed quotation mark in JAAS config")
        quoted = found["quoted"]
        if quoted is not None:
            tokens.append((ESCAPE.sub(lambda c: ESCAPES.get(c[1], c[1]), quoted[1:-1]), False))
        else:
            tokens.append((found["mark"] or found["bare"], found["mark"] is not None))
        at = found.end()
    return tokens
