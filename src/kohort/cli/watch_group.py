"""``kohort group watch``: one group, live: how it is, where it waits, and what happens to it."""

from __future__ import annotations

import itertools
import shutil
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.durations import DURATION
from kohort.cli.events import event_line
from kohort.cli.fit import lines_of
from kohort.cli.journal import follow_journal, store_option
from kohort.cli.lag_words import lag_time_text
from kohort.cli.looking import is_missing, missing
from kohort.cli.options import ADMIN_MS
from kohort.cli.output import output_of, print_lines
from kohort.cli.show import cell, harmless, table_of, time_text
from kohort.errors import KohortError
from kohort.insight.findings.events import EventFinding, find_events
from kohort.insight.findings.groups import GroupFinding, PartitionFinding, find_group, name_of_ref
from kohort.results.journal import GroupWatched, WatchedMoment
from kohort.results.result import line_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.snapshot import GroupSnapshot

WATCH_HELP = """Watch GROUP: how it is, the partitions that wait the most, and what happens to it, until Ctrl-C.

On a terminal the picture is drawn anew; into a pipe goes a line of JSON for each look. Events are those of the journal
that a kohort broker keeps, or kohort watch.

\b
Examples:
  kohort group watch my-group
  kohort group watch my-group --every 5s | jq '.status.lag'
"""
LOOKS_KEPT: Final = 10
EVENTS_SHOWN: Final = 6
EVENTS_KEPT: Final = 100
SHORTEST_ASK_MS: Final = 1_000
ENTRIES_KEPT: Final = 1000
"""By which entries are known again that are read twice."""
COLUMNS: Final = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "LAG-TIME", "STATUS", "MEMBER")


@click.command("watch", help=WATCH_HELP, short_help="Watch a group live.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--every", "every_ms", type=DURATION, default="2s", show_default=True, help="How often to look.")
@click.option("--looks", type=click.IntRange(min=1), help="Stop after so many.")
@store_option
@cluster_options
@output_of(GroupWatched)
def watch(
    group_id: str, every_ms: int, looks: int | None, store: Path | None, cluster: ClusterAccess, output: str
) -> None:
    if output == "json":
        raise click.UsageError("watching has no end, and JSON would have one: take --output ndjson")
    with cluster.admin() as admin:
        moments = moments_of(cluster, admin, group_id, every_ms, store)
        wanted = moments if looks is None else itertools.islice(moments, looks)
        if output == "ndjson" or not sys.stdout.isatty():
            print_lines(line_of(GroupWatched, moment) for moment in wanted)
        else:
            draw_live(wanted)


def moments_of(
    cluster: ClusterAccess, admin: Admin, group_id: str, every_ms: int, store: Path | None = None
) -> Iterator[WatchedMoment]:
    """Yield what is seen of a group, again and again; brokers that go meanwhile are waited for.

    Raises NothingThere for a group that is not there at first, and what an admin client raises where nobody answers
    then.
    """
    snapshots: deque[GroupSnapshot] = deque(maxlen=LOOKS_KEPT)
    began_ms = int(time.time() * 1000)
    journal = Journal(lambda since_ms: follow_journal(cluster, group_id, since_ms, store), began_ms)
    while True:
        due = time.monotonic() + every_ms / 1000
        snapshot, why = look(admin, group_id, every_ms, first=not snapshots)
        if snapshot is None and not snapshots and why is None:
            raise missing(admin, group_id)
        if snapshot is not None:
            snapshots.append(snapshot)
        events = [entry for entry in journal.until(due) if entry.at_ms >= began_ms]
        yield WatchedMoment(
            at_ms=int(time.time() * 1000),
            group=group_id,
            status=find_group(list(snapshots)) if snapshot is not None else None,
            unseen=why or ("the group is gone" if snapshot is None else None),
            events=find_events(events),
        )


