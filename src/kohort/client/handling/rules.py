"""Decide what follows a failed attempt: a delay, a retry topic, the dead-letter topic, or the end of the session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kohort.client.handling.failures import DESERIALIZER, HANDLER, Failure, failure_of, next_failure
from kohort.config.client import ConsumerConfig
from kohort.config.handlers import HandlerConfig
from kohort.errors import ConfigError, KohortError, SchemaRegistryError, UndecodableValue
from kohort.model import Record

LONGEST_NAME: Final = 249
"""Limit of Kafka for topic names, in characters."""
LEGAL_NAME: Final = re.compile("[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class RetryInPlace:
    """The next attempt follows in place, after a delay."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """The record moves to a retry or dead-letter topic of ``main_topic``."""

    topic: str
    main_topic: str
    failure: Failure
    is_last: bool


class RetryTopic(NamedTuple):
    main_topic: str
    delay_ms: int


class HandlerRules:
    """Rules of a handler function. ``topics`` are the subscribed topics; None for a pattern."""

    def __init__(self, config: HandlerConfig, group: str, topics: Iterable[str] | None) -> None:
        self.config = config
        self._is_pattern = topics is None
        self._group = group
        self._delays = config.delays_ms
        self._fatal: tuple[type[Exception], ...] = tuple(config.fatal)
        self.retry_topics: dict[str, RetryTopic] = {}
        names = list(topics or ())
        self.check_topics(names)
        for topic in names if config.retry_topics else ():
            for delay_ms in self._delays:
                self._add_retry_topic(topic, delay_ms)
        if both := sorted(self.retry_topics.keys() & set(names)):
            raise ConfigError(f"topic {both[0]!r} is the retry topic of another subscribed topic")

    def check_topics(self, topics: Iterable[str]) -> None:
        """Check the dead-letter topics of topics. Raises ConfigError.

        No topic may be the dead-letter topic of another: its records would circulate.
        """
        given = set(topics)
        for topic in given if self.config.dead_letters else ():
            letters = self.config.dead_letter_topic_of(topic)
            if checked_name(letters, f"the dead-letter topic of {topic!r}") in given:
                raise ConfigError(f"the subscription has topic {topic!r} and its dead-letter topic {letters!r}")

    def _add_retry_topic(self, topic: str, delay_ms: int) -> None:
        name = checked_name(self.config.retry_topic_of(topic, delay_ms), f"the retry topic of {topic!r}")
        known = self.retry_topics.setdefault(name, RetryTopic(topic, delay_ms))
        if known.main_topic != topic:
            raise ConfigError(f"topics {known.main_topic!r} and {topic!r} have the same retry topic {name!r}")

    def main_topic(self, record: Record) -> str:
        found = self.retry_topics.get(record.topic)
        return record.topic if found is None else found.main_topic

    def attempt(self, record: Record) -> int:
        """Return the number of the next attempt. A record of a retry topic carries the previous count."""
        if record.topic not in self.retry_topics:
            return 1
        failure = failure_of(record)
        return 1 if failure is None else min(max(failure.attempts, 0) + 1, self.config.attempts)

    def is_foreign(self, record: Record) -> bool:
        """Return True for a record that another group sent to a retry topic of both groups."""
        failure = failure_of(record) if record.topic in self.retry_topics else None
        return failure is not None and failure.retry_group not in ("", self._group)

    def wait_ms(self, record: Record, now_ms: int) -> int:
        """Return the time in ms until a record of a retry topic is due, at most the delay of the topic."""
        found = self.retry_topics.get(record.topic)
        failure = None if found is None else failure_of(record)
        if found is None or failure is None:
            return 0
        return min(max(failure.due_ms - now_ms, 0), found.delay_ms)

    def after(self, record: Record, error: Exception, attempt: int, now_ms: int) -> RetryInPlace | MoveRecord | None:
        """Return the consequence of a failed attempt; None if the error ends the session."""
        stage = DESERIALIZER if isinstance(error, UndecodableValue) else HANDLER
        main_topic = self.main_topic(record)
        if attempt < self.config.attempts and not self._is_fatal(error):
            delay_ms = self._delays[attempt - 1]
            if not self.config.retry_topics:
                return RetryInPlace(delay_ms)
            topic = self.config.retry_topic_of(main_topic, delay_ms)
            due_ms = now_ms + delay_ms
        elif self.config.dead_letters and not self._is_refused(record, error):
            topic = self.config.dead_letter_topic_of(main_topic)
            due_ms = -1
        else:
            return None
        failure = next_failure(record, error, group=self._group, attempts=attempt, stage=stage, due_ms=due_ms)
        return MoveRecord(topic, main_topic, failure, due_ms < 0)

    def _is_refused(self, record: Record, error: Exception) -> bool:
        """Return True if the record must not become a dead letter: the session ends, and the record stays uncommitted.

        An error of the schema registry that may pass says nothing about the record. A dead letter of this topic that a
        pattern matches would go around in circles.
        """
        undecoded = error.__cause__ if isinstance(error, UndecodableValue) else error
        is_of_registry = isinstance(error, (UndecodableValue, SchemaRegistryError)) and _is_temporary(undecoded)
        return is_of_registry or (self._is_pattern and self._is_own_dead_letter(record))

    def _is_own_dead_letter(self, record: Record) -> bool:
        first = failure_of(record)
        return first is not None and self.config.dead_letter_topic_of(first.topic) == record.topic

    def _is_fatal(self, error: Exception) -> bool:
        if isinstance(error, self._fatal):
            return True
        return isinstance(error, UndecodableValue) and not _is_temporary(error.__cause__)


def _is_temporary(error: BaseException | None) -> bool:
    """Return True for an error that may pass, such as a lost connection to a schema registry."""
    return isinstance(error, OSError) or (isinstance(error, KohortError) and error.retriable)


def refuse_manual_commits(config: ConsumerConfig) -> None:
    """Raise ConfigError without auto-commit: a handler function has no session to commit with."""
    if not config.enable_auto_commit:
        raise ConfigError("enable.auto.commit=False: handle commits the handled records itself; omit the option")


def checked_name(name: str, what: str) -> str:
    """Check length and characters of a topic name. Raises ConfigError."""
    if not LEGAL_NAME.fullmatch(name):
        raise ConfigError(
            f"{what} would be {name!r}: a name has letters (a-z, A-Z), digits, dots, underscores, hyphens"
        )
    if len(name) > LONGEST_NAME:
        raise ConfigError(f"{what} would have {len(name)} characters, more than {LONGEST_NAME}: {name!r}")
    return name
