"""``kohort nodes what-if``: what groups would do without a node. Nothing is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.looking import is_missing, missing
from kohort.cli.options import ADMIN_MS
from kohort.cli.output import output_of, print_result
from kohort.cli.show import print_prose, print_table
from kohort.results.what_if import NodeWhatIf
from kohort.verbs.losing import check_node, without_node

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.insight.snapshot import GroupSnapshot

HELP = """Say what groups would do if NODE went: who coordinates them then, who leads what they read. Nothing is
executed.

A group in the middle of a rebalance begins it anew; one that is stable goes on as it is. Partitions and groups without
another replica in sync are told.

\b
Examples:
  kohort nodes what-if 2
  kohort nodes what-if 2 --group my-group --output json | jq .loss.groups
"""


@click.command("what-if", help=HELP, short_help="Say what groups would do without a node.")
@click.argument("node", type=int)
@click.option("--group", "groups", multiple=True, help="Only this group.", shell_complete=complete_groups)
@cluster_options
@output_of(NodeWhatIf)
def what_if_node(node: int, groups: tuple[str, ...], cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        check_node(admin, node)
        result = without_node(admin, node, _look(admin, groups))
    if output != "table":
        print_result(result, output)
        return
    found = result.loss
    print_prose(f"{found.sentence}.   simulation; nothing is executed")
    for sentence in found.assumptions:
        print_prose(sentence, indent=" " * 9, first="assumed: ")
    click.echo()
    rows = [
        (one.group, one.state, one.members, one.next_coordinator, one.leaders_move, len(one.offline), one.sentence)
        for one in sorted(found.groups, key=lambda one: (not one.begins_anew, not one.coordinated, one.group))
    ]
    print_table(("GROUP", "STATE", "MEMBERS", "NEXT", "LEADERS", "OFFLINE", "WHAT"), rows, none="no groups")


def _look(admin: Admin, groups: tuple[str, ...]) -> list[GroupSnapshot]:
    from kohort.watch.sampling import READABLE, SamplingLimits, sample_groups

    listed = admin.list_groups(timeout_ms=ADMIN_MS)
    names = list(groups) or [g.group_id for g in listed if g.group_type.lower() in READABLE]
    sample = sample_groups(admin, names, SamplingLimits(append_times=0, timeout_ms=ADMIN_MS))
    for name, error in sample.errors.items():
        if groups:
            raise missing(admin, name) if is_missing(error) else error
        print_prose(f"group {name!r} is left out: {error}", err=True)
    return sample.groups
