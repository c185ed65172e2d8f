"""Checks of the arguments of user calls. A wrong argument raises UsageError in that call, not in a later one."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Final

from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import Metadata
from kohort.config.client import ClientConfig
from kohort.errors import ApiError, ErrorCode, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition

INT64_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1
SHOWN: Final = 80


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_topic_name(value: object) -> bool:
    return is_text(value) and bool(str(value).strip())


def checked_topic(value: object) -> str:
    if not is_topic_name(value):
        raise UsageError(f"a topic name must be text that is not blank, not {shown(value)}")
    return str(value)


def refused_topic(config: ClientConfig, code: ErrorCode, name: str) -> ApiError:
    rules = ": a name has up to 249 letters (a-z, A-Z), digits, dots, underscores and hyphens"
    more = rules if code is ErrorCode.INVALID_TOPIC_EXCEPTION else ""
    return answer_error(config, code, f"topic {name!r}{more}", name=name)


def known_partitions(metadata: Metadata, config: ClientConfig, topic: str) -> int | None:
    """Return the topic's number of partitions; None without metadata. Raises ApiError for a denied topic."""
    count = metadata.partition_count(checked_topic(topic))
    if count is None:
        metadata.add_topic(topic)
        code = metadata.error(topic)
        if code is not None and not code.retriable:
            metadata.request_refresh()  # an admin may add the missing ACL before the next call
            raise refused_topic(config, code, topic)
    return count


def whole_number(what: str, value: object, high: int = INT64_MAX) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # checked here
    except TypeError:
        raise UsageError(f"{what} must be a whole number, not {shown(value)}") from None
    if not -high - 1 <= number <= high:
        raise UsageError(f"{what} must fit in {high.bit_length() + 1} bits, not {shown(value)}")
    return number


def checked_ms(what: str, value: object) -> int:
    """Check a timeout in milliseconds. The error for a float also converts it from seconds to milliseconds."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # checked here
    except TypeError:
        hint = f"; {value:g} s are {value * 1000:.0f}" if isinstance(value, float) else ""
        raise UsageError(f"{what} must be a whole number of milliseconds, not {shown(value)}{hint}") from None
    if not 0 <= number <= INT32_MAX:
        raise UsageError(f"{what} must be a number of milliseconds from 0 to {INT32_MAX}, not {shown(value)}")
    return number


def checked_timestamp(value: object) -> int:
    number = whole_number("a timestamp, in milliseconds,", value)
    if number < -1:
        raise UsageError(f"timestamp {number} is negative: expected milliseconds since 1970")
    return number


def checked_partition(what: str, value: object) -> TopicPartition:
    if isinstance(value, tuple | list) and len(value) == 2 and is_topic_name(value[0]):
        number = whole_number(f"{what}: the partition of topic {value[0]!r}", value[1], INT32_MAX)
        if number >= 0:
            return TopicPartition(value[0], number)
    raise UsageError(f"{what}: expected TopicPartition(topic, number), not {shown(value)}")


def checked_partitions(what: str, value: Iterable[object]) -> list[TopicPartition]:
    if isinstance(value, TopicPartition | str) or not isinstance(value, Iterable):
        raise UsageError(f"{what}: expected a list of TopicPartition, not {shown(value)}")
    return [checked_partition(what, one) for one in value]


def checked_offset(what: str, partition: object, at: object) -> tuple[TopicPartition, OffsetAndMetadata]:
    place = checked_partition(what, partition)
    if isinstance(at, int) and not isinstance(at, bool):
        at = OffsetAndMetadata(at)
    if not isinstance(at, OffsetAndMetadata):
        raise UsageError(f"{what}: the offset of {place} must be a number or OffsetAndMetadata, not {shown(at)}")
    offset = whole_number(f"{what}: the offset of {place}", at.offset)
    if offset < 0:
        raise UsageError(f"{what}: offset {offset} of {place} is negative")
    metadata = "" if at.metadata is None else at.metadata
    if not is_text(metadata):
        raise UsageError(f"{what}: the metadata of {place} must be text, not {shown(metadata)}")
    epoch = whole_number(f"{what}: the leader epoch of {place}", at.leader_epoch, INT32_MAX)
    return place, OffsetAndMetadata(offset, metadata, epoch)


def offsets_to_commit(what: str, value: object) -> dict[TopicPartition, OffsetAndMetadata]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{what}: expected a mapping of TopicPartition to OffsetAndMetadata, not {shown(value)}")
    return dict(checked_offset(what, partition, at) for partition, at in value.items())
