"""About how many bytes a journal entry holds, for whoever keeps entries: rather too much than too little.

Most entries hold a few names. Those of large groups hold a thing for each member or partition, and a client's words may
be long.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.coordinator.journal_base import JournalEntry

LEAST_BYTES: Final = 200
ITEM_BYTES: Final = 100
"""A value within a value, without its text."""


def held_bytes(entry: JournalEntry) -> int:
    """Return about how many bytes an entry holds; takes some microseconds, and more for large ones."""
    return LEAST_BYTES + sum(_bytes_of(getattr(entry, name)) for name in entry.__struct_fields__)


def _bytes_of(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple):
        first = value[0] if value else None
        return 8 * len(value) if isinstance(first, int) else sum(ITEM_BYTES + _bytes_of(one) for one in value)
    if isinstance(value, dict):
        return sum(ITEM_BYTES + len(key) + _bytes_of(one) for key, one in value.items())
    fields: tuple[str, ...] = getattr(value, "__struct_fields__", ())
    return sum(_bytes_of(getattr(value, name)) for name in fields)
