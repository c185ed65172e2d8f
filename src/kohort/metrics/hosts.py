"""Names in a Host header by which a page on the loopback address may be requested.

A page of another site can give its own name the address 127.0.0.1 and read what is served there (DNS rebinding). The
Host header still has the other name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

LONGEST = 300


def host_of(header: str) -> str | None:
    """Return the name or address in a Host header, in lower case; None for a malformed header."""
    if len(header) > LONGEST or any(char in header for char in "/@?#\\ "):
        return None
    try:
        parts = urlsplit(f"//{header}")
        parts.port  # noqa: B018 - raises for a malformed port
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".") or None


def is_own_name(header: str | None, names: Collection[str] = ("localhost",)) -> bool:
    """Tell whether a Host header is absent, one of ``names``, or an address in figures, which no site can rebind."""
    if header is None:
        return True
    name = host_of(header)
    if name is None or name in names:
        return name is not None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
