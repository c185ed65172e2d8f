"""``kohort group remove-member``: take members out of a group."""

from __future__ import annotations

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups, complete_members
from kohort.cli.options import confirm, yes_option
from kohort.cli.output import output_of, print_result
from kohort.cli.show import cell, harmless
from kohort.results.groups import MembersRemoved
from kohort.verbs.group_state import describe
from kohort.verbs.leaving import members_named, remove_members, removed_rows
from kohort.verbs.refusals import NothingThere

REMOVE_HELP = """Take members out of GROUP: by member id or by instance id, or all of them (--all).

The group rebalances. A member that still runs comes back by itself; this is for one whose process is gone, a static
one above all, which the group would wait for until its session ends.

\b
Examples:
  kohort group remove-member my-group billing-3
  kohort group remove-member my-group billing-3 --reason "host is gone" --yes
  kohort group remove-member my-group --all
"""


@click.command("remove-member", help=REMOVE_HELP, short_help="Take members out of a group.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.argument("names", metavar="[MEMBER]...", nargs=-1, shell_complete=complete_members)
@click.option("--all", "everybody", is_flag=True, help="All members.")
@click.option("--reason", default="", help="Why; it goes to the broker's log, and to its journal.")
@yes_option
@cluster_options
@output_of(MembersRemoved)
def remove_member(
    group_id: str,
    names: tuple[str, ...],
    everybody: bool,
    reason: str,
    yes: bool,
    cluster: ClusterAccess,
    output: str,
) -> None:
    if bool(names) == everybody:
        raise click.UsageError("say whom: MEMBER, or --all")
    with cluster.admin() as admin:
        about = describe(admin, group_id)
        chosen = list(about.members) if everybody else members_named(about, list(dict.fromkeys(names)))
        if not chosen:
            raise NothingThere(f"group {group_id!r} has no members")
        told = ", ".join(cell(f"{m.group_instance_id or m.member_id} at {m.client_host}") for m in chosen)
        confirm(f"Take {told} out of {cell(group_id)}?", yes=yes)
        gone, results = remove_members(admin, group_id, chosen, reason)
    if output != "table":
        print_result(MembersRemoved(group=group_id, removed=removed_rows(gone)), output)
    else:
        for m in gone:
            click.echo(harmless(f"removed {m.group_instance_id or m.member_id} of {m.client_id} at {m.client_host}"))
    results.check()
