"""``kohort group events``, ``fenced`` and ``why``: show events, rejected requests and rebalances from the journal."""

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
from kohort.insight.findings.fenced import FencedFinding, find_fenced, is_observed_only
from kohort.insight.findings.model import name_of_member
from kohort.insight.names import count
from kohort.results.groups import GroupEvents, GroupFenced, GroupRebalances
from kohort.results.result import line_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.model import RebalanceFinding

EVENTS_HELP = """Print the journal of GROUP, one event per line, oldest first.

~ marks events that kohort watch inferred from samples and records.

\b
Examples:
  kohort group events my-group --since 30m
  kohort group events my-group --follow --output ndjson
"""
TRIED_SHOWN: Final = 5
since_option = click.option(
    "--since", type=DURATION, help="Maximum age of the events to show, such as 90s, 30m, 2h or 1d."
)


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
            raise click.UsageError("--follow needs --output ndjson, since --output json prints one whole document")
        for new in follow_journal(cluster, group_id, from_ms, store):
            show_events([entry for entry in new if entry.at_ms >= from_ms], output)
        return
    entries = entries_of_group(cluster, group_id, store)
    found = [entry for entry in entries if entry.at_ms >= from_ms]
    if output == "json":
        print_result(GroupEvents(group=group_id, events=find_events(found)), output)
    else:
        show_events(found, output)


def show_events(entries: list[JournalEntry], output: str) -> None:
    for event in find_events(entries):
        if output == "ndjson":
            print_lines([line_of(GroupEvents, event)])
        else:
            print_prose(event_line(event), indent=" " * 25)


def event_line(event: EventFinding) -> str:
    inferred = "~" if event.observed else " "
    return f"{time_text(event.at_ms)[:-4]} {inferred}{event.kind:<18}  {cell(event.sentence)}"


def since_ms(since: int | None) -> int:
    return 0 if since is None else max(0, int(time.time() * 1000) - since)


def entries_of_group(cluster: ClusterAccess, group_id: str, store: Path | None) -> list[JournalEntry]:
    """Return the journal entries of a group. Raises NothingThere if the group has no entry."""
    entries = read_journal(cluster, group_id, store)
    if not entries:
        raise NothingThere(f"the journal of {cluster.address} has no entry of group {group_id!r}")
    return entries


FENCED_HELP = """Show rejected requests to GROUP, and accepted commits of clients that are not members.

The output has one entry for each client and error. An entry has one of these meanings:

\b
ZOMBIE      a member that still works after its removal
BEHIND      a member that uses an older generation
DUPLICATE   a second process with the same instance id
UNFENCED    accepted commits of a client that is no member, such as a tool
REFUSED     a client that cannot join: group full, or no common assignor
BENIGN      a harmless request of a member during a rebalance
UNKNOWN     a request that failed with any other error

If a fenced client has read records since its last commit, the new owners of its partitions read these records again.

\b
Examples:
  kohort group fenced my-group
  kohort group fenced my-group --since 1h --output ndjson | jq .sentence
"""


