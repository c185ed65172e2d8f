"""``kohort group events``, ``fenced`` and ``why``: the journal of a group, by entry, by sender, by rebalance."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.groups.journal import follow_journal, read_journal, store_option
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import DURATION
from kohort.cli.terminal.output import output_of, print_lines, print_result
from kohort.cli.terminal.show import cell, print_prose, time_text
from kohort.cli.terminal.wording import ago, print_fact, print_pattern, print_rebalance
from kohort.insight.findings.events import EventFinding, find_events
from kohort.insight.findings.fenced import FencedFinding, find_fenced, is_from_outside
from kohort.insight.findings.model import name_of_member
from kohort.results.groups import GroupEvents, GroupFenced, GroupRebalances
from kohort.results.result import line_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.model import RebalanceFinding

EVENTS_HELP = """Print the events of GROUP, an entry of the journal a line, oldest first.

Entries that a watcher observed from outside are marked with ~.

\b
Examples:
  kohort group events my-group --since 30m
  kohort group events my-group --follow --output ndjson
"""
TRIED_SHOWN: Final = 5
since_option = click.option("--since", type=DURATION, help="Only this recent: 90s, 30m, 2h, 1d.")


@click.command(help=EVENTS_HELP, short_help="Print the events of a group.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@since_option
@click.option("--follow", "-f", is_flag=True, help="Print new events until Ctrl-C.")
@store_option
@cluster_options
@output_of(GroupEvents)
def events(
    group_id: str, since: int | None, follow: bool, store: Path | None, cluster: ClusterAccess, output: str
) -> None:
    from_ms = since_ms(since)
    if follow:
        if output == "json":
            raise click.UsageError("--follow has no end, and JSON would have one: take --output ndjson")
        for new in follow_journal(cluster, group_id, from_ms, store):
            show_events([entry for entry in new if entry.at_ms >= from_ms], output)
        return
    entries = known_entries(cluster, group_id, store)
    found = [entry for entry in entries if entry.at_ms >= from_ms]
    if output == "json":
        print_result(GroupEvents(group=group_id, events=find_events(found)), output)
    else:
        show_events(found, output)


def show_events(entries: list[JournalEntry], output: str) -> None:
    if output == "ndjson":
        print_lines(line_of(GroupEvents, event) for event in find_events(entries))
        return
    for event in find_events(entries):
        print_prose(event_line(event), indent=" " * 25)


def event_line(event: EventFinding) -> str:
    seen = "~" if event.observed else " "
    return f"{time_text(event.at_ms)[:-4]} {seen}{event.kind:<18}  {cell(event.sentence)}"


def since_ms(since: int | None) -> int:
    return 0 if since is None else max(0, int(time.time() * 1000) - since)


def known_entries(cluster: ClusterAccess, group_id: str, store: Path | None) -> list[JournalEntry]:
    """Return the journal of a group. Raises NothingThere if it has no entry."""
    entries = read_journal(cluster, group_id, store)
    if not entries:
        raise NothingThere(f"the journal of {cluster.address} has nothing of group {group_id!r}")
    return entries


FENCED_HELP = """Show the rejected requests to GROUP, by sender.

A zombie works on after its removal; a member that is behind uses an older generation; a duplicate is a second process
with the same instance id. Others read again what these have read since their last commit. An unfenced sender commits
without being a member: a tool, or a consumer without a subscription. A refused client cannot join: the group is full,
or accepts none of its assignors.

\b
Examples:
  kohort group fenced my-group
  kohort group fenced my-group --since 1h --output ndjson | jq .sentence