def look(admin: Admin, group_id: str, every_ms: int, *, first: bool) -> tuple[GroupSnapshot | None, str | None]:
    """Return the group as it is now; or None, and why it could not be seen, which is None where it is not there.

    Raises what another look would not cure, such as a login that is refused.
    """
    from kohort.watch.sampling import SamplingLimits, sample_groups

    timeout_ms = ADMIN_MS if first else min(max(2 * every_ms, SHORTEST_ASK_MS), ADMIN_MS)
    try:
        sample = sample_groups(admin, [group_id], SamplingLimits(timeout_ms=timeout_ms))
    except KohortError as error:
        if first or not error.retriable:
            raise
        return None, str(error)
    unseen = sample.errors.get(group_id)
    if unseen is None:
        return sample.groups[0], None
    return None, None if is_missing(unseen) else str(unseen)


class Journal:
    """The entries of the journal that come while one watches; none where no journal is kept.

    Where a broker goes while one reads, it is read anew from the last entry on.
    """

    def __init__(self, follow: Callable[[int], Iterator[list[JournalEntry]]], since_ms: int) -> None:
        self._follow = follow
        self._last_ms = since_ms
        self._seen: deque[JournalEntry] = deque(maxlen=ENTRIES_KEPT)
        self._batches: Iterator[list[JournalEntry]] | None = follow(since_ms)

    def until(self, due: float) -> list[JournalEntry]:
        """Return what came by the time ``due`` (monotonic seconds), and wait for it."""
        found: list[JournalEntry] = []
        while time.monotonic() < due:
            if self._batches is None:
                time.sleep(max(0.0, due - time.monotonic()))
                break
            try:
                found += self._new(next(self._batches))
            except NothingThere:
                self._batches = None
            except KohortError as error:
                if not error.retriable:
                    click.echo(harmless(f"no events: {error}"), err=True)
                self._batches = self._follow(self._last_ms) if error.retriable else None
                time.sleep(max(0.0, due - time.monotonic()))
        return found

    def _new(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Return those that were not there before the journal was opened anew."""
        new = [entry for entry in entries if entry not in self._seen]
        self._seen.extend(new)
        self._last_ms = max((entry.at_ms for entry in new), default=self._last_ms)
        return new


def draw_live(moments: Iterator[WatchedMoment]) -> None:
    """Draw each moment in the place of the one before."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    happened: deque[EventFinding] = deque(maxlen=EVENTS_KEPT)
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for moment in moments:
            happened.extend(moment.events)
            size = shutil.get_terminal_size()
            lines = picture(moment, list(happened), width=size.columns, height=size.lines - 1)
            live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)


def picture(moment: WatchedMoment, events: Sequence[EventFinding], *, width: int, height: int) -> list[str]:
    """Return the lines of a moment: the sentence, the partitions that wait the most, the last events."""
    said = f"{time_text(moment.at_ms)[11:19]}  {cell(sentence_of_moment(moment))}"
    head = textwrap.wrap(said, width, max_lines=3, placeholder="…") or [said]
    tail = [event_line(event)[11:] for event in events[-EVENTS_SHOWN:]]
    room = max(1, height - len(head) - len(tail) - 3)
    lines = [*head, ""]
    if moment.status is not None and moment.status.partitions:
        waiting = sorted(moment.status.partitions, key=lambda one: (-(one.lag or 0), one.topic, one.partition))
        drawn = lines_of(table_of(COLUMNS, [cells(one) for one in waiting[:room]]), width)
        lines += drawn[:room]
        if len(waiting) > len(drawn):
            lines.append(f"... of {len(waiting)} partitions")
    lines += ["", *tail] if tail else []
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines[:height]]


def cells(one: PartitionFinding) -> tuple[object, ...]:
    """Return a partition in a line."""
    waits = lag_time_text(one.lag, one.lag_ms, complete=True)
    owner = None if one.owner is None else name_of_ref(one.owner)
    return one.topic, one.partition, one.committed, one.log_end, one.lag, waits, one.status, owner


def sentence_of_moment(moment: WatchedMoment) -> str:
    """Return how the group is, or why that is not known."""
    found: GroupFinding | None = moment.status
    return found.sentence if found is not None else f"{moment.group}: {moment.unseen}"
