"""``kohort watch``: the journal of groups of any cluster, made by looking; a line for each rebalance as it is found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.output import output_of, print_lines, print_result
from kohort.cli.terminal.show import harmless, time_text
from kohort.cli.terminal.wording import heading
from kohort.results.groups import WatchedRebalances
from kohort.results.result import line_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.watch.store import WatchStore
    from kohort.watch.topic_journal import TopicJournal
    from kohort.watch.watcher import GroupWatcher

HELP = """Watch the groups of any cluster, and print a line for each rebalance: time, cause, confidence.

Apache Kafka keeps no journal of rebalances; this command makes one in ~/.local/state/kohort/watch, from
__consumer_offsets (it needs READ on that topic) and from the states of groups. `kohort group why` and other commands
read it there. The first start reads the whole topic, a later one only new records. Only --to-topic writes to the
cluster. Causes are inferred, so none is a proof; the longer it runs, the more it can explain.

\b
Examples:
  kohort watch
  kohort watch --group orders --output ndjson | jq .cause
  kohort watch --once
"""
WAIT_S: Final = 5.0
STEP_MS: Final = 500


@click.command(help=HELP, short_help="Watch groups, and keep a journal of why they rebalance.")
@click.option(
    "--group", "groups", metavar="GROUP", multiple=True, shell_complete=complete_groups, help="Only these groups."
)
@click.option("--once", is_flag=True, help="Print new rebalances, and end.")
@click.option(
    "--interval",
    type=click.FloatRange(0, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between samples; 0: none.",
)
@click.option("--store", type=click.Path(path_type=Path, dir_okay=False), help="File of the journal.")
@click.option("--to-topic", is_flag=True, help="Write the journal to the topic __kohort_journal, too.")
@click.option("--days", type=click.IntRange(1, 3650), default=7, show_default=True, help="Days to keep entries.")
@click.option(
    "--max-size", type=click.IntRange(1), default=1024, show_default=True, help="Size of all entries, in MiB."
)
@click.option("--max-groups", type=click.IntRange(1), default=20_000, show_default=True, help="Groups in memory.")
@click.option(
    "--max-partitions",
    type=click.IntRange(1),
    default=500_000,
    show_default=True,
    help="Partitions with commits in memory.",
)
@cluster_options
@output_of(WatchedRebalances)
def watch(
    groups: tuple[str, ...], once: bool, to_topic: bool, cluster: ClusterAccess, output: str, **limits: Any
) -> None:
    if output == "json" and not once:
        raise click.UsageError("--output json is one object, and this goes on: take --output ndjson, or --once")
    if once:
        limits["interval"] = 0
    from kohort.watch.opening import DAY_MS, WatchClients, WatchSettings, opened_watcher

    settings = WatchSettings(interval_s=limits.pop("interval"), **limits)
    clients = WatchClients(cluster.admin, cluster.consumer)
    with (
        opened_watcher(clients, settings, os.environ) as (watcher, kept, cluster_id),
        shipping(cluster, kept, to_topic, settings.days * DAY_MS) as topic,
    ):
        found = _told(watcher, kept, groups, once=once, topic=topic)
        if output == "json":
            print_result(WatchedRebalances(cluster=cluster_id, rebalances=list(found)), output)
            return
        for this in found:
            if output == "ndjson":
                print_lines([line_of(WatchedRebalances, this)])
            else:
                click.echo(line_about(this))


@contextmanager
def shipping(
    cluster: ClusterAccess, kept: WatchStore, to_topic: bool, retention_ms: int
) -> Iterator[TopicJournal | None]:
    """Open the journal topic for new entries; None without ``to_topic``."""
    from kohort.watch.topic_journal import PRODUCER_OPTIONS, TopicJournal
    from kohort.watch.watcher import CONSUMER_OPTIONS

    if not to_topic:
        yield None
        return
    with cluster.producer(PRODUCER_OPTIONS) as producer:
        journal = TopicJournal(producer, kept)
        with cluster.admin() as admin, cluster.consumer(CONSUMER_OPTIONS) as consumer:
            journal.open(admin, consumer, retention_ms)
        yield journal


def _told(
    watcher: GroupWatcher, kept: WatchStore, groups: Sequence[str], *, once: bool, topic: TopicJournal | None
) -> Iterator[RebalanceFinding]:
    """Yield rebalances as they are found; those before the first start only with ``once``."""
    from kohort.watch.background import RebalanceNews

    is_first, waited = not kept.positions(), False
    while not watcher.open():
        if once:
            raise NothingThere("the cluster has no __consumer_offsets: no group was ever there")
        if not waited:
            click.echo("no group was ever there: waiting for the first", err=True)
            is_first, waited = False, True  # all that comes is new
        time.sleep(WAIT_S)
    news = RebalanceNews(kept)
    while True:
        was_there = watcher.is_caught_up
        new = watcher.step(STEP_MS)
        if topic is not None:
            now_ms = time.time_ns() // 1_000_000
            if new or not was_there:
                topic.ship(now_ms)
            topic.beat(now_ms)
        for note in watcher.notes:
            click.echo(harmless(f"kohort watch: {note}"), err=True)
        watcher.notes.clear()
        if once or was_there or not is_first:
            mine = [entry for entry in new if not groups or entry.group in groups]
            yield from news.of(mine)
        if watcher.is_caught_up and not was_there:
            if once:
                return
            size = watcher.groups.sizes[0]
            many = f"{size} group{'s' * (size != 1)}"
            click.echo(f"{watcher.records} records read, {many} known; journal in {kept.path}; watching", err=True)


def line_about(this: RebalanceFinding) -> str:
    words = (time_text(this.opened_at_ms), this.group, heading(this), f"{this.cause} ({this.confidence})")
    return "  ".join(harmless(word).replace("\n", " ") for word in (*words, this.sentence))
