"""The journal of group events, read as commands need it: whole, once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.cluster import ClusterAccess
from kohort.cli.exits import NothingThere
from kohort.cli.options import ADMIN_MS
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer
    from kohort.coordinator.journal import JournalEntry

POLL_MS: Final = 500


def read_journal(cluster: ClusterAccess, group_id: str) -> list[JournalEntry]:
    """Return the entries of a group, oldest first. Raises NothingThere where the broker keeps no journal."""
    from kohort.coordinator.journal import TOPIC

    with cluster.admin() as admin:
        results = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
        error = results.errors.get(TOPIC)
        if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NothingThere(
                f"{cluster.address} has no journal of rebalances: it is no kohort broker, or no group was ever there"
            )
        partitions = [TopicPartition(TOPIC, p.partition) for p in results[TOPIC].partitions]
    with cluster.consumer({"allow.auto.create.topics": False}) as consumer:
        return entries_of(consumer, partitions, group_id)


def entries_of(consumer: Consumer, partitions: list[TopicPartition], group_id: str) -> list[JournalEntry]:
    """Read the journal to the end that it has now; entries that cannot be read are counted on stderr."""
    from kohort.insight.journal_reader import JournalReader

    reader = JournalReader(group_id)
    consumer.assign(partitions)
    consumer.seek_to_beginning(partitions)
    ends = consumer.end_offsets(partitions)
    deadline = time.monotonic() + ADMIN_MS / 1000
    while any(consumer.position(p, timeout_ms=ADMIN_MS) < ends[p] for p in partitions):
        records = consumer.poll(POLL_MS)
        for record in records:
            reader.add(record.key, record.value)
        if records:
            deadline = time.monotonic() + ADMIN_MS / 1000
        elif time.monotonic() > deadline:
            raise ApiTimeout(f"the journal could not be read to its end within {ADMIN_MS // 1000} s")
    if reader.unread:
        click.echo(f"{reader.unread} entries of the journal are of a kind that this version cannot read", err=True)
    return reader.entries
