"""Notes: log messages of code without I/O, with their level.

A state machine makes a note where an event occurs and returns it with its outputs; the caller writes it to the log
(``aio/serving/broker_log.py``). Names of topics, clients and groups in a note are untrusted: ``one_line`` escapes them
when the note is written.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

LINE_MAX_CHARS: Final = 1_000


class Level(IntEnum):
    """Levels of notes, with the numbers of ``logging``. A loss or a rejection is at least a WARNING."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Note:
    level: Level
    text: str
    kind: Hashable = None
    """Key of similar notes: they are logged once a minute, with their count. None: each note is logged."""

    def __str__(self) -> str:
        return self.text

    def about(self, what: object) -> Note:
        """Return the note with a subject before its text and kind: "orders-0: ..."."""
        return replace(self, text=f"{what}: {self.text}", kind=None if self.kind is None else (str(what), self.kind))


def debug(text: str, kind: Hashable = None) -> Note:
    """Make a DEBUG note, for diagnosis."""
    return Note(Level.DEBUG, text, kind)


def info(text: str, kind: Hashable = None) -> Note:
    return Note(Level.INFO, text, kind)


def warning(text: str, kind: Hashable = None) -> Note:
    """Make a WARNING note: something was lost or rejected."""
    return Note(Level.WARNING, text, kind)


def failure(text: str, kind: Hashable = None) -> Note:
    """Make an ERROR note: an operator must act."""
    return Note(Level.ERROR, text, kind)


def one_line(text: str, limit: int = LINE_MAX_CHARS) -> str:
    """Return ``text`` as one safe log line of at most ``limit`` characters.

    Non-printable characters are escaped as in Python (``\\n``, ``\\x1b``, ``\\u202e``): line ends, control characters,
    bidirectional marks, surrogates.
    """
    head = text[:limit]
    shown = head
    if not head.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in head)
    if len(shown) <= limit and len(text) == len(head):
        return shown
    return f"{shown[:limit]}... ({len(text)} characters in all)"


def printable(text: str) -> str:
    """Replace non-printable characters by ``?``, so that text cannot move a cursor, break a line or change colours."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
