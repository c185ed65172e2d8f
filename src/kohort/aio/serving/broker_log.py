"""Where the lines of a broker's log are written: one line per note, harmless to read, and not too many of a kind.

A client that sends thousands of bad requests would fill the disk with lines about them. So the first note of a kind is
written at once; those that follow within a minute are counted, and the last of them is written with their number.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from traceback import TracebackException
from typing import Final

from kohort.notes import Level, Note, one_line

WINDOW_MS: Final = 60_000
KINDS_MAX: Final = 100
"""How many kinds are counted apart; all others together are one more."""
OTHER_KINDS: Final = "other kinds"
FRAMES_MAX: Final = 30
"""How many calls are shown of where an error came from."""


@dataclass(slots=True)
class _Kind:
    """What was held back of one kind since it was last written."""

    until_ms: int
    held: int = 0
    last: Note | None = None


class BrokerLog:
    """The log of the brokers of one process. ``now_ms`` is their clock's."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kinds: dict[Hashable, _Kind] = {}
        """The one whose minute ends first is the first."""

    @property
    def wake_at_ms(self) -> int | None:
        """When a minute ends in which something may have been counted: call ``tell`` then, if with nothing."""
        return next((kind.until_ms for kind in self._kinds.values()), None)

    def tell(self, notes: Iterable[Note], now_ms: int) -> None:
        """Write the notes, but only count those of a kind that was written within the last minute."""
        self._end_minutes(now_ms)
        for note in notes:
            if self._log.isEnabledFor(note.level) and self._is_due(note, now_ms):
                self._log.log(note.level, "%s", one_line(note.text))

    def tell_failure(self, what: str, error: Exception, now_ms: int) -> None:
        self._end_minutes(now_ms)
        trace = TracebackException.from_exception(error, limit=-FRAMES_MAX)
        place = trace.stack[-1].filename, trace.stack[-1].lineno
        note = Note(Level.ERROR, f"{what}: {type(error).__name__}: {error}", (type(error), place))
        if self._is_due(note, now_ms):
            self._log.error("%s\n%s", one_line(note.text), "".join(_stacks(trace)))

    def end(self) -> None:
        for kind in self._kinds.values():
            self._write_count(kind)
        self._kinds.clear()

    def _is_due(self, note: Note, now_ms: int) -> bool:
        if note.kind is None:
            return True
        name = note.kind if note.kind in self._kinds or len(self._kinds) < KINDS_MAX else OTHER_KINDS
        kind = self._kinds.get(name)
        if kind is None:
            self._kinds[name] = _Kind(now_ms + WINDOW_MS)
            return True
        kind.held += 1
        kind.last = note
        return False

    def _end_minutes(self, now_ms: int) -> None:
        while (wake_at_ms := self.wake_at_ms) is not None and now_ms >= wake_at_ms:
            name = next(iter(self._kinds))
            if self._write_count(self._kinds.pop(name)):
                self._kinds[name] = _Kind(now_ms + WINDOW_MS)

    def _write_count(self, kind: _Kind) -> bool:
        if kind.last is None:
            return False
        text = one_line(kind.last.text)
        if kind.held > 1:
            text += f" (the last of {kind.held:,} more like it within a minute)"
        self._log.log(kind.last.level, "%s", text)
        return True


def _stacks(trace: TracebackException | None) -> list[str]:
    """Return where an error and those that led to it came from: code, and no words of strangers but in one line
    each."""
    if trace is None:
        return []
    cause = trace.__cause__ or (None if trace.__suppress_context__ else trace.__context__)
    said = one_line("".join(trace.format_exception_only()).rstrip())
    return [*_stacks(cause), *trace.stack.format(), f"{said}\n"]
