"""A client's own tokens: what one says, for errors; and those without a signature, which it makes itself, for tests."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kohort.secret import Secret


class Token(NamedTuple):
    """A token, and what the client was told about it; ``expires_ms`` None: nobody said when."""

    text: Secret
    expires_ms: int | None
    extensions: Mapping[str, str]
    principal: str = ""


def claims_of(token: str) -> Mapping[str, Any]:
    """Return what a JWT says; nothing where it is none. Its signature is not looked at: it is the client's own."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        said = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return said if isinstance(said, dict) else {}


def expiry_ms(token: str) -> int | None:
    """Return when a JWT says that it expires."""
    at = claims_of(token).get("exp")
    return int(at * 1000) if isinstance(at, int | float) and not isinstance(at, bool) else None


def told(token: Token, now_ms: int) -> str:
    """Say whose token it is, for whom and until when: what may be wrong with it, and nothing that is secret."""
    claims = claims_of(token.text.reveal())
    name = token.principal or claims.get("sub")
    words = [f"a token of {name!r}" if name else "a token"]
    if token.expires_ms is not None:
        left_s = (token.expires_ms - now_ms) / 1000
        words.append(f"exp in {left_s:.0f} s" if left_s > 0 else f"exp {-left_s:.0f} s ago by this clock")
    words += [f"{key}={claims[key]!r}" for key in ("aud", "iss") if key in claims]
    return ", ".join(words)


def unsecured(options: Mapping[str, str], extensions: Mapping[str, str], now_ms: int) -> Token:
    """Make a token without a signature, of the claims that Java's ``unsecuredLogin`` options name (KIP-255).

    A list's first character is what stands between its items.
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
