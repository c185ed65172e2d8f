"""``kohort group remove-member``: take members out of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups, complete_members
from kohort.cli.exits import NothingThere
from kohort.cli.group_state import describe
from kohort.cli.options import ADMIN_MS, confirm, yes_option
from kohort.cli.output import output_of, print_result
from kohort.cli.results.groups import MembersRemoved, RemovedMember
from kohort.cli.show import cell, harmless
from kohort.nearest import did_you_mean

if TYPE_CHECKING:
    from kohort.client.admin.model import GroupDescription, MemberDescription

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
        static = [m.group_instance_id for m in chosen if m.group_instance_id is not None]
        dynamic = [m.member_id for m in chosen if m.group_instance_id is None]
        results = admin.remove_group_members(
            group_id, dynamic, instance_ids=static, reason=reason, check=False, timeout_ms=ADMIN_MS
        )
    gone = [m for m in chosen if (m.group_instance_id or m.member_id) not in results.errors]
    if output != "table":
        rows = [
            RemovedMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                client_id=m.client_id,
                host=m.client_host,
                assignment=[str(tp) for tp in sorted(m.assignment)],
            )
            for m in gone
        ]
        print_result(MembersRemoved(group=group_id, removed=rows), output)
    else:
        for m in gone:
            click.echo(harmless(f"removed {m.group_instance_id or m.member_id} of {m.client_id} at {m.client_host}"))
    results.check()


def members_named(about: GroupDescription, names: Sequence[str]) -> list[MemberDescription]:
    """Return the members of these ids or instance ids. Raises NothingThere for a name that no member has."""
    by_id = {m.member_id: m for m in about.members}
    by_instance = {m.group_instance_id: m for m in about.members if m.group_instance_id is not None}
    known = {**by_id, **by_instance}
    for name in names:
        if name not in known:
            near = did_you_mean(name, [*by_instance, *by_id])
            raise NothingThere(f"group {about.group_id!r} has no member {name!r}{near}")
    return list({known[name].member_id: known[name] for name in names}.values())
