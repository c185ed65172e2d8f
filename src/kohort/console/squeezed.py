"""Answers made smaller on the way (gzip), where who asks takes that: JSON and the files of the page, never a stream.

What is squeezed holds no secret: the answer that has the token and the login's page go as they are, so that nobody
learns of them from lengths (BREACH).
"""

from __future__ import annotations

import gzip
from typing import Final

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
    """Tell whether a weight such as ``q=0.0`` refuses; what cannot be read refuses, too."""
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
