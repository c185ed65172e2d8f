"""What a client's machine has to say to a log, kept until the face that does I/O writes it down."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kohort.notes import Note, info, warning

MOST_NOTES: Final = 100
"""Where nobody writes them down, the oldest go."""


class Notes:
    """Oldest first. Machines add, faces take; these may be two threads."""

    def __init__(self) -> None:
        self._waiting: deque[Note] = deque(maxlen=MOST_NOTES)

    def warn(self, text: str) -> None:
        """Note something wrong that the user should know of."""
        self._waiting.append(warning(text))

    def tell(self, text: str) -> None:
        """Note that what was wrong is well again."""
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
