"""``kohort group why``: what the rebalances of a group were about, from the journal that the broker keeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.groups.journal import read_journal, store_option
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import DURATION
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import cell
from kohort.cli.terminal.wording import print_pattern, print_rebalance
from kohort.results.groups import GroupRebalances
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.insight.findings.model import RebalanceFinding

HELP = """Explain the last rebalance of GROUP: cause, evidence, the member that delayed it, moved partitions.

A kohort broker keeps a journal of group events for seven days. On Apache Kafka the command reads what `kohort watch`
has seen, or else what the log still has. For a group of KIP-848 it also shows the members that have not revoked yet,
and how long partitions had no owner. Several rebalances begin with their pattern: a deploy, a crash loop, a storm.

\b
Examples:
  kohort group why my-group
  kohort group why my-group --since 1h
  kohort group why my-group --last 0 --output json | jq '.rebalances[].cause'
"""


@click.command(help=HELP, short_help="Explain why a group rebalanced.")
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
