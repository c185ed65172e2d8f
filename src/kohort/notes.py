"""Notes: messages of a machine with a level, which its caller writes to the log.

A machine makes a note where an event occurs and returns it with its outputs; the caller logs it
(``aio/serving/broker_log.py``). Names of topics, clients and groups in a note are untrusted: ``one_line`` escapes them
where the line is written.
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
    """One thing to tell."""

    level: Level
    text: str
    kind: Hashable = None
    """The first of a kind is told at once, and what follows within a minute is counted. None: always told."""

    def __str__(self) -> str:
        return self.text

    def about(self, what: object) -> Note:
        """Return the same note, of ``what``: "orders-0: ...". So is its kind."""
        return replace(self, text=f"{what}: {self.text}", kind=None if self.kind is None else (str(what), self.kind))


def debug(text: str, kind: Hashable = None) -> Note:
    """Note what only who looks for a fault wants to know."""
    return Note(Level.DEBUG, text, kind)


def info(text: str, kind: Hashable = None) -> Note:
    """Make an INFO note."""
    return Note(Level.INFO, text, kind)


def warning(text: str, kind: Hashable = None) -> Note:
    """Note what was lost, refused, or done without."""
    return Note(Level.WARNING, text, kind)


def failure(text: str, kind: Hashable = None) -> Note:
    """Make an ERROR note: an operator must act."""
    return Note(Level.ERROR, text, kind)


def one_line(text: str, limit: int = LINE_MAX_CHARS) -> str:
    """Make ``text`` one line of a log that says what it seems to say, of ``limit`` characters at most.

    What does not print is written as Python writes it (``\\n``, ``\\x1b``, ``\\u202e``): line ends, control characters
    of both sets, marks that turn the direction of writing, halves of surrogate pairs.
    """
    head = text[:limit]
    shown = head if head.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in head)
    if len(shown) <= limit and len(text) == len(head):
        return shown
    return f"{shown[:limit]}... ({len(text)} characters in all)"


def printable(text: str) -> str:
    """Make ``text`` safe to show to people: what moves a cursor, breaks a line or changes colours becomes ``?``."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
