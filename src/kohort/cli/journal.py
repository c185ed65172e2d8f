"""The journal of group events, read as commands need it: whole, once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.cluster import ClusterAccess
from kohort.cli.exits import NothingThere
from kohort.cli.options import ADMIN_MS
from kohort.cli.show import harmless, time_text
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.coordinator.journal import JournalEntry

POLL_MS: Final = 500
STALE_MS: Final = 60_000
"""A watcher that has kept nothing for so long does not run any more."""


def read_journal(cluster: ClusterAccess, group_id: str) -> list[JournalEntry]:
    """Return the entries of a group, oldest first: of the journal on the cluster, else of one that `kohort watch` has
    kept here, else read on the spot from ``__consumer_offsets``. Raises NothingThere where no group ever was."""
    from kohort.coordinator.journal import TOPIC
    from kohort.insight.journal_reader import JOURNAL_OPTIONS

    with cluster.admin() as admin:
        results = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
        error = results.errors.get(TOPIC)
        if not (isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            partitions = [TopicPartition(TOPIC, p.partition) for p in results[TOPIC].partitions]
            with cluster.consumer(JOURNAL_OPTIONS) as consumer:
                return entries_of(consumer, partitions, group_id)
        return _watched(admin, group_id) or _on_the_spot(cluster, admin, group_id)


def _watched(admin: Admin, group_id: str) -> list[JournalEntry]:
    """Return what `kohort watch` has kept on this machine, if it has watched this cluster and seen this group."""
    from kohort.watch.places import store_path
    from kohort.watch.store import read_entries

    path = store_path(admin.describe_cluster(timeout_ms=ADMIN_MS).cluster_id, os.environ)
    if not path.exists():
        return []
    entries, until_ms = read_entries(path, group_id)
    if entries and until_ms is not None and time.time() * 1000 - until_ms > STALE_MS:
        click.echo(f"watched until {time_text(until_ms)}: start `kohort watch` to see what came after", err=True)
    return entries


def _on_the_spot(cluster: ClusterAccess, admin: Admin, group_id: str) -> list[JournalEntry]:
    """Read what the log still has of a group, and say how far back that is."""
    from kohort.watch.on_the_spot import read_on_the_spot
    from kohort.watch.watcher import CONSUMER_OPTIONS

    with cluster.consumer(CONSUMER_OPTIONS) as consumer:
        found = read_on_the_spot(consumer, admin, group_id)
    if found is None:
        raise NothingThere(f"{cluster.address} has no journal of rebalances, and no group was ever there")
    for note in found.notes:
        click.echo(harmless(note), err=True)
    since = "has nothing of it" if found.since_ms is None else f"has records of it since {time_text(found.since_ms)}"
    click.echo(f"read now: __consumer_offsets {since}; `kohort watch`, left running, would know more", err=True)
    return found.entries


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
