"""Read the records around a committed offset. Joins no group and commits no offsets."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.errors import ApiTimeout
from kohort.model import Record, TopicPartition
from kohort.results.groups import GroupPeek, PeekedHeader, PeekedRecord
from kohort.verbs.groups import describe, ends_of
from kohort.verbs.refusals import NothingThere
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer

ConsumerWith = Callable[[Mapping[str, Any]], "Consumer"]
POLL_MS: Final = 500
PEEK_OPTIONS: Final = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
}
"""Consumer options that override the user's options, such that the consumer also reads records of open transactions."""


def position_of(admin: Admin, group_id: str, partition: TopicPartition) -> Ends:
    """Return the group's committed offset for a partition, and the partition's log start and log end.

    Raises NothingThere.
    """
    describe(admin, group_id)
    starts, ends = ends_of(admin, [partition], "earliest"), ends_of(admin, [partition], "latest")
    if partition not in ends:
        raise NothingThere(f"{partition}: the partition does not exist")
    at = admin.list_group_offsets(group_id, [partition], timeout_ms=ADMIN_MS)[partition]
    if at is None:
        raise NothingThere(f"group {group_id!r} has no committed offset for {partition}")
    return Ends(at.offset, starts[partition], ends[partition])


def read_between(consumer: Consumer, partition: TopicPartition, first: int, behind: int) -> list[Record]:
    consumer.assign([partition])
    consumer.seek(partition, first)
    found: list[Record] = []
    deadline = time.monotonic() + ADMIN_MS / 1000
    while consumer.position(partition, timeout_ms=ADMIN_MS) < behind:
        found += [r for r in consumer.poll(POLL_MS, max_records=behind - first) if r.offset < behind]
        if time.monotonic() > deadline:
            raise ApiTimeout(f"cannot read {partition} up to {behind} within {ADMIN_MS // 1000} s")
    return found


class Ends(NamedTuple):
    committed: int
    start: int
    end: int


def peek(consumer_with: ConsumerWith, group: str, partition: TopicPartition, ends: Ends, around: range) -> GroupPeek:
    """Read the records of a partition around the committed offset. ``around`` has offsets relative to this offset."""
    first, behind = max(ends.start, ends.committed + around.start), min(ends.end, ends.committed + around.stop)
    with consumer_with(PEEK_OPTIONS) as consumer:
        records = read_between(consumer, partition, first, behind) if first < behind else []
    return GroupPeek(
        group=group,
        topic=partition.topic,
        partition=partition.partition,
        committed=ends.committed,
        log_start_offset=ends.start,
        log_end_offset=ends.end,
        records=[peeked(record, ends.committed) for record in records],
    )


def peeked(record: Record, committed: int) -> PeekedRecord:
    return PeekedRecord(
        read="yes" if record.offset < committed else "next" if record.offset == committed else "no",
        offset=record.offset,
        timestamp_ms=None if record.timestamp_ms < 0 else record.timestamp_ms,
        key=text_of(record.key),
        value=text_of(record.value),
        headers=[PeekedHeader(name=name, value=text_of(value)) for name, value in record.headers],
    )


def text_of(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
