"""What keeps a client from working although it goes on trying: told at once, then once a minute, and when it is over.

Code that meets a failure that will be tried again reports it each time; only this file remembers what was told already.
A failure that comes and goes within a minute is told once, so that an unstable connection does not fill a log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from kohort.errors import ErrorCode
from kohort.notes import Note, info, warning

MOST_NOTES: Final = 100


class Notes:
    """Oldest first. Machines add, faces take; these may be two threads."""

    def __init__(self) -> None:
        self._waiting: deque[Note] = deque(maxlen=MOST_NOTES)

    def warn(self, text: str) -> None:
        self._waiting.append(warning(text))

    def tell(self, text: str) -> None:
        self._waiting.append(info(text))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Iterator[Note]:
        """Take all there are; each is given once, to whichever thread is first."""
        while True:
            try:
                note = self._waiting.popleft()
            except IndexError:
                return
            yield note


AGAIN_MS: Final = 60_000
PASSING_MS: Final = 1000
"""How long a healthy cluster may answer so: topics are being made, leaders and coordinators move."""
KNOWN_MOST: Final = 10_000
"""Then the oldest trouble is forgotten, and told anew when it goes on."""
READING: Final = "reading"
WRITING: Final = "writing"
AT_ONCE: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE})
"""What no healthy broker answers."""


@dataclass(slots=True)
class _Trouble:
    since_ms: int
    goes_on: bool = True
    is_told: bool = False
    told_at_ms: int | None = None


class Troubles:
    """Those of one client, each by what it is about: an address, a partition, a topic."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._known: dict[Hashable, _Trouble] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def report(self, about: Hashable, text: str, now_ms: int, *, patience_ms: int = 0) -> None:
        """Report a failure, or its repetition; log it once it has lasted ``patience_ms``."""
        trouble = self._known.get(about)
        if trouble is None:
            trouble = self._known[about] = _Trouble(now_ms)
            if len(self._known) > KNOWN_MOST:
                del self._known[next(iter(self._known))]
        elif not trouble.goes_on:
            trouble.since_ms, trouble.goes_on, trouble.is_told = now_ms, True, False
        for_ms = now_ms - trouble.since_ms
        is_due = trouble.told_at_ms is None or now_ms - trouble.told_at_ms >= AGAIN_MS
        if is_due and for_ms >= patience_ms:
            self._notes.warn(f"{text}; it is tried again" + (f", for {for_ms // 1000} s now" if for_ms >= 1000 else ""))
            trouble.is_told, trouble.told_at_ms = True, now_ms

    def refused(self, about: Hashable, code: ErrorCode, text: str, now_ms: int) -> None:
        """Report a retriable error code: at once if no healthy broker answers it, else after a second."""
        patience_ms = 0 if code in AT_ONCE else PASSING_MS
        self.report(about, f"{text}: {code.name}", now_ms, patience_ms=patience_ms)

    def mended(self, about: Hashable, text: str, now_ms: int) -> None:
        trouble = self._known.get(about)
        if trouble is None or not trouble.goes_on:
            return
        if trouble.told_at_ms is None:
            del self._known[about]
            return
        trouble.goes_on = False
        if trouble.is_told:
            self._notes.tell(f"{text}, after {(now_ms - trouble.since_ms) / 1000:.1f} s")

    def forget(self, about: Hashable) -> None:
        self._known.pop(about, None)
