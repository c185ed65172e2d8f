"""Headers of records in retry and dead-letter topics.

The six facts have the names of KIP-1191, exceptions have the suffixes of Kafka Connect (KIP-298). All values are text.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Final

import msgspec

from kohort.model import Header, Record

PREFIX: Final = "__dlq.errors."
PREFIXES: Final = (PREFIX, "__connect.errors.", "kohort-error.")
"""Error headers of brokers and handlers, of Kafka Connect, and of kohort's pipelines."""
REPLAYED: Final = "__dlq.replayed.from"
"""Header of a replayed record: the place of its dead letter."""
HANDLER: Final = "handler"
DESERIALIZER: Final = "deserializer"
MESSAGE_LIMIT: Final = 2_000
REASON_LIMIT: Final = 200
STACK_LIMIT: Final = 8_000
"""Longest stack trace in a header, in characters: the last ones, which name the failed line."""
_INT64: Final = 1 << 63


class Failure(msgspec.Struct, frozen=True):
    """Reason why a record is in a retry or dead-letter topic.

    ``topic``, ``partition``, ``offset``, ``timestamp_ms`` and ``group`` belong to the first failure of the record,
    ``attempts`` and the exception to the last one. ``due_ms``: time of the next attempt, in ms since 1970, by the
    member of ``retry_group``. Unknown numbers are -1.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1
    group: str = ""
    attempts: int = -1
    stage: str = ""
    exception: str = ""
    message: str = ""
    stack: str = ""
    due_ms: int = -1
    retry_group: str = ""

    @property
    def reason(self) -> str:
        """Exception class; without an exception, the start of the message."""
        return (self.exception or self.message or "no reason")[:REASON_LIMIT]

    def without_stack(self) -> Failure:
        """Return the failure without its long texts."""
        return msgspec.structs.replace(self, stack="", message=self.message[:100])

    def headers(self) -> list[Header]:
        """Return the headers of a dead-letter record that describe this failure."""
        facts = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "group": self.group,
            "delivery.count": self.attempts,
            "stage": self.stage,
            "message": f"{self.exception}: {self.message}" if self.message else self.exception,
            "exception.class.name": self.exception,
            "exception.message": self.message,
            "exception.stacktrace": self.stack,
        }
        if self.due_ms >= 0:
            facts |= {"retry.due": self.due_ms, "retry.group": self.retry_group}
        return [(PREFIX + name, str(fact).encode(errors="backslashreplace")) for name, fact in facts.items()]


def failure_of(record: Record) -> Failure | None:
    """Return the failure that the headers of a retried record or dead letter describe; None without one.

    Reads the headers of kohort, of brokers (KIP-1191) and of Kafka Connect.
    """
    for prefix in PREFIXES:
        facts = {
            name.removeprefix(prefix): (value or b"").decode(errors="replace")
            for name, value in record.headers
            if name.startswith(prefix)
        }
        if facts.get("topic"):
            return _failure(facts)
    return None


def _failure(facts: dict[str, str]) -> Failure:
    return Failure(
        topic=facts["topic"],
        partition=_number(facts, "partition"),
        offset=_number(facts, "offset"),
        timestamp_ms=_number(facts, "timestamp"),
        group=facts.get("group") or facts.get("pipeline") or facts.get("connector.name", ""),
        attempts=_number(facts, "delivery.count"),
        stage=facts.get("stage", ""),
        exception=facts.get("exception.class.name", ""),
        message=facts.get("exception.message") or facts.get("message") or facts.get("reason", ""),
        stack=facts.get("exception.stacktrace", ""),
        due_ms=_number(facts, "retry.due"),
        retry_group=facts.get("retry.group", ""),
    )


def _number(facts: dict[str, str], name: str) -> int:
    text = facts.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    return number if number < _INT64 else -1


def without_failure(headers: Iterable[Header]) -> list[Header]:
    """Return the headers without those of a failure."""
    return [header for header in headers if not header[0].startswith(PREFIXES)]


def next_failure(
    record: Record, error: BaseException, *, group: str, attempts: int, stage: str, due_ms: int = -1
) -> Failure:
    """Describe a failed attempt to handle ``record``. The origin of its first failure is kept."""
    first = failure_of(record)
    if first is None or first.partition < 0 or first.offset < 0:
        first = Failure(record.topic, record.partition, record.offset, record.timestamp_ms, group)
    return msgspec.structs.replace(
        first,
        attempts=attempts,
        stage=stage,
        exception=_class_name(type(error)),
        message=text_of_error(error)[:MESSAGE_LIMIT],
        stack=_stack(error),
        due_ms=due_ms,
        retry_group=group if due_ms >= 0 else "",
    )


def text_of_error(error: BaseException) -> str:
    """Return ``str(error)``. An exception class of the user may fail at that: then return a note."""
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001  # an error of the user's __str__
        return f"no message: __str__ raised {type(failed).__name__}"


def _stack(error: BaseException) -> str:
    """Return the end of the stack trace, without the frames of kohort before those of the user."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("kohort."):
        trace = trace.tb_next
    shown = traceback.format_exception(type(error), error, trace or error.__traceback__)
    return "".join(shown)[-STACK_LIMIT:]


def _class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
