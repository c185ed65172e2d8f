"""Subject name strategies: the subject that a serializer registers its schema under."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kohort.errors import ConfigError
from kohort.schemas.serde import SerializationContext

SubjectNameStrategy = Callable[[SerializationContext, "str | None"], "str | None"]
"""Function of the context and the record name of the schema (None: nameless), as in confluent-kafka."""


def topic_subject(ctx: SerializationContext, record_name: str | None) -> str:  # noqa: ARG001
    """Return ``TOPIC-key`` or ``TOPIC-value``."""
    return f"{ctx.topic}-{ctx.field}"


def record_subject(ctx: SerializationContext, record_name: str | None) -> str:
    """Return the full name of the record. Raises ConfigError for a schema without one."""
    if record_name is None:
        raise ConfigError(f"the {ctx.field} schema of topic {ctx.topic!r} has no record name: use strategy TOPIC")
    return record_name


def topic_record_subject(ctx: SerializationContext, record_name: str | None) -> str:
    """Return ``TOPIC-RECORD``. Raises ConfigError for a schema without a record name."""
    return f"{ctx.topic}-{record_subject(ctx, record_name)}"


STRATEGIES: Final[Mapping[str, SubjectNameStrategy]] = {
    "TOPIC": topic_subject,
    "RECORD": record_subject,
    "TOPIC_RECORD": topic_record_subject,
}


def subject_strategy(given: str | SubjectNameStrategy) -> SubjectNameStrategy:
    """Return the strategy of a name or function. Raises ConfigError for an unknown name."""
    if callable(given):
        return given
    found = STRATEGIES.get(str(given).upper())
    if found is None:
        raise ConfigError(f"subject_name_strategy={given!r}: expected {', '.join(STRATEGIES)} or a function")
    return found
