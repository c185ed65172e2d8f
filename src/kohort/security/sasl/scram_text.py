"""Users of SCRAM in text, as Kafka's tools take them: ``SCRAM-SHA-256=[name=alice,iterations=8192,password=...]``.

No value is ever shown in an error.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import HASHES, ITERATIONS_HIGH, ITERATIONS_LOW, ScramCredential, credential_of

KEYS: Final = ("name", "iterations", "salt", "password", "saltedpassword")
ENTRY: Final = re.compile(r"(?P<mechanism>[^=\[\]]+)=\[(?P<pairs>.*)\]", re.DOTALL)
PAIR: Final = re.compile(r'\s*(?P<key>\w+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<bare>[^,"]*))\s*(?:,|$)')
SALT_BYTES: Final = 18
EXPECTED: Final = "expected SCRAM-SHA-256=[name=USER,password=PASSWORD], also with iterations= and salt="


class NamedCredential(NamedTuple):
    """A user, a mechanism, and what is kept of the password."""

    user: str
    mechanism: str
    credential: ScramCredential


def check_users(option: str, text: Secret) -> None:
    """Raise ConfigError for text that names no users, without deriving anything."""
    for line in _lines(text):
        _parsed(option, line)


def parse_users(option: str, text: Secret, new_salt: Callable[[], bytes]) -> list[NamedCredential]:
    """Read users, one a line, and derive what is kept of their passwords. Raises ConfigError."""
    return [_derived(option, *_parsed(option, line), new_salt) for line in _lines(text)]


def _lines(text: Secret) -> list[str]:
    return [line.strip() for line in text.reveal().splitlines() if line.strip()]


def _parsed(option: str, line: str) -> tuple[str, dict[str, str]]:
    entry = ENTRY.fullmatch(line)
    if entry is None:
        raise ConfigError(f"{option}: {EXPECTED}")
    mechanism, text, at, found = entry["mechanism"].strip(), entry["pairs"].strip(), 0, {}
    if mechanism not in HASHES:
        raise ConfigError(f"{option}: the mechanism is one of {', '.join(HASHES)}")
    while at < len(text):
        pair = PAIR.match(text, at)
        if pair is None or pair["key"] not in KEYS or pair["key"] in found:
            raise ConfigError(f"{option}: {EXPECTED}")
        found[pair["key"]] = pair["bare"].strip() if pair["quoted"] is None else pair["quoted"]
        at = pair.end()
    if not found.get("name") or bool(found.get("password")) == bool(found.get("saltedpassword")):
        raise ConfigError(f"{option}: a user needs a name, and either a password or a saltedpassword")
    iterations = found.setdefault("iterations", str(ITERATIONS_LOW))
    if not re.fullmatch(r"[0-9]{1,9}", iterations) or not ITERATIONS_LOW <= int(iterations) <= ITERATIONS_HIGH:
        raise ConfigError(f"{option}: iterations are a number from {ITERATIONS_LOW} to {ITERATIONS_HIGH}")
    _unbase64(option, found, "salt")
    salted = _unbase64(option, found, "saltedpassword")
    if salted and (not found.get("salt") or len(salted) != hashlib.new(HASHES[mechanism]).digest_size):
        raise ConfigError(f"{option}: a saltedpassword needs its salt, and is as long as the hash")
    return mechanism, found


def _derived(option: str, mechanism: str, said: dict[str, str], new_salt: Callable[[], bytes]) -> NamedCredential:
    salt = _unbase64(option, said, "salt") or new_salt()
    iterations, hash_name = int(said["iterations"]), HASHES[mechanism]
    salted = _unbase64(option, said, "saltedpassword")
    if not salted:
        salted = Derivation(Secret(said["password"]), salt, iterations, hash_name).derive()
    return NamedCredential(said["name"], mechanism, credential_of(hash_name, salt, iterations, salted))


def _unbase64(option: str, said: dict[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(said.get(key, ""), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{option}: {key} is not in base 64") from None
