"""Regular expressions that strangers give: RE2, which takes time linear in the text, as Kafka takes RE2J.

Python's own ``re`` tries one way after the other, so that a pattern of eight letters can hold the one thread of a
broker for days. RE2 has no back-references and no looking around, and what it has is bounded here: the length of a
pattern, the memory of its machine, and how much work one pattern may make (KIP-1152).
"""

from __future__ import annotations

import re
from typing import Final

import re2

from kohort.errors import ApiError, ErrorCode

LENGTH_MAX: Final = 10_000
MACHINE_BYTES: Final = 1 << 18
"""For the machine of one pattern: some 20,000 steps. re2 keeps the machines of the last 128 patterns."""
WORK_MAX: Final = 50_000_000
"""Steps of the machine times bytes of text, for all texts of one pattern. RE2 falls back to trying every step at every
byte where a pattern is made for that; this many take less than half a second. A usual pattern has twenty steps."""
SHOWN_MAX: Final = 80

_COUNT_TOO_LARGE: Final = re.compile(r"(?<!\\)\{(?:\d{9,}(?:,\d*)?|\d+,\d{9,})\}", re.ASCII)
"""RE2 takes such a count for letters to be matched; RE2J says that it is too large."""


class Pattern:
    """A pattern for the texts of one request. Raises ApiError INVALID_REGULAR_EXPRESSION for one that is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._work_left = WORK_MAX
        if len(text) > LENGTH_MAX:
            raise self._refused(f"{len(text)} characters; at most {LENGTH_MAX} are taken")
        if _COUNT_TOO_LARGE.search(text):
            raise self._refused("a repeat count that is too large")
        options = re2.Options()
        options.max_mem = MACHINE_BYTES
        options.never_capture = True
        options.log_errors = False
        try:
            self._regexp = re2.compile(text, options)
        except re2.error as error:
            raise self._refused(_why(error)) from None

    def fullmatch(self, text: str) -> bool:
        """Tell whether the pattern matches all of ``text``. Raises ApiError once that has been too much work."""
        self._work_left -= self._regexp.programsize * len(text)
        if self._work_left < 0:
            raise self._refused(f"its machine of {self._regexp.programsize} steps is too large for what it is to match")
        return self._regexp.fullmatch(text) is not None

    def _refused(self, why: str) -> ApiError:
        shown = self._text if len(self._text) <= SHOWN_MAX else f"{self._text[:SHOWN_MAX]}..."
        return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern {shown!r}: {why}")


def _why(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return str(said, "utf-8", "replace")[:SHOWN_MAX] if isinstance(said, bytes) else str(said)[:SHOWN_MAX]
