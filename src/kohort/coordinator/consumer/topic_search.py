"""Which topics each of several regular expressions matches, found a step at a time (ADR 11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.coordinator.outcome import MayDescribe
from kohort.errors import ApiError
from kohort.pattern import Pattern

NAMES_A_STEP: Final = 2_000
"""How many names are matched before others are served: a few milliseconds."""
NAMES_A_PATTERN: Final = 100
"""Reading an expression takes as long as matching so many names, about."""
MACHINE_STEPS_A_NAME: Final = 500
"""Steps of an expression's machine that take as long as a usual name."""


class TopicSearch:
    """A search that is under way; whoever started it may not know of every topic."""

    def __init__(self, regexes: list[str], names: Iterable[str], may_describe: MayDescribe, now_ms: int) -> None:
        self.stepped_ms = now_ms
        self._names = sorted(names)
        self._may_describe = may_describe
        self._allowed: dict[str, bool] = {}
        self._steps = self._work(regexes)
        self.is_done = False

    def step(self, now_ms: int) -> dict[str, list[str]]:
        """Go on for a step; returns the expressions that were resolved in it, with the topics that they match."""
        self.stepped_ms = now_ms
        found: dict[str, list[str]] = {}
        for resolved in self._steps:
            if resolved is None:
                return found
            regex, topics = resolved
            found[regex] = topics
        self.is_done = True
        return found

    def _work(self, regexes: list[str]) -> Iterator[tuple[str, list[str]] | None]:
        """Yield an expression with what it matches, or None where a step ends."""
        left = NAMES_A_STEP
        for regex in regexes:
            topics: list[str] = []
            try:
                left -= NAMES_A_PATTERN
                pattern = Pattern(regex)
                for name in self._names:
                    left -= 1 + pattern.size * len(name) // MACHINE_STEPS_A_NAME
                    if pattern.fullmatch(name) and self._is_allowed(name):
                        topics.append(name)
                    if left <= 0:
                        left = NAMES_A_STEP
                        yield None
            except ApiError:
                topics = []  # more work than one expression may make, or one that only RE2/J reads: nothing
            if len(topics) >= NAMES_A_STEP:
                yield None  # to write so many takes a step of its own
                left = NAMES_A_STEP - len(topics) // 2
            yield regex, topics

    def _is_allowed(self, name: str) -> bool:
        if name not in self._allowed:
            self._allowed[name] = self._may_describe(name)
        return self._allowed[name]
