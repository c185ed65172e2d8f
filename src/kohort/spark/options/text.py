"""How the text of a Spark option becomes a value: one parser for each kind, each error naming option, text and what is
allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kohort.errors import ConfigError
from kohort.spark.options.offsets import OffsetsByTopic, parse_offsets

Start = str | OffsetsByTopic
"""A word such as ``earliest``, or an offset for each partition (-2 earliest, -1 latest)."""

_DURATION: Final = re.compile(r"(\d+) *(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)?", re.IGNORECASE)
_MILLIS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000}
_BYTES: Final = re.compile(r"(\d+) *([kmg])?(i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3}


@dataclass(frozen=True, slots=True)
class SparkOption:
    """One option: its name as users write it, its default in words, what it does, and how its text is read.

    ``attribute``: where the value goes; empty for an option that is accepted and needs no effect here.
    """

    name: str
    attribute: str
    default: str
    doc: str
    parse: Callable[[str, str], Any]


def text(_name: str, given: str) -> str:
    return given


def topics(name: str, given: str) -> tuple[str, ...]:
    found = tuple(t.strip() for t in given.split(",") if t.strip())
    if not found:
        raise ConfigError(f"{name}={given!r}: expected one or more topic names, separated by commas")
    return found


def pattern(name: str, given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise ConfigError(f"{name}={given!r}: not a regular expression: {error}") from None
    return given


def assignment(name: str, given: str) -> dict[str, tuple[int, ...]]:
    """Read partitions by topic: ``{"orders": [0, 1]}``."""
    expected = f'{name}={given!r}: expected JSON such as {{"orders": [0, 1]}}'
    try:
        tree = json.loads(given)
    except ValueError:
        raise ConfigError(expected) from None
    if not isinstance(tree, dict) or not tree:
        raise ConfigError(expected)
    for partitions in tree.values():
        if not isinstance(partitions, list) or any(type(p) is not int or p < 0 for p in partitions):
            raise ConfigError(expected)
    return {topic: tuple(partitions) for topic, partitions in tree.items()}


def flag(name: str, given: str) -> bool:
    value = {"true": True, "false": False}.get(given.strip().lower())
    if value is None:
        raise ConfigError(f"{name}={given!r}: expected true or false")
    return value


def whole(low: int) -> Callable[[str, str], int]:
    """Read a whole number of at least ``low``."""

    def parse(name: str, given: str) -> int:
        try:
            value = int(given)
        except ValueError:
            value = low - 1
        if value < low:
            raise ConfigError(f"{name}={given!r}: expected a whole number of at least {low}")
        return value

    return parse


def choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, given: str) -> str:
        if given.strip().lower() not in allowed:
            raise ConfigError(f"{name}={given!r}: expected one of {', '.join(allowed)}")
        return given.strip().lower()

    return parse


def bound(*words: str) -> Callable[[str, str], Start]:
    """Read one of the words, or an offset for each partition."""

    def parse(name: str, given: str) -> Start:
        word = given.strip().lower()
        if word in words:
            return word
        try:
            return parse_offsets(given)
        except ValueError as error:
            raise ConfigError(
                f'{name}={given!r}: expected {", ".join(words)}, or JSON such as {{"orders": {{"0": 42}}}} ({error})'
            ) from None

    return parse


def times(name: str, given: str) -> OffsetsByTopic:
    """Read a time, in milliseconds since 1970, for each partition."""
    try:
        found = parse_offsets(given)
    except ValueError as error:
        raise ConfigError(
            f'{name}={given!r}: expected JSON such as {{"orders": {{"0": 1735689600000}}}} ({error})'
        ) from None
    if any(time < 0 for partitions in found.values() for time in partitions.values()):
        raise ConfigError(f"{name}={given!r}: a time is milliseconds since 1970, and not negative")
    return found


def duration_ms(name: str, given: str) -> int:
    """Read a duration: ``15m``, ``30 seconds``, ``250`` (milliseconds)."""
    found = _DURATION.fullmatch(given.strip())
    if not found:
        raise ConfigError(f"{name}={given!r}: expected a time such as 15m, 30s or 250ms")
    unit = (found[2] or "ms").lower()
    return int(found[1]) * (1 if unit.startswith(("ms", "mil")) else _MILLIS[unit[0]])


def time_zone(name: str, given: str) -> str:
    """Read the name of a time zone (``Europe/Paris``) or an offset (``+02:00``)."""
    from kohort.columns.conversions.times import zone_named

    try:
        zone_named(given.strip())
    except ValueError as error:
        raise ConfigError(f"{name}: {error}: expected a zone such as Europe/Paris or +02:00") from None
    return given.strip()


def separator(name: str, given: str) -> str:
    """Read one character; ``\\t`` is a tab, as in Spark."""
    found = "\t" if given == "\\t" else given
    if len(found) != 1 or found in '"\r\n':
        raise ConfigError(f"{name}={given!r}: expected one character, not a quote or a line end")
    return found


def size_bytes(name: str, given: str) -> int:
    """Read a size: ``64m``, ``64MiB``, ``1048576``."""
    found = _BYTES.fullmatch(given.strip())
    if not found or not int(found[1]):
        raise ConfigError(f"{name}={given!r}: expected a size such as 64m, 1g or 1048576")
    return int(found[1]) << 10 * _POWERS[(found[2] or "").lower()]
