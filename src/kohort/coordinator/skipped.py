"""What was passed over while a log was read: counted, and the first of it in words.

A record that cannot be read costs itself alone. The log may have been written by Kafka, by a later version, or by a
client that an earlier version let write there; what else it holds is still true.
"""

from __future__ import annotations

from typing import Final

from kohort.notes import Note, warning

SHOWN: Final = 3
"""How many are told in words."""
WORDS_MAX: Final = 200


class Skipped:
    """Records of one log that cannot be read."""

    __slots__ = ("_first", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []

    def add(self, what: object) -> None:
        """Count one; ``what`` says which, and why it cannot be read."""
        self.count += 1
        if len(self._first) < SHOWN:
            self._first.append(str(what)[:WORDS_MAX])

    def told_of(self, log: str) -> list[Note]:
        """Return the one note for the broker's log, or none where nothing was passed over."""
        if not self.count:
            return []
        more = f"; and {self.count - len(self._first)} more" if self.count > len(self._first) else ""
        words = "; ".join(self._first)
        return [warning(f"{log}: passed over what cannot be read, {self.count} in all: {words}{more}")]
