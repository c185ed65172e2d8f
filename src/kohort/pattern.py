"""Regular expressions of clients, run by RE2 in linear time, as Kafka uses RE2J.

Python's ``re`` backtracks: a pattern of eight characters can block the broker for days. RE2 has no back-references and
no look-around. Length, memory and work of a pattern are bounded here (KIP-1152).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import re2

from kohort.errors import ApiError, ErrorCode

LENGTH_MAX: Final = 10_000
MACHINE_BYTES: Final = 1 << 18
"""Memory limit of a pattern's program in RE2: some 20,000 steps. re2 caches the last 128 patterns."""
WORK_MAX: Final = 50_000_000
"""Maximum of program steps times bytes of text, summed over all texts of a pattern.

Hostile patterns make RE2 try every step at every byte; this much takes less than half a second. A usual pattern has
twenty steps.
"""
UNICODE_CLASSES_MAX: Final = 150
r"""Maximum of classes like \pL in a pattern: RE2 expands each into hundreds of ranges (0.1 ms, 30 KB) before it limits
the program.
"""
REPEATS_MAX: Final = 25_000
"""Maximum sum of repeat counts in a pattern: RE2 unrolls them before it limits the program."""
TOO_LARGE: Final = "pattern too large"
SHOWN_MAX: Final = 80

_COUNT_TOO_LARGE: Final = re.compile(r"(?<!\\)\{(?:\d{9,}(?:,\d*)?|\d+,\d{9,})\}", re.ASCII)
"""RE2 matches such a count literally; RE2J rejects it as too large."""
_COSTLY: Final = re.compile(r"\\(?:([pP])|.)|\{(\d{1,8})(?:,(\d{0,8}))?\}", re.ASCII | re.DOTALL)
"""Matches an escape (group 1: a Unicode class) or a repeat count."""


class PatternRefused(ApiError):
    """Error INVALID_REGULAR_EXPRESSION; ``why`` is the reason without the pattern."""

    def __init__(self, shown: str, why: str) -> None:
        super().__init__(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern {shown!r}: {why}")
        self.why = why


class Pattern:
    """A client's pattern, matched against the texts of one request. Raises PatternRefused for an invalid pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._work_left = WORK_MAX
        if len(text) > LENGTH_MAX:
            raise self._refused(f"{len(text)} characters; expected at most {LENGTH_MAX}")
        if _COUNT_TOO_LARGE.search(text):
            raise self._refused("repeat count too large")
        if _is_too_large(text):
            raise self._refused(TOO_LARGE)
        try:
            self._regexp = _compiled(text, captures=False)
        except ValueError as error:
            raise self._refused(str(error)) from None
        self.size: int = self._regexp.programsize
        """Number of steps in RE2's program: the largest number of attempts per byte of text."""

    def begin(self) -> None:
        """Reset the work budget for another request."""
        self._work_left = WORK_MAX

    def fullmatch(self, text: str) -> bool:
        """Return True if the pattern matches all of ``text``. Raises PatternRefused when the work budget is used up."""
        self._work_left -= self.size * len(text)
        if self._work_left < 0:
            raise self._refused(f"its program of {self.size} steps is too large for the texts to match")
        # twice as fast with bytes: re2 need not find character boundaries
        return self._regexp.fullmatch(text.encode() if text.isascii() else text) is not None

    def _refused(self, why: str) -> PatternRefused:
        return PatternRefused(self._text if len(self._text) <= SHOWN_MAX else f"{self._text[:SHOWN_MAX]}...", why)


class Rewrite:
    """Rewrites texts that match a pattern, as Java's ``replaceAll``.

    ``$1`` inserts a group, a backslash quotes the next character, and an unknown group number stays as it is. Raises
    ValueError for an invalid pattern or replacement.
    """

    def __init__(self, pattern: str, replacement: str) -> None:
        self._regexp = _compiled(pattern, captures=True)
        self._parts = list(_parts(replacement, self._regexp.groups, dict(self._regexp.groupindex)))

    def of(self, text: str) -> str | None:
        """Return the rewritten text; None if the pattern does not match it as a whole."""
        if self._regexp.fullmatch(text) is None:
            return None
        rewritten, end = [], 0
        for match in self._regexp.finditer(text):
            rewritten.append(text[end : match.start()])
            rewritten += [part if isinstance(part, str) else match.group(part) or "" for part in self._parts]
            end = match.end()
        return "".join([*rewritten, text[end:]])


def _parts(replacement: str, groups: int, names: dict[str, int]) -> Iterator[str | int]:
    at = 0
    while at < len(replacement):
        character, after = replacement[at], replacement[at + 1 : at + 2]
        if character == "\\":
            if not after:
                raise ValueError("no character after the last backslash")
            yield after
            at += 2
        elif character != "$":
            yield character
            at += 1
        elif after.isascii() and after.isdigit():
            end = at + 2
            while replacement[end : end + 1].isdecimal() and int(replacement[at + 1 : end + 1]) <= groups:
                end += 1
            number = int(replacement[at + 1 : end])
            yield number if number <= groups else replacement[at:end]
            at = end
        else:
            name, closed, _ = replacement[at + 2 :].partition("}")
            if after != "{" or not closed or name not in names:
                raise ValueError("$ without a group of the pattern")
            yield names[name]
            at += len(name) + 3


def _is_too_large(text: str) -> bool:
    """Return True if RE2 would take long to compile the pattern."""
    classes = repeats = 0
    for unicode_class, least, most in _COSTLY.findall(text):
        classes += bool(unicode_class)
        repeats += max(int(least or 0), int(most or 0))
    return classes > UNICODE_CLASSES_MAX or repeats > REPEATS_MAX


def _compiled(text: str, *, captures: bool) -> Any:
    """Compile a pattern. Raises ValueError with RE2's reason."""
    options = re2.Options()
    options.max_mem = MACHINE_BYTES
    options.never_capture = not captures
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        shown = str(reason, "utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(shown[:SHOWN_MAX]) from None
