"""Write a broker's log: one sanitized line per message, with a limit for repeated messages.

The first message of a kind is written immediately. During the next minute messages of this kind are only counted; then
the last of them is written, with the count. Otherwise thousands of bad requests could fill the disk.
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
OTHER_KINDS: Final = "other kinds"
FRAMES_MAX: Final = 30


@dataclass(slots=True)
class _Kind:
    until_ms: int
    held: int = 0
    last: Note | None = None


class BrokerLog:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kinds: dict[Hashable, _Kind] = {}

    @property
    def wake_at_ms(self) -> int | None:
        """Time in ms at which the next count of repeated messages is due. Call ``write`` at that time."""
        return next((kind.until_ms for kind in self._kinds.values()), None)

    def write(self, notes: Iterable[Note], now_ms: int) -> None:
        """Write messages to the log. Only count a message if one of the same kind was logged within the last minute."""
        self._end_minutes(now_ms)
        for note in notes:
            if self._log.isEnabledFor(note.level) and self._is_due(note, now_ms):
                self._log.log(note.level, "%s", one_line(note.text))

    def write_failure(self, what: str, error: Exception, now_ms: int) -> None:
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
            text += f" (the last of {kind.held:,} similar messages within a minute)"
        self._log.log(kind.last.level, "%s", text)
        return True


def _stacks(trace: TracebackException | None) -> list[str]:
    """Return the stack traces of an error and of its causes. Each error message is reduced to one line."""
    if trace is None:
        return []
    cause = trace.__cause__ or (None if trace.__suppress_context__ else trace.__context__)
    said = one_line("".join(trace.format_exception_only()).rstrip())
    return [*_stacks(cause), *trace.stack.format(), f"{said}\n"]