"""


@click.command(help=FENCED_HELP, short_help="Show rejected requests, by sender.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@since_option
@store_option
@cluster_options
@output_of(GroupFenced)
def fenced(group_id: str, since: int | None, store: Path | None, cluster: ClusterAccess, output: str) -> None:
    from_ms = since_ms(since)
    entries = known_entries(cluster, group_id, store)
    found = [this for this in find_fenced(entries) if this.last_at_ms >= from_ms]
    if output != "table":
        print_result(GroupFenced(group=group_id, fenced=found, from_outside=is_from_outside(entries)), output)
    elif is_from_outside(entries):
        click.echo("what the coordinator refuses is not seen from the outside: kohort's brokers keep it", err=True)
    elif not found:
        click.echo(f"the journal of {cell(group_id)} has no refused request since then", err=True)
    for i, this in enumerate(found if output == "table" else ()):
        if i:
            click.echo()
        print_culprit(this)


def print_culprit(this: FencedFinding) -> None:
    requests = ", ".join(f"{cell(api)} {number}" for api, number in this.by_api.items())
    click.echo(
        f"{this.verdict.upper()}  {cell(name_of_member(this.who))}  {cell(this.error)}  ({ago(this.last_at_ms)})"
    )
    print_prose(cell(this.sentence))
    print_fact("REQUESTS", requests)
    print_fact("CLIENT", f"{cell(this.who.client_id)} at {cell(this.who.host)}, member id {cell(this.who.member_id)}")
    print_fact("FIRST", time_text(this.first_at_ms))
    print_fact("LAST", time_text(this.last_at_ms))
    for at in this.tried[:TRIED_SHOWN]:
        committed = "nothing is committed" if at.committed is None else f"{at.committed} is committed"
        print_fact("TRIED", cell(f"{at.topic}-{at.partition} to {at.offset}; {committed}"))
    if this.removed_at_ms is not None:
        print_fact("OUT SINCE", f"{time_text(this.removed_at_ms)} ({cell((this.removed_why or '').replace('_', ' '))})")
    for other in this.others:
        print_fact("ALSO", f"{cell(name_of_member(other))}: {cell(other.client_id)} at {cell(other.host)}")


WHY_HELP = """Explain the last rebalance of GROUP: cause, evidence, the member that delayed it, moved partitions.

A kohort broker keeps a journal of group events for seven days. On Apache Kafka the command reads what `kohort watch`
has seen, or else what the log still has. For a group of KIP-848 it also shows the members that have not revoked yet,
and how long partitions had no owner. Several rebalances begin with their pattern: a deploy, a crash loop, a storm.

\b
Examples:
  kohort group why my-group
  kohort group why my-group --since 1h
  kohort group why my-group --last 0 --output json | jq '.rebalances[].cause'
"""


@click.command(help=WHY_HELP, short_help="Explain why a group rebalanced.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--last", type=click.IntRange(min=0), help="Number of rebalances; 0 for all.  [default: 1]")
@click.option("--since", "since_ms", type=DURATION, help="Rebalances of the last 30m, 1h, 2d, ...")
@store_option
@cluster_options
@output_of(GroupRebalances)
def why(
    group_id: str, last: int | None, since_ms: int | None, store: Path | None, cluster: ClusterAccess, output: str
) -> None:
    from kohort.insight.findings.rebalances import find_rebalances
    from kohort.insight.patterns import find_patterns

    if last is not None and since_ms is not None:
        raise click.UsageError("--last and --since exclude each other")
    entries = read_journal(cluster, group_id, store)
    found = find_rebalances(entries)
    if not found:
        heard = f"{len(entries)} entries but no" if entries else "no"
        raise NothingThere(f"the journal of {cluster.address} has {heard} rebalance of group {group_id!r}")
    known = sum(this.end != "no_rebalance" for this in found)
    now_ms = int(time.time() * 1000)
    shown = _lately(found, now_ms - since_ms) if since_ms is not None else _latest(found, 1 if last is None else last)
    patterns = find_patterns(shown, now_ms)
    if output != "table":
        result = GroupRebalances(group=group_id, known=known, patterns=patterns, rebalances=shown)
        print_result(result, output)
        return
    told = f", {sum(this.end != 'no_rebalance' for this in shown)} of them since then" if since_ms is not None else ""
    click.echo(f"{known} rebalance{'s' * (known != 1)} of {cell(group_id)} in the journal{told}", err=True)
    for pattern in patterns:
        print_pattern(pattern)
    for i, this in enumerate(shown):
        if i or patterns:
            click.echo()
        print_rebalance(this)


def _lately(found: list[RebalanceFinding], from_ms: int) -> list[RebalanceFinding]:
    return [this for this in found if this.opened_at_ms + (this.took_ms or 0) >= from_ms]


def _latest(found: list[RebalanceFinding], last: int) -> list[RebalanceFinding]:
    """Return the last rebalances, all for 0, and events without a rebalance between them."""
    rebalances = [this for this in found if this.end != "no_rebalance"]
    from_ms = rebalances[-last].opened_at_ms if 0 < last <= len(rebalances) else 0
    return [this for this in found if this.opened_at_ms >= from_ms]
