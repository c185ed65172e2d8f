"""Options of groups that must go together: each value within its bounds, as Apache Kafka checks at its start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kohort.config.options import ValueRule
from kohort.errors import ConfigError

PREFIX: Final = "group.consumer."
BOUNDED: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
"""Each with a ``min.`` and a ``max.`` of its own."""

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
ASSIGNOR_NAMES: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_PACKAGE}UniformAssignor": "uniform",
    f"{_PACKAGE}RangeAssignor": "range",
}
"""What ``group.consumer.assignors`` may say, and which assignor that is. Kafka's letters: large ones are others."""


def assignor_names(given: Sequence[str]) -> list[str]:
    """Return the names of assignors that are given by name or by Kafka's class; what is said twice counts once."""
    return [ASSIGNOR_NAMES[text] for text in dict.fromkeys(given)]


def _are_assignors(given: Sequence[str]) -> bool:
    if not given or not set(given) <= ASSIGNOR_NAMES.keys():
        return False
    names = assignor_names(given)
    return len(names) == len(set(names))


ASSIGNORS: Final = ValueRule(
    _are_assignors, f"uniform, range, or both, each by its name or as {_PACKAGE}UniformAssignor or RangeAssignor"
)


def check_group_bounds(value_of: Callable[[str], Any]) -> None:
    """Raise ConfigError, of one sentence, unless each value is within its bounds, and heartbeats come before sessions
    end. ``value_of`` gives the value of an option by Kafka's name."""
    for name in BOUNDED:
        low, high, value = f"{PREFIX}min.{name}", f"{PREFIX}max.{name}", f"{PREFIX}{name}"
        _check(value_of, high, low, "at least", value_of(high) >= value_of(low))
        _check(value_of, value, low, "at least", value_of(value) >= value_of(low))
        _check(value_of, value, high, "at most", value_of(value) <= value_of(high))
    heartbeat, session = f"{PREFIX}heartbeat.interval.ms", f"{PREFIX}session.timeout.ms"
    _check(value_of, heartbeat, session, "less than", value_of(heartbeat) < value_of(session))


def _check(value_of: Callable[[str], Any], name: str, other: str, words: str, holds: bool) -> None:
    if not holds:
        raise ConfigError(f"{name}={value_of(name)}: expected {words} {other}, which is {value_of(other)}")
