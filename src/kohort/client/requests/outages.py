"""Log failures that a client retries: when they start, then every minute, and when they end.

Callers report every failure; this module drops repetitions. A failure that recurs within a minute is logged once, so
that an unstable connection does not fill the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from kohort.errors import ErrorCode
from kohort.notes import Note, info, warning

MAX_NOTES: Final = 100


class Notes:
    """Unwritten log lines of a client, oldest first; threads may add and remove lines at the same time."""

    def __init__(self) -> None:
        self._waiting: deque[Note] = deque(maxlen=MAX_NOTES)

    def warn(self, text: str) -> None:
        self._waiting.append(warning(text))

    def info(self, text: str) -> None:
        self._waiting.append(info(text))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Iterator[Note]:
        """Remove and return all log lines of the client."""
        while True:
            try:
                note = self._waiting.popleft()
            except IndexError:
                return
            yield note


REPEAT_MS: Final = 60_000
TRANSIENT_MS: Final = 1000
"""Maximum duration in ms of errors that a healthy cluster returns while it creates topics or moves leaders."""
MAX_OUTAGES: Final = 10_000
READING: Final = "reading"
WRITING: Final = "writing"
NEVER_TRANSIENT: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE})
"""Retriable error codes that no healthy broker returns, so they are logged at once."""


@dataclass(slots=True)
class _Outage:
    since_ms: int
    is_ongoing: bool = True
    is_logged: bool = False
    logged_at_ms: int | None = None


class Outages:
    """Failures of one client that have not ended, for each address, partition or topic."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._known: dict[Hashable, _Outage] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def report(self, about: Hashable, text: str, now_ms: int, *, patience_ms: int = 0) -> None:
        """Report a new or continuing failure. It is logged when it has lasted ``patience_ms``."""
        outage = self._known.get(about)
        if outage is None:
            outage = self._known[about] = _Outage(now_ms)
            if len(self._known) > MAX_OUTAGES:
                del self._known[next(iter(self._known))]
        elif not outage.is_ongoing:
            outage.since_ms, outage.is_ongoing, outage.is_logged = now_ms, True, False
        for_ms = now_ms - outage.since_ms
        is_due = outage.logged_at_ms is None or now_ms - outage.logged_at_ms >= REPEAT_MS
        if is_due and for_ms >= patience_ms:
            self._notes.warn(f"{text}; retrying" + (f" for {for_ms // 1000} s" if for_ms >= 1000 else ""))
            outage.is_logged, outage.logged_at_ms = True, now_ms

    def report_code(self, about: Hashable, code: ErrorCode, text: str, now_ms: int) -> None:
        """Report a retriable error code. It is logged when it has lasted a second, or at once if in NEVER_TRANSIENT."""
        patience_ms = 0 if code in NEVER_TRANSIENT else TRANSIENT_MS
        self.report(about, f"{text}: {code.name}", now_ms, patience_ms=patience_ms)

    def recovered(self, about: Hashable, text: str, now_ms: int) -> None:
        outage = self._known.get(about)
        if outage is None or not outage.is_ongoing:
            return
        if outage.logged_at_ms is None:
            del self._known[about]
            return
        outage.is_ongoing = False
        if outage.is_logged:
            self._notes.info(f"{text}, after {(now_ms - outage.since_ms) / 1000:.1f} s")

    def forget(self, about: Hashable) -> None:
        self._known.pop(about, None)
