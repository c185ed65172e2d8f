"""Users given to an embedded broker with their passwords: kept from the first moment on as what SCRAM needs of them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any, Final

from kohort.config.server_properties import ADD_SCRAM
from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import HASHES, ITERATIONS_LOW, SALT_BYTES

LISTENER: Final = "SASL_PLAINTEXT"
"""The listener of a broker with users that is told of no other."""


def options_for(users: Mapping[str, str | Secret], address: str) -> dict[str, Any]:
    """Return the options of a broker at ``address`` on which these users log in by SCRAM. Raises ConfigError."""
    if not users:
        raise ConfigError("users={}: expected names and their passwords")
    lines = [_line(mechanism, name, users[name]) for name in users for mechanism in HASHES]
    return {ADD_SCRAM: Secret("\n".join(lines)), "listeners": f"{LISTENER}://{address}"}


def _line(mechanism: str, name: str, password: str | Secret) -> str:
    if not name or '"' in name or len(name.splitlines()) > 1 or not Secret(password):
        raise ConfigError(f"users: {name!r}: expected a name in one line without quotes, and a password")
    salt = secrets.token_bytes(SALT_BYTES)
    salted = Derivation(Secret(password), salt, ITERATIONS_LOW, HASHES[mechanism]).derive()
    shown = [base64.b64encode(value).decode() for value in (salt, salted)]
    return f'{mechanism}=[name="{name}",iterations={ITERATIONS_LOW},salt="{shown[0]}",saltedpassword="{shown[1]}"]'
