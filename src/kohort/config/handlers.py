"""Options of ``ConsumerGroup.handle``: attempts, delays, retry topics, dead letters, concurrency.

Attempts and delays count as in Spring Kafka. Other clients of Kafka have no options for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.options import ValueRule, option, parse_config
from kohort.errors import ConfigError

TOPIC: Final = "{topic}"
DELAY: Final = "{delay}"
RETRY_NAME: Final = "{topic}-retry-{delay}"
DEAD_LETTER_NAME: Final = "{topic}-dlt"
MOST_ATTEMPTS: Final = 1000
"""Limit of ``attempts``; each attempt with another delay has a retry topic."""
MOST_UNFINISHED: Final = 100_000
DAY_MS: Final = 86_400_000
_EXCEPTIONS: Final = ValueRule(
    lambda given: all(isinstance(one, type) and issubclass(one, Exception) for one in given),
    "a list of exception classes",
)
_FACTOR: Final = ValueRule(lambda factor: 1 <= factor <= 100, "a number from 1 to 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerConfig:
    """Options of a handler function."""

    attempts: int = option(3, "Number of attempts to handle a record, the first included.", low=1, high=MOST_ATTEMPTS)
    delay_ms: int = option(1000, "Delay before the second attempt.", low=0, high=DAY_MS)
    delay_factor: float = option(1.0, "Growth of the delay with each attempt; 1: the same delay.", rule=_FACTOR)
    delay_max_ms: int = option(30_000, "Longest delay before an attempt.", low=0, high=DAY_MS)
    fatal: list[Any] = option([], "Exception classes without a second attempt.", rule=_EXCEPTIONS)
    retry_topics: bool = option(
        False, "True to retry through topics with delays: later records do not wait, their order is lost."
    )
    retry_topic: str = option(RETRY_NAME, "Name of a retry topic; {delay}: its delay in ms.")
    dead_letters: bool = option(False, "True to send a record to a dead-letter topic after its last attempt.")
    dead_letter_topic: str = option(DEAD_LETTER_NAME, "Name of the dead-letter topic of a topic.")
    create_topics: bool = option(
        True, "True to create missing retry and dead-letter topics, with the partition count of the main topic."
    )
    concurrency: int = option(
        1, "Records of one partition that are handled at the same time, those of a key in order.", low=1, high=1000
    )
    max_unfinished: int = option(
        1000, "Limit of records from the first unfinished one on, with concurrency.", low=1, high=MOST_UNFINISHED
    )
    batches: bool = option(False, "True to call the function with lists of records.")

    def __post_init__(self) -> None:
        if self.batches and self.retry_topics:
            raise ConfigError("batches=True excludes retry_topics=True: records of a batch are due at different times")
        if self.batches and self.concurrency > 1:
            raise ConfigError("batches=True excludes concurrency above 1: a batch contains several keys")
        if self.concurrency > self.max_unfinished:
            raise ConfigError(f"max_unfinished={self.max_unfinished} must be at least concurrency={self.concurrency}")
        if self.retry_topics and self.attempts == 1:
            raise ConfigError("retry_topics=True needs attempts of at least 2")
        self._check_names()

    def _check_names(self) -> None:
        if self.dead_letter_topic != DEAD_LETTER_NAME and not self.dead_letters:
            raise ConfigError(f"dead_letter_topic={self.dead_letter_topic!r} needs dead_letters=True")
        if self.retry_topic != RETRY_NAME and not self.retry_topics:
            raise ConfigError(f"retry_topic={self.retry_topic!r} needs retry_topics=True")
        if TOPIC not in self.retry_topic:
            raise ConfigError(f"retry_topic={self.retry_topic!r}: expected a name with {TOPIC}")
        if DELAY not in self.retry_topic and len(set(self.delays_ms)) > 1:
            raise ConfigError(f"retry_topic={self.retry_topic!r}: expected a name with {DELAY}, as the delays differ")
        if self.dead_letter_topic.strip() in ("", TOPIC):
            raise ConfigError(f"dead_letter_topic={self.dead_letter_topic!r}: expected another name, as {TOPIC}-dlt")

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """Delays before the second and later attempts."""
        delays: list[int] = []
        delay = float(self.delay_ms)
        for _ in range(self.attempts - 1):
            delays.append(math.floor(min(delay, self.delay_max_ms)))
            delay = min(delay * self.delay_factor, self.delay_max_ms)
        return tuple(delays)

    def retry_topic_of(self, topic: str, delay_ms: int) -> str:
        return self.retry_topic.replace(DELAY, str(delay_ms)).replace(TOPIC, topic)

    def dead_letter_topic_of(self, topic: str) -> str:
        return self.dead_letter_topic.replace(TOPIC, topic)


def handler_config(options: Mapping[str, Any]) -> HandlerConfig:
    """Build the configuration of a handler function. Raises ConfigError; ``fatal`` may be a single class."""
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(given.get("fatal"), type):
        given["fatal"] = [given["fatal"]]
    return parse_config(HandlerConfig, given)