@click.command(help=FENCED_HELP, short_help="Show rejected requests, and commits of non-members.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@since_option
@store_option
@cluster_options
@output_of(GroupFenced)
def fenced(group_id: str, since: int | None, store: Path | None, cluster: ClusterAccess, output: str) -> None:
    from_ms = since_ms(since)
    entries = entries_of_group(cluster, group_id, store)
    found = [rejected for rejected in find_fenced(entries) if rejected.last_at_ms >= from_ms]
    if output != "table":
        print_result(GroupFenced(group=group_id, fenced=found, from_outside=is_observed_only(entries)), output)
    elif is_observed_only(entries):
        click.echo("only the journal of a kohort broker has rejected requests; kohort watch cannot see them", err=True)
    elif not found:
        click.echo(f"the journal has no rejected request to {cell(group_id)} in this time span", err=True)
    for i, rejected in enumerate(found if output == "table" else ()):
        if i:
            click.echo()
        print_rejected(rejected)


def print_rejected(rejected: FencedFinding) -> None:
    """Print the rejected requests of one client."""
    client, name = rejected.member, cell(name_of_member(rejected.member))
    click.echo(f"{rejected.verdict.upper()}  {name}  {cell(rejected.error)}  ({ago(rejected.last_at_ms)})")
    print_prose(cell(rejected.sentence))
    print_fact("REQUESTS", ", ".join(f"{cell(api)} {number}" for api, number in rejected.by_api.items()))
    print_fact("CLIENT", f"{cell(client.client_id)} at {cell(client.host)}, member id {cell(client.member_id)}")
    print_fact("FIRST", time_text(rejected.first_at_ms))
    print_fact("LAST", time_text(rejected.last_at_ms))
    for at in rejected.tried[:TRIED_SHOWN]:
        committed = "no offset is committed" if at.committed is None else f"{at.committed} is committed"
        print_fact("TRIED", cell(f"{at.topic}-{at.partition} to {at.offset}; {committed}"))
    if rejected.removed_at_ms is not None:
        why = cell((rejected.removed_why or "").replace("_", " "))
        print_fact("REMOVED", f"{time_text(rejected.removed_at_ms)} ({why})")
    for other in rejected.others:
        print_fact("ALSO", f"{cell(name_of_member(other))}: {cell(other.client_id)} at {cell(other.host)}")


WHY_HELP = """Explain the last rebalance of GROUP: cause, evidence, the member that delayed it, moved partitions.

A kohort broker keeps a journal of group events for seven days. On Apache Kafka the command reads the journal of `kohort
watch`, or the records that __consumer_offsets still has. For the consumer protocol (KIP-848) the command also shows
which members have not revoked partitions yet, and how long partitions had no owner. If several rebalances have a
pattern, such as a deployment, a crash loop or a storm, the output begins with the pattern.

\b
Examples:
  kohort group why my-group
  kohort group why my-group --since 1h
  kohort group why my-group --rebalance 12
  kohort group why my-group --last 0 --output json | jq '.rebalances[].cause'
"""


@click.command(help=WHY_HELP, short_help="Explain why a group rebalanced.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help="Explain the N latest rebalances [1]; 0: all. Excludes --since.",
)
@click.option(
    "--rebalance",
    "key",
    metavar="ID",
    help="Generation or epoch of the rebalance to explain, or its id in --output json. Excludes --last and --since.",
)
@click.option(
    "--since", "since_ms", type=DURATION, help="Maximum age of the rebalances to explain, such as 30m, 1h or 2d."
)
@store_option
@cluster_options
@output_of(GroupRebalances)
def why(
    group_id: str,
    last: int | None,
    key: str | None,
    since_ms: int | None,
    store: Path | None,
    cluster: ClusterAccess,
    output: str,
) -> None:
    from kohort.insight.findings.rebalances import find_rebalances
    from kohort.insight.patterns import find_patterns

    if sum(option is not None for option in (last, key, since_ms)) > 1:
        raise click.UsageError("--last, --rebalance and --since exclude each other")
    entries = read_journal(cluster, group_id, store)
    found = find_rebalances(entries)
    if not found:
        has = f"{len(entries)} entries but no" if entries else "no"
        raise NothingThere(f"the journal of {cluster.address} has {has} rebalance of group {group_id!r}")
    known = sum(rebalance.end != "no_rebalance" for rebalance in found)
    now_ms = int(time.time() * 1000)
    if key is not None:
        shown = _with_key(found, group_id, key)
    elif since_ms is None:
        shown = _latest(found, 1 if last is None else last)
    else:
        shown = [one for one in found if one.opened_at_ms + (one.took_ms or 0) >= now_ms - since_ms]
    patterns = find_patterns(shown, now_ms)
    if output != "table":
        print_result(GroupRebalances(group=group_id, known=known, patterns=patterns, rebalances=shown), output)
        return
    recent = sum(rebalance.end != "no_rebalance" for rebalance in shown)
    in_time = f", {recent} of them in this time span" if since_ms is not None else ""
    click.echo(f"{count(known, 'rebalance')} of {cell(group_id)} in the journal{in_time}", err=True)
    for pattern in patterns:
        print_pattern(pattern)
    for i, rebalance in enumerate(shown):
        if i or patterns:
            click.echo()
        print_rebalance(rebalance)


def _with_key(found: list[RebalanceFinding], group_id: str, key: str) -> list[RebalanceFinding]:
    shown = [finding for finding in found if finding.id in (key, f"{group_id}/{key}")]
    if not shown:
        ids = [finding.id.removeprefix(f"{group_id}/") for finding in found if finding.end != "no_rebalance"]
        has = f"; the journal has {', '.join(ids[-5:])}" if ids else ""
        raise NothingThere(f"group {group_id!r} has no rebalance {key!r}{has}")
    return shown


def _latest(found: list[RebalanceFinding], last: int) -> list[RebalanceFinding]:
    """Return the ``last`` latest rebalances of a group (0: all).

    Findings that are not rebalances are kept if they opened no earlier than the oldest of these rebalances.
    """
    rebalances = [finding for finding in found if finding.end != "no_rebalance"]
    from_ms = rebalances[-last].opened_at_ms if 0 < last <= len(rebalances) else 0
    return [finding for finding in found if finding.opened_at_ms >= from_ms]
