"""One change of an option, as IncrementalAlterConfigs names it (KIP-339)."""

from __future__ import annotations

from typing import Final

from kohort.errors import ApiError, ErrorCode

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

Change = tuple[str, int, str | None]
"""Name, operation, value."""


def edited(now: list[str], operation: int, value: str) -> list[str]:
    """Return a list after SET, APPEND or SUBTRACT of the comma-separated ``value``. Raises ApiError INVALID_REQUEST."""
    given = [part.strip() for part in value.split(",") if part.strip()]
    if operation == SET:
        return given
    if operation == APPEND:
        return [*now, *(part for part in given if part not in now)]
    if operation == SUBTRACT:
        return [part for part in now if part not in given]
    raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")
