"""``kohort group why``: what the rebalances of a group were about, from the journal that the broker keeps."""

from __future__ import annotations

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.exits import NothingThere
from kohort.cli.journal import read_journal
from kohort.cli.output import output_of, print_result
from kohort.cli.results.groups import GroupRebalances
from kohort.cli.show import cell
from kohort.cli.why_story import print_rebalance

HELP = """Say why GROUP rebalanced: what happened, on what evidence, who was waited for, which partitions moved.

The kohort broker writes a journal of what happens to groups, kept for seven days; this reads it. Apache Kafka keeps
none. Of a group whose coordinator assigns (group.protocol=consumer) it tells who has not yet given up what, and how
long each partition had no owner. A static member that was replaced without a rebalance is told, too, where it lies
between those shown.

\b
Examples:
  kohort group why my-group
  kohort group why my-group --last 5
  kohort group why my-group --last 0 --output json | jq '.rebalances[].cause'
"""


@click.command(help=HELP, short_help="Say why a group rebalanced.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--last", type=click.IntRange(min=0), default=1, show_default=True, help="How many; 0 for all.")
@cluster_options
@output_of(GroupRebalances)
def why(group_id: str, last: int, cluster: ClusterAccess, output: str) -> None:
    from kohort.insight.findings.rebalances import find_rebalances

    entries = read_journal(cluster, group_id)
    found = find_rebalances(entries)
    if not found:
        heard = f"{len(entries)} entries but no" if entries else "no"
        raise NothingThere(f"the journal of {cluster.address} has {heard} rebalance of group {group_id!r}")
    rebalances = [this for this in found if this.end != "no_rebalance"]
    since_ms = rebalances[-last].opened_at_ms if 0 < last <= len(rebalances) else 0
    shown = [this for this in found if this.opened_at_ms >= since_ms]
    if output != "table":
        print_result(GroupRebalances(group=group_id, known=len(rebalances), rebalances=shown), output)
        return
    known = len(rebalances)
    click.echo(f"{known} rebalance{'s' * (known != 1)} of {cell(group_id)} in the journal", err=True)
    for i, this in enumerate(shown):
        if i:
            click.echo()
        print_rebalance(this)
