"""Typed fields of a history operation."""

from __future__ import annotations

from typing import Any, Final

from kohort_lab.history.logs import OFFSETS_END

PARTITIONS_END: Final = 1 << 31
TIMES_END: Final = 1 << 61


class WrongField(ValueError):
    """Missing or invalid field of a history operation."""


def text(operation: dict[str, Any], name: str) -> str:
    """Return a non-empty string field. Raises WrongField."""
    found = operation.get(name)
    if isinstance(found, str) and found:
        return found
    raise WrongField(f"{name!r} must be a non-empty string, not {found!r}")


def choice(operation: dict[str, Any], name: str, among: tuple[str, ...], default: str | None = None) -> str:
    """Return a string field with one of some values. Raises WrongField."""
    found = operation.get(name, default)
    if isinstance(found, str) and found in among:
        return found
    raise WrongField(f"{name!r} must be one of {', '.join(among)}, not {found!r}")


def whole(found: Any, name: str, end: int = TIMES_END, start: int = 0) -> int:
    """Return an integer in ``[start, end)``. Raises WrongField."""
    if type(found) is int and start <= found < end:
        return found
    raise WrongField(f"{name!r} must be an integer from {start} up to {end} (excluded), not {found!r}")


def offset(found: Any, name: str = "offset") -> int:
    return whole(found, name, OFFSETS_END)


def when(operation: dict[str, Any]) -> int:
    """Return the start time of an operation, in microseconds. Raises WrongField."""
    return whole(operation.get("at"), "at")


def ended(operation: dict[str, Any], began: int, default: int) -> int:
    """Return the end time of an operation, in microseconds. Raises WrongField."""
    found = operation.get("done")
    if found is None:
        return default
    if whole(found, "done") < began:
        raise WrongField(f"'done' ({found}) is before 'at' ({began})")
    return int(found)


def listed(operation: dict[str, Any], name: str, lengths: tuple[int, ...]) -> list[list[Any]]:
    """Return a list of lists with one of the ``lengths``. Raises WrongField."""
    found = operation.get(name)
    if not isinstance(found, list):
        raise WrongField(f"{name!r} must be a list, not {found!r}")
    for entry in found:
        if not isinstance(entry, list) or len(entry) not in lengths:
            raise WrongField(
                f"an entry of {name!r} must be a list of length {' or '.join(map(str, lengths))}, not {entry!r}"
            )
    return found


def flag(operation: dict[str, Any], name: str) -> bool:
    """Return a boolean field, False by default. Raises WrongField."""
    found = operation.get(name, False)
    if isinstance(found, bool):
        return found
    raise WrongField(f"{name!r} must be true or false, not {found!r}")
