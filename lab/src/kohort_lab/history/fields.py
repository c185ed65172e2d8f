"""Fields of an operation, each with the type that it has to have; what is wrong is said in words."""

from __future__ import annotations

from typing import Any, Final

from kohort_lab.history.logs import OFFSETS_END

PARTITIONS_END: Final = 1 << 31
TIMES_END: Final = 1 << 61


class WrongField(ValueError):
    """A field is missing, or is not what it has to be."""


def text(operation: dict[str, Any], name: str) -> str:
    """Return a text. Raises WrongField."""
    found = operation.get(name)
    if isinstance(found, str) and found:
        return found
    raise WrongField(f"{name!r} has to be a text that is not empty, not {found!r}")


def choice(operation: dict[str, Any], name: str, among: tuple[str, ...], default: str | None = None) -> str:
    """Return one of some texts; the default where there is none. Raises WrongField."""
    found = operation.get(name, default)
    if isinstance(found, str) and found in among:
        return found
    raise WrongField(f"{name!r} has to be one of {', '.join(among)}, not {found!r}")


def whole(found: Any, name: str, end: int = TIMES_END, start: int = 0) -> int:
    """Return a whole number from ``start`` up to ``end``. Raises WrongField."""
    if type(found) is int and start <= found < end:
        return found
    raise WrongField(f"{name!r} has to be a whole number from {start} up to {end}, not {found!r}")


def offset(found: Any, name: str = "offset") -> int:
    """Return an offset. Raises WrongField."""
    return whole(found, name, OFFSETS_END)


def when(operation: dict[str, Any]) -> int:
    """Return when an operation began, in microseconds. Raises WrongField."""
    return whole(operation.get("at"), "at")


def ended(operation: dict[str, Any], began: int, default: int) -> int:
    """Return when an operation ended, in microseconds; the default where that is not said. Raises WrongField."""
    found = operation.get("done")
    if found is None:
        return default
    if whole(found, "done") < began:
        raise WrongField(f"'done' ({found}) lies before 'at' ({began})")
    return int(found)


def listed(operation: dict[str, Any], name: str, lengths: tuple[int, ...]) -> list[list[Any]]:
    """Return a list of lists that have one of some lengths. Raises WrongField."""
    found = operation.get(name)
    if not isinstance(found, list):
        raise WrongField(f"{name!r} has to be a list, not {found!r}")
    for entry in found:
        if not isinstance(entry, list) or len(entry) not in lengths:
            raise WrongField(
                f"an entry of {name!r} has to be a list of {' or '.join(map(str, lengths))}, not {entry!r}"
            )
    return found


def flag(operation: dict[str, Any], name: str) -> bool:
    """Return true or false; false where there is none. Raises WrongField."""
    found = operation.get(name, False)
    if isinstance(found, bool):
        return found
    raise WrongField(f"{name!r} has to be true or false, not {found!r}")
