"""``kohort watch``: record a journal of the groups of any cluster, and print a line for each rebalance."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import NEW_FILE
from kohort.cli.terminal.output import output_of, print_lines, print_result
from kohort.cli.terminal.show import harmless, time_text
from kohort.cli.terminal.wording import heading
from kohort.insight.names import count
from kohort.results.groups import WatchedRebalances
from kohort.results.result import line_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.watch.store import WatchStore
    from kohort.watch.topic_journal import TopicJournal
    from kohort.watch.watcher import GroupWatcher

HELP = """Record the rebalances of any cluster, and print the time, cause and confidence of each.

Apache Kafka keeps no journal of rebalances. This command records one in ~/.local/state/kohort/watch, from
__consumer_offsets (needs READ on that topic) and from the states of groups. `kohort group why` and other commands read
that journal. The first start reads the whole topic, a later start only new records. Only --to-topic writes to the
cluster.

Causes are inferred, not proven. The longer the command runs, the more rebalances it can explain.

\b
Examples:
  kohort watch
  kohort watch --group orders --output ndjson | jq .cause
  kohort watch --once
"""
WAIT_S: Final = 5.0
STEP_MS: Final = 500


@click.command(help=HELP, short_help="Record and print the rebalances of groups, with their causes.")
@click.option(
    "--group",
    "groups",
    metavar="GROUP",
    multiple=True,
    shell_complete=complete_groups,
    help="Print only rebalances of this group; repeatable.",
)
@click.option("--once", is_flag=True, help="Read the new records, print their rebalances, and exit.")
@click.option(
    "--interval",
    type=click.FloatRange(0, 3600),
    default=2.0,
    help="Seconds between two samples of the groups [2]; 0: no samples.",
)
@click.option("--store", type=NEW_FILE, help="Journal file to write.")
@click.option("--to-topic", is_flag=True, help="Also write the journal to the topic __kohort_journal.")
@click.option("--days", type=click.IntRange(1, 3650), default=7, help="Retention of journal entries in days [7].")
@click.option("--max-size", type=click.IntRange(1), default=1024, help="Maximum size of the journal in MiB [1024].")
@click.option(
    "--max-groups", type=click.IntRange(1), default=20_000, help="Maximum number of groups in memory [20000]."
)
@click.option(
    "--max-partitions", type=click.IntRange(1), default=500_000, help="Maximum number of partitions in memory [500000]."
)
@cluster_options
@output_of(WatchedRebalances)
def watch(
    groups: tuple[str, ...], once: bool, to_topic: bool, cluster: ClusterAccess, output: str, **limits: Any
) -> None:
    if output == "json" and not once:
        raise click.UsageError("--output json prints one whole document: use --output ndjson, or add --once")
    if once:
        limits["interval"] = 0
    from kohort.watch.opening import DAY_MS, WatchClients, WatchSettings, open_watcher

    settings = WatchSettings(interval_s=limits.pop("interval"), **limits)
    clients = WatchClients(cluster.admin, cluster.consumer)
    with (
        open_watcher(clients, settings, os.environ) as (watcher, kept, cluster_id),
        shipping(cluster, kept, to_topic, settings.days * DAY_MS) as topic,
    ):
        found = _new_rebalances(watcher, kept, groups, once=once, topic=topic)
        if output == "json":
            print_result(WatchedRebalances(cluster=cluster_id, rebalances=list(found)), output)
            return
        for rebalance in found:
            if output == "ndjson":
                print_lines([line_of(WatchedRebalances, rebalance)])
            else:
                click.echo(rebalance_line(rebalance))


@contextmanager
def shipping(
    cluster: ClusterAccess, kept: WatchStore, to_topic: bool, retention_ms: int
) -> Iterator[TopicJournal | None]:
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


def _new_rebalances(
    watcher: GroupWatcher, kept: WatchStore, groups: Sequence[str], *, once: bool, topic: TopicJournal | None
) -> Iterator[RebalanceFinding]:
    """Yield the rebalances that the watcher finds.

    The first start of a watcher reads old records. Their rebalances are yielded only if ``once``.
    """
    from kohort.watch.background import NewRebalances

    is_first, waited = not kept.positions(), False
    while not watcher.open():
        if once:
            raise NothingThere("the cluster has no topic __consumer_offsets, so it never had a group")
        if not waited:
            click.echo("the cluster has no group yet: waiting for the first", err=True)
            # the cluster had no group when the watcher started, so every rebalance is new
            is_first, waited = False, True
        time.sleep(WAIT_S)
    news = NewRebalances(kept)
    while True:
        was_there = watcher.is_caught_up
        new = watcher.step(STEP_MS)
        if topic is not None:
            now_ms = time.time_ns() // 1_000_000
            if new or not was_there:
                topic.ship(now_ms)
            topic.heartbeat(now_ms)
        for note in watcher.notes:
            click.echo(harmless(f"kohort watch: {note}"), err=True)
        watcher.notes.clear()
        if once or was_there or not is_first:
            yield from news.of([entry for entry in new if not groups or entry.group in groups])
        if watcher.is_caught_up and not was_there:
            if once:
                return
            size = count(watcher.groups.sizes[0], "group")
            click.echo(f"watching {size}, after {watcher.records} records; journal in {kept.path}", err=True)


def rebalance_line(found: RebalanceFinding) -> str:
    cause = f"{found.cause} ({found.confidence})"
    texts = (time_text(found.opened_at_ms), found.group, heading(found), cause, found.sentence)
    return "  ".join(harmless(text).replace("\n", " ") for text in texts)
