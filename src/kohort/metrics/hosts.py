"""Names in a Host header by which a page on the loopback address may be requested.

A page of another site can give its own name the address 127.0.0.1 and read what is served there (DNS rebinding). The
Host header still has the other name.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

LONGEST = 300


def is_own_name(header: str | None) -> bool:
    """Tell whether a Host header is absent, localhost, or an address in figures, which no site can rebind."""
    if header is None:
        return True
    if len(header) > LONGEST or any(char in header for char in "/@?#\\ "):
        return False
    try:
        name = (urlsplit(f"//{header}").hostname or "").rstrip(".")
        if name != "localhost":
            ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
