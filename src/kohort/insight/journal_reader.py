"""Parser of journal records; it skips and counts records that it cannot read, such as those of newer versions."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.journal import JournalEntry, parse_entry

JOURNAL_OPTIONS: Final = {"allow.auto.create.topics": False, "isolation.level": "read_committed"}
"""Consumer options for the journal topic: read_committed, because watchers write in transactions."""


class JournalReader:
    """Parser of journal records. ``entries`` has the entries of one group, or of all groups, in log order."""

    def __init__(self, group: str | None = None) -> None:
        self._key = None if group is None else group.encode("utf-8", "surrogatepass")
        self.entries: list[JournalEntry] = []
        self.unread = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        if value is None or (self._key is not None and key != self._key):
            return
        try:
            self.entries.append(parse_entry(value))
        except ValueError:
            self.unread += 1
