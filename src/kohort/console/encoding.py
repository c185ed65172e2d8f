"""Encoding of answers: JSON in UTF-8, JSON within HTML, gzip.

Answers with secrets (the CSRF token, the login page) are never compressed: this prevents the BREACH attack.
"""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import msgspec


def json_of(result: Any) -> bytes:
    """Return a result as JSON in UTF-8. Lone surrogates are escaped, because UTF-8 cannot encode them."""
    try:
        return msgspec.json.encode(result)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(result), separators=(",", ":")).encode()


def json_in_html(result: Any) -> str:
    """Return JSON for an HTML script element: without ``<``, ``>``, ``&`` and JavaScript's line terminators."""
    text = json_of(result).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


LEAST_BYTES: Final = 1400
"""Minimum size in bytes of the answers that are compressed. Smaller answers fit into one packet."""
FAST_LEVEL: Final = 3
"""gzip level of API answers.

Each request compresses its answer. Higher levels make it a tenth smaller, but take twice as long.
"""
BEST_LEVEL: Final = 9
"""gzip level of static files, which are compressed only once."""
ENCODED: Final = {"content-encoding": "gzip"}
VARIES: Final = {"vary": "Accept-Encoding"}


def takes_gzip(accepted: str) -> bool:
    """Return True if an ``Accept-Encoding`` header allows gzip."""
    allowed: dict[str, bool] = {}
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        allowed[name.strip()] = not _is_zero(weight)
    return allowed.get("gzip", allowed.get("*", False))


def _is_zero(weight: str) -> bool:
    if not weight.strip():
        return False
    try:
        return float(weight.partition("=")[2]) <= 0
    except ValueError:
        return True


def gzipped(content: bytes, level: int = FAST_LEVEL) -> bytes | None:
    """Return ``content`` gzipped; None if gzip saves less than a tenth of the size. Blocks the thread for some ms."""
    if len(content) < LEAST_BYTES:
        return None
    smaller = gzip.compress(content, level, mtime=0)
    return smaller if len(smaller) < len(content) * 9 // 10 else None
