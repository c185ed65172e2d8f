"""Times in records and journal entries: wall time when written, ``now_ms`` of the machines in memory."""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec

from kohort.coordinator.journal_events import JournalEntry
from kohort.coordinator.records import Record

RECORD_TIMES: Final = (
    "commit_timestamp",
    "expire_timestamp",
    "current_state_timestamp",
    "assignment_timestamp",
    "timestamp",
)
UNSET: Final = (-1, 0)
ENTRY_TIMES: Final = frozenset(
    {"at_ms", "last_seen_ms", "connection_closed_at_ms", "last_progress_ms", "last_commit_ms", "stalled_at_ms"}
)


def moved_record(record: Record, by_ms: int) -> Record:
    """Return the record with its times moved by ``by_ms``; unset times stay unset."""
    given = record.value
    named = [name for name in RECORD_TIMES if getattr(given, name, -1) not in UNSET] if by_ms else []
    if not named:
        return record
    value: Any = copy.copy(given)
    for name in named:
        setattr(value, name, getattr(value, name) + by_ms)
    return record._replace(value=value)


def moved_entry(entry: JournalEntry, by_ms: int) -> JournalEntry:
    """Return the journal entry with its points in time moved by ``by_ms``; durations stay."""
    moved: JournalEntry = _moved(entry, by_ms) if by_ms else entry
    return moved


def _moved(value: Any, by_ms: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(one, by_ms) for one in value) if type(value) is tuple else value
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:
        held = getattr(value, name)
        if name in ENTRY_TIMES and held is not None:
            changes[name] = held + by_ms
        elif (moved := _moved(held, by_ms)) is not held:
            changes[name] = moved
    return msgspec.structs.replace(value, **changes) if changes else value
