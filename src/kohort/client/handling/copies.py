"""Copies of failed and replayed records: options of their producer, options and creation of their topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kohort.client.admin.model import ConfigEntry
from kohort.errors import ApiError, ErrorCode, KohortError

MAX_REQUEST_SIZE: Final = (1 << 31) - 1
MOVING: Final[Mapping[str, Any]] = {"max.request.size": MAX_REQUEST_SIZE, "compression.type": "gzip"}
"""Options of a producer of copies. The topic, not this client, limits the size, and it limits the compressed size."""
COPIED: Final = ("cleanup.policy", "retention.ms", "max.message.bytes")
"""Topic options that a topic of copies depends on."""
HEADER_SPACE: Final = 1 << 16
"""Limit of the size that the headers of a failure add to a record, in bytes."""


def configs_of_copies(options: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Return retention and size limit for copies of a topic's records: the same timestamps, and more headers."""
    policy, retention, size = (found.value if (found := options.get(name)) else None for name in COPIED)
    configs = {}
    if policy is not None and "delete" not in policy:
        configs["retention.ms"] = "-1"
    elif retention is not None:
        configs["retention.ms"] = retention
    if size is not None and size.isdecimal():
        configs["max.message.bytes"] = str(min(int(size[:10]) + HEADER_SPACE, MAX_REQUEST_SIZE))
    return configs


def is_missing(error: KohortError | None) -> bool:
    return isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@contextmanager
def existing_topics_pass(name: str) -> Iterator[None]:
    """Ignore that another member has created the topic; name the option in other errors."""
    try:
        yield
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            error.add_note(f"create topic {name!r}, or grant its creation; create_topics=False expects it to exist")
            raise
