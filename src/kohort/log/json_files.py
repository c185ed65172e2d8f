"""The files of ours that are JSON: read whole, and either understood or refused with their name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kohort.errors import StorageError
from kohort.log.storage import Storage

T = TypeVar("T")
MISFITS: Final = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
"""What comes of taking JSON that is none, or is of another shape, for what it should be."""


def read_json(storage: Storage, name: str, parse: Callable[[Any], T], advice: str) -> T | None:
    """Return what ``parse`` makes of a file; None where there is none. Raises StorageError, with ``advice``, if it
    fails."""
    data = storage.read(name)
    if data is None:
        return None
    try:
        return parse(json.loads(data))
    except MISFITS as error:
        raise StorageError(f"{name} cannot be read ({error!r}). {advice}") from error
