"""``kohort groups``: every consumer group with its state and its lag."""

from __future__ import annotations

import click

from kohort.cli.cluster import ClusterAccess, cluster_options
from kohort.cli.group_state import GroupState, states_of
from kohort.cli.options import ADMIN_MS, output_option
from kohort.cli.show import print_json, print_table

HELP = """List the consumer groups, the one furthest behind first.

LAG is how many records the group has yet to read, over all partitions that it has committed.

\b
Examples:
  kohort groups
  kohort groups --state stable --state empty
  kohort groups --output json | jq '.groups[] | select(.lag > 1000) | .group'
"""


@click.command(help=HELP, short_help="List the consumer groups, the one furthest behind first.")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only groups in this state; may be repeated.")
@cluster_options
@output_option
def groups(states: tuple[str, ...], cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        wanted = {state.lower().replace("-", "") for state in states}
        listed = [g for g in admin.list_groups(timeout_ms=ADMIN_MS) if not wanted or g.state.lower() in wanted]
        described = admin.describe_groups([g.group_id for g in listed], timeout_ms=ADMIN_MS)
        found = states_of(admin, [described[g] for g in described if g not in described.errors])
        for error in described.errors.values():
            click.echo(f"kohort groups: {error}", err=True)
    found.sort(key=lambda g: (-(g.lag or 0), g.description.group_id))
    if output == "json":
        print_json("groups", {"groups": [summary(g) for g in found]})
    else:
        columns = ("GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG", "ASSIGNOR", "TYPE")
        print_table(columns, [tuple(summary(g).values())[:7] for g in found], none="no groups")


def summary(group: GroupState) -> dict[str, object]:
    """Return a group in a line."""
    about = group.description
    return {
        "group": about.group_id,
        "state": about.state,
        "members": len(about.members),
        "partitions": len(group.partitions),
        "lag": group.lag,
        "assignor": about.assignor,
        "group_type": about.group_type,
        "protocol_type": about.protocol_type,
        "coordinator_id": about.coordinator_id,
    }
