"""Read the journal of group events for commands: stored entries of a group, and new entries as they are written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess
from kohort.cli.terminal.options import FILE
from kohort.cli.terminal.show import harmless, time_text
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.coordinator.journal import JournalEntry
    from kohort.watch.journal_source import JournalSource

WAIT_MS: Final = 500
store_option = click.option("--store", type=FILE, help="Journal file of kohort watch to read.")


@contextmanager
def journal_of(
    cluster: ClusterAccess, admin: Admin, group_id: str | None, since_ms: int | None, store: Path | None
) -> Iterator[JournalSource | None]:
    """Open the journal of one group (None: of all groups) from ``since_ms`` (None: from now) on.

    Yields None if there is no journal.
    """
    from kohort.watch.journal_source import JournalAccess, open_journal

    access = JournalAccess(cluster.consumer, admin, os.environ, store, warn)
    source = open_journal(access, group_id, since_ms)
    if source is None:
        yield None
        return
    with closing(source):
        yield source
    if source.unread:
        warn(f"{source.unread} journal entries are of a kind that this version of kohort cannot read")


def warn(text: str) -> None:
    click.echo(harmless(text), err=True)


def read_journal(cluster: ClusterAccess, group_id: str, store: Path | None = None) -> list[JournalEntry]:
    """Return the journal entries of a group, oldest first. Raises NothingThere.

    Reads the journal of the cluster, or a watcher's journal file. If there is neither, reads ``__consumer_offsets``.
    """
    with cluster.admin() as admin:
        with journal_of(cluster, admin, group_id, 0, store) as source:
            entries = [] if source is None else source.read()
            if entries and source is not None:
                warn_if_stale(source)
        if entries or store is not None or (source is not None and source.until_ms is None):
            return entries
        return _entries_from_offsets_topic(cluster, admin, group_id)


def follow_journal(
    cluster: ClusterAccess, group_id: str, since_ms: int, store: Path | None
) -> Iterator[list[JournalEntry]]:
    """Yield a group's stored journal entries, then each list of new entries.

    Raises NothingThere if there is no journal.
    """
    with cluster.admin() as admin, journal_of(cluster, admin, group_id, since_ms, store) as source:
        if source is None:
            raise NothingThere(f"{cluster.address} has no journal of rebalances: start `kohort watch` to record one")
        entries = source.read()
        warn_if_stale(source)
        yield entries
        while True:
            yield source.wait(WAIT_MS)


def warn_if_stale(source: JournalSource) -> bool:
    """Print a warning and return True if the watcher that wrote this journal has stopped."""
    from kohort.watch.journal_source import is_stale

    if not is_stale(source, time.time() * 1000):
        return False
    end = f"the journal ends at {time_text(source.until_ms)}" if source.until_ms else "the journal is empty"
    warn(f"{end}: start `kohort watch` to record later rebalances")
    return True


def _entries_from_offsets_topic(cluster: ClusterAccess, admin: Admin, group_id: str) -> list[JournalEntry]:
    from kohort.watch.watcher import CONSUMER_OPTIONS, read_group_history

    with cluster.consumer(CONSUMER_OPTIONS) as consumer:
        found = read_group_history(consumer, admin, group_id)
    if found is None:
        raise NothingThere(f"{cluster.address} has no journal of rebalances, and never had a group")
    for note in found.notes:
        warn(note)
    since = "no records of the group" if found.since_ms is None else f"records since {time_text(found.since_ms)}"
    warn(f"no journal: __consumer_offsets has {since}; a running `kohort watch` records more")
    return found.entries
