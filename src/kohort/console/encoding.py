"""Answers as JSON and gzip: UTF-8 for any name, no text that ends a script.

No secret is compressed: the answer with the token and the login page are sent as they are, against BREACH.
"""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import msgspec


def json_of(result: Any) -> bytes:
    """Return JSON in UTF-8; text that is no Unicode (a lone surrogate) is escaped, as JSON allows."""
    try:
        return msgspec.json.encode(result)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(result), separators=(",", ":")).encode()


def json_in_html(result: Any) -> str:
    """Return JSON that may stand in a script element: no ``<``, no line ends of scripts."""
    text = json_of(result).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


LEAST: Final = 1400
"""Bytes: what is smaller fits into one packet anyway."""
QUICK: Final = 3
"""For what is made anew for each who asks: the next levels take twice the time for a tenth less."""
SMALL: Final = 9
"""For what is made once."""
ENCODED: Final = {"content-encoding": "gzip"}
VARIES: Final = {"vary": "Accept-Encoding"}


def takes_gzip(accepted: str) -> bool:
    """Tell whether a request's ``Accept-Encoding`` allows gzip."""
    wanted: dict[str, bool] = {}
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        wanted[name.strip()] = not _is_zero(weight)
    return wanted.get("gzip", wanted.get("*", False))


def _is_zero(weight: str) -> bool:
    if not weight.strip():
        return False
    try:
        return float(weight.partition("=")[2]) <= 0
    except ValueError:
        return True


def squeezed(content: bytes, level: int = QUICK) -> bytes | None:
    """Return ``content`` as gzip; None where it would not be smaller by much. May take milliseconds."""
    if len(content) < LEAST:
        return None
    smaller = gzip.compress(content, level, mtime=0)
    return smaller if len(smaller) < len(content) * 9 // 10 else None
