"""The journal of group events, as commands read it: of one group whole, or as it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess
from kohort.cli.terminal.show import harmless, time_text
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.coordinator.journal import JournalEntry
    from kohort.watch.journal_source import JournalSource

WAIT_MS: Final = 500
store_option = click.option(
    "--store",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Journal file of kohort watch --store.",
)


@contextmanager
def journal_of(
    cluster: ClusterAccess, admin: Admin, group_id: str | None, since_ms: int | None, store: Path | None
) -> Iterator[JournalSource | None]:
    """Open the journal of a group, or of all, about since a time (None: now); None without a journal."""
    from kohort.watch.journal_source import JournalAccess, open_journal

    access = JournalAccess(cluster.consumer, admin, os.environ, store, tell)
    source = open_journal(access, group_id, since_ms)
    if source is None:
        yield None
        return
    try:
        yield source
    finally:
        source.close()
    if source.unread:
        tell(f"{source.unread} entries of the journal are of a kind that this version cannot read")


def tell(text: str) -> None:
    click.echo(harmless(text), err=True)


def read_journal(cluster: ClusterAccess, group_id: str, store: Path | None = None) -> list[JournalEntry]:
    """Return the entries of a group, oldest first: of the cluster's journal, else of a watcher's file, else of
    ``__consumer_offsets``. Raises NothingThere."""
    with cluster.admin() as admin:
        with journal_of(cluster, admin, group_id, 0, store) as source:
            entries = [] if source is None else source.read()
            if entries and source is not None:
                tell_if_stale(source)
        if entries or store is not None or (source is not None and source.until_ms is None):
            return entries
        return _on_the_spot(cluster, admin, group_id)


def follow_journal(
    cluster: ClusterAccess, group_id: str, since_ms: int = 0, store: Path | None = None
) -> Iterator[list[JournalEntry]]:
    """Yield the present entries of a group as one list, then new ones; an empty list after a while without any.
    Raises NothingThere without a journal."""
    with cluster.admin() as admin, journal_of(cluster, admin, group_id, since_ms, store) as source:
        if source is None:
            raise NothingThere(f"{cluster.address} has no journal of rebalances: start `kohort watch` to have one")
        entries = source.read()
        tell_if_stale(source)
        yield entries
        while True:
            yield source.wait(WAIT_MS)


def tell_if_stale(source: JournalSource) -> bool:
    """Print and return whether the watcher has stopped."""
    from kohort.watch.journal_source import is_stale

    if not is_stale(source, time.time() * 1000):
        return False
    when = f"watched until {time_text(source.until_ms)}" if source.until_ms else "nobody has watched yet"
    tell(f"{when}: start `kohort watch` to see what came after")
    return True


def _on_the_spot(cluster: ClusterAccess, admin: Admin, group_id: str) -> list[JournalEntry]:
    """Read the records of a group that the log still has."""
    from kohort.watch.watcher import CONSUMER_OPTIONS, read_on_the_spot

    with cluster.consumer(CONSUMER_OPTIONS) as consumer:
        found = read_on_the_spot(consumer, admin, group_id)
    if found is None:
        raise NothingThere(f"{cluster.address} has no journal of rebalances, and no group was ever there")
    for note in found.notes:
        tell(note)
    since = "has nothing of it" if found.since_ms is None else f"has records of it since {time_text(found.since_ms)}"
    tell(f"read now: __consumer_offsets {since}; `kohort watch`, left running, would know more")
    return found.entries
