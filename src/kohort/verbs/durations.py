"""Parse durations: ``90s``, ``30m``, ``1h30m``, ``1.5h``, and ISO 8601 durations as in Kafka's tools."""

from __future__ import annotations

import re
from typing import Final

UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST_MS: Final = 100 * 366 * UNIT_MS["d"]
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|min|[smhdw])")
_ISO: Final = re.compile(
    r"p(?:([0-9]{1,12})d)?(?:t(?=[0-9])(?:([0-9]{1,12})h)?(?:([0-9]{1,12})m)?(?:([0-9]{1,12}(?:\.[0-9]{1,9})?)s)?)?"
)


def parse_duration_ms(text: str) -> int | None:
    """Convert a lower-case duration such as ``1h30m`` to ms; None if it is malformed."""
    iso = _ISO.fullmatch(text)
    if iso is not None and any(iso.groups()):
        return int(sum(float(n or 0) * UNIT_MS[unit] for n, unit in zip(iso.groups(), "dhms", strict=True)))
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return int(sum(float(number) * UNIT_MS[unit] for number, unit in parts))
