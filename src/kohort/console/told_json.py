"""Results as JSON for a page: UTF-8, whatever names hold, and nothing that ends a script."""

from __future__ import annotations

import json
from typing import Any

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
