"""A group's journal made on the spot, where nobody has watched: one read of the group's partition of
``__consumer_offsets``, of what compaction has left there."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from kohort.aio.admin import Admin
from kohort.aio.consuming.consumer import Consumer
from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.partitioning import partition_of
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.insight.observed.watching import ObservedGroups
from kohort.model import TopicPartition
from kohort.watch.asking import ADMIN_MS, AskedOfCluster
from kohort.watch.watcher import OFFSETS_TOPIC, check_readable

POLL_MS: Final = 500


class ReadOnTheSpot(NamedTuple):
    """The entries of a group, the time of its oldest record (None: there is none), and what could not be asked."""

    entries: list[JournalEntry]
    since_ms: int | None
    notes: list[str]


def read_on_the_spot(consumer: Consumer, admin: Admin, group: str) -> ReadOnTheSpot | None:
    """Return what the log still tells of a group; None where the cluster never had any group.

    The consumer is one of the watcher's options. Raises ApiError where the topic may not be read, ApiTimeout where it
    cannot be read to its end.
    """
    found = admin.describe_topics([OFFSETS_TOPIC], timeout_ms=ADMIN_MS)
    error = found.errors.get(OFFSETS_TOPIC)
    if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    check_readable(error)
    about = found[OFFSETS_TOPIC]
    groups = ObservedGroups()
    asked = AskedOfCluster(admin, groups)
    asked.node_id = about.partitions[0].leader_id
    partition = TopicPartition(OFFSETS_TOPIC, partition_of(group, len(about.partitions)))
    consumer.assign([partition])
    consumer.seek_to_beginning([partition])
    end = consumer.end_offsets([partition], timeout_ms=ADMIN_MS)[partition]
    entries: list[JournalEntry] = []
    since_ms: int | None = None
    now_ms = time.time_ns() // 1_000_000
    deadline = time.monotonic() + ADMIN_MS / 1000
    while consumer.position(partition, timeout_ms=ADMIN_MS) < end:
        records = consumer.poll(POLL_MS)
        asked.learn_names(records, now_ms)
        asked.learn_session_timeouts(records, now_ms)
        for record in records:
            told = groups.take(record.key, record.value, record.timestamp_ms, record.leader_epoch)
            entries += (entry for entry in told if entry.group == group)
            if since_ms is None and groups.knows(group):
                since_ms = record.timestamp_ms
        if records:
            deadline = time.monotonic() + ADMIN_MS / 1000
        elif time.monotonic() > deadline:
            raise ApiTimeout(f"{partition} could not be read to its end within {ADMIN_MS // 1000} s")
    entries += (entry for entry in groups.caught_up(now_ms) if entry.group == group)
    return ReadOnTheSpot(entries, since_ms, asked.notes)
