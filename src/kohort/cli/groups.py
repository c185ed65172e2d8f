"""``kohort groups``: every consumer group with its health and its lag, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options
from kohort.cli.exits import exit_code_of
from kohort.cli.lag_words import eta_text, lag_time_text, last_rebalance_text
from kohort.cli.looking import GroupsSeen, Looks, look_at_all, look_options, tell_unseen
from kohort.cli.output import output_of, print_result
from kohort.cli.show import print_table
from kohort.results.lag import GroupsListed
from kohort.verbs.group_rows import idle_of, row_of, worst_first

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

HELP = """List the consumer groups, the worst first.

LAG is how many records a group has yet to read, LAG-TIME for how long the next of them has waited, by its time stamp
in the log. ETA is when all will be read if it goes on so. HEALTH is OK, WARN (the lag grows), STALL (an owner commits
no progress), STOP (nobody reads), REWIND (an offset went back), REBALANCING or STORM; - is what one look cannot tell:
give --watch-for 20s. REBALANCES-1H and LAST-REBALANCE are from the journal of a kohort broker or of kohort watch, and
tell of the last hour. The exit code is not 0 where a group, or a part of one, could not be seen.

\b
Examples:
  kohort groups
  kohort groups --state stable --state empty
  kohort groups --watch-for 20s
  kohort groups --output json | jq '.groups[] | select(.lag > 1000) | .group'
"""
COLUMNS = ("HEALTH", "GROUP", "STATE", "MEMBERS", "LAG", "LAG-TIME", "ETA", "REBALANCES-1H", "LAST-REBALANCE")


@click.command(help=HELP, short_help="List the consumer groups, the worst first.")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only groups in this state; may be repeated.")
@look_options
@cluster_options
@output_of(GroupsListed)
def groups(states: tuple[str, ...], looks: Looks, cluster: ClusterAccess, output: str) -> None:
    wanted = {state.lower().replace("-", "") for state in states}
    seen = look_at_all(cluster, looks, lambda g: not wanted or g.state.lower() in wanted)
    unseen = tell_unseen(seen, "kohort groups")
    found = worst_first(seen.groups)
    if output != "table":
        print_result(GroupsListed(groups=[row_of(g) for g in found]), output)
    else:
        print_table(COLUMNS, [cells_of(g) for g in found], none="no group is visible here")
        print_notes(seen, looks)
    if unseen is not None:
        click.get_current_context().exit(exit_code_of(unseen))


def cells_of(found: GroupFinding) -> tuple[object, ...]:
    """Return a group in a line, as people read it."""
    idle = idle_of(found)
    members = len(found.members)
    return (
        found.health,
        found.group,
        found.state,
        f"{members} ({idle} idle)" if idle else members,
        found.lag,
        lag_time_text(found.lag, found.lag_ms, complete=found.lag_ms_complete),
        eta_text(found.draining, found.eta_ms),
        found.rebalances_1h,
        last_rebalance_text(found),
    )


def print_notes(seen: GroupsSeen, looks: Looks) -> None:
    """Say on stderr what is missing from the table, and how it is had."""
    if seen.times_left_out and looks.append_times is None:
        text = "LAG-TIME is left out, since there are so many groups: --append-times 5000 asks the log at the worst"
        click.echo(text, err=True)
    elif seen.not_looked_into and not seen.times_left_out:
        behind = seen.not_looked_into
        click.echo(f"at {behind} offsets the log did not say since when records wait: LAG-TIME with ≥", err=True)
    if not looks.watch_ms and any(g.health is None for g in seen.groups):
        click.echo("HEALTH - is what one look cannot tell: --watch-for 20s looks several times", err=True)
