"""What the journal tells of the last hour, of many groups at once; nothing where a cluster keeps none."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.cluster import ClusterAccess
from kohort.cli.options import ADMIN_MS
from kohort.cli.show import harmless
from kohort.errors import KohortError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.journal_reader import JournalReader

BACK_MS: Final = 3_600_000
POLL_MS: Final = 200
WATCHED_MOST: Final = 200
READ_S: Final = 2.0
"""A command that lists groups waits no longer for what is but a column of it."""


@dataclass(slots=True)
class RecentRebalances:
    """The rebalances of the last hour, by group."""

    by_group: dict[str, list[RebalanceFinding]] = field(default_factory=dict)

    def of(self, group: str) -> list[RebalanceFinding]:
        """Return those of a group, oldest first."""
        return self.by_group.get(group, [])


def recent_rebalances(cluster: ClusterAccess, admin: Admin, groups: Sequence[str]) -> RecentRebalances | None:
    """Return the rebalances of these groups in the last hour; None where there is no journal, or it must not be read,
    or not in time. The last two are said on stderr."""
    from kohort.coordinator.journal import TOPIC
    from kohort.insight.findings.rebalances import find_rebalances
    from kohort.insight.journal_reader import JOURNAL_OPTIONS, JournalReader

    described = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
    if TOPIC in described.errors:
        return _watched(admin, groups)
    partitions = [TopicPartition(TOPIC, p.partition) for p in described[TOPIC].partitions]
    reader = JournalReader(groups[0] if len(groups) == 1 else None)
    try:
        with cluster.consumer(JOURNAL_OPTIONS) as consumer:
            whole = _read(consumer, partitions, reader)
    except KohortError as error:
        click.echo(harmless(f"the journal of rebalances cannot be read: {error}"), err=True)
        return None
    if not whole:
        click.echo(f"the journal of rebalances was not read within {READ_S:.0f} s, so it is left out", err=True)
        return None
    found = RecentRebalances()
    for this in find_rebalances(reader.entries):
        found.by_group.setdefault(this.group, []).append(this)
    return found


def _watched(admin: Admin, groups: Sequence[str]) -> RecentRebalances | None:
    """Return what ``kohort watch`` has kept of this cluster on this machine; None where it has kept nothing, or there
    are too many groups to look for."""
    from kohort.insight.findings.rebalances import find_rebalances
    from kohort.watch.places import store_path
    from kohort.watch.store import read_entries

    if len(groups) > WATCHED_MOST:
        return None
    path = store_path(admin.describe_cluster(timeout_ms=ADMIN_MS).cluster_id, os.environ)
    if not path.exists():
        return None
    since_ms = time.time_ns() // 1_000_000 - BACK_MS
    found = RecentRebalances()
    try:
        for group in groups:
            entries = [entry for entry in read_entries(path, group)[0] if entry.at_ms >= since_ms]
            found.by_group[group] = find_rebalances(entries)
    except KohortError as error:
        click.echo(harmless(f"the journal of rebalances cannot be read: {error}"), err=True)
        return None
    return found


def _read(consumer: Consumer, partitions: Sequence[TopicPartition], reader: JournalReader) -> bool:
    """Read from an hour ago to the end of now; tell whether that was done in time."""
    deadline = time.monotonic() + READ_S
    since_ms = time.time_ns() // 1_000_000 - BACK_MS
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    for tp, at in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
        consumer.seek(tp, ends[tp] if at is None else at.offset)
    while any(consumer.position(tp, timeout_ms=ADMIN_MS) < ends[tp] for tp in partitions):
        if time.monotonic() > deadline:
            return False
        for record in consumer.poll(POLL_MS):
            reader.add(record.key, record.value)
    return True
