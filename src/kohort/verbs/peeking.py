"""The records around an offset: what a stuck partition is stuck at. Nothing is committed and nobody is disturbed."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Final

from kohort.errors import ApiTimeout
from kohort.model import Record, TopicPartition
from kohort.results.groups import PeekedHeader, PeekedRecord
from kohort.verbs.groups import describe, ends_of
from kohort.verbs.refusals import NothingThere
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer

POLL_MS: Final = 500
PEEK_OPTIONS: Final = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
}
"""Whatever a file of options says: what an open transaction holds back is what people look for."""


def where_it_is(admin: Admin, group_id: str, partition: TopicPartition) -> tuple[int, int, int]:
    """Return what the group has committed, the first offset and the end. Raises NothingThere where there is none."""
    describe(admin, group_id)
    starts, ends = ends_of(admin, [partition], "earliest"), ends_of(admin, [partition], "latest")
    if partition not in ends:
        raise NothingThere(f"{partition}: no such partition")
    at = admin.list_group_offsets(group_id, [partition], timeout_ms=ADMIN_MS)[partition]
    if at is None:
        raise NothingThere(f"group {group_id!r} has committed nothing for {partition}")
    return at.offset, starts[partition], ends[partition]


def read_between(consumer: Consumer, partition: TopicPartition, first: int, behind: int) -> list[Record]:
    """Return the records from ``first`` to before ``behind``; fewer where a log was compacted."""
    consumer.assign([partition])
    consumer.seek(partition, first)
    found: list[Record] = []
    deadline = time.monotonic() + ADMIN_MS / 1000
    while consumer.position(partition, timeout_ms=ADMIN_MS) < behind:
        found += [r for r in consumer.poll(POLL_MS, max_records=behind - first) if r.offset < behind]
        if time.monotonic() > deadline:
            raise ApiTimeout(f"{partition} could not be read up to {behind} within {ADMIN_MS // 1000} s")
    return found


def read_word(offset: int, committed: int) -> str:
    """Return whether the group has read a record: ``yes``, ``next``, ``no``."""
    return "yes" if offset < committed else ("next" if offset == committed else "no")


def peeked(record: Record, committed: int) -> PeekedRecord:
    """Return a record for programs."""
    return PeekedRecord(
        read=read_word(record.offset, committed),
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
