"""``kohort group``: one consumer group described, explained, moved or deleted."""

from __future__ import annotations

from typing import Any

import click

from kohort.cli.group.changes import clone, delete_offsets, remove_member, reset_offsets
from kohort.cli.group.chosen import chosen_groups, raise_last, several_groups
from kohort.cli.group.describe import describe_group
from kohort.cli.group.events import events, fenced
from kohort.cli.group.peek import peek
from kohort.cli.group.timeline import timeline
from kohort.cli.group.wait import wait
from kohort.cli.group.what_if import what_if
from kohort.cli.group.why import why
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.options import ADMIN_MS, confirm, yes_option
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import KohortError
from kohort.notes import printable
from kohort.results.groups import GroupsDeleted
from kohort.verbs.groups import check_inactive, describe
from kohort.verbs.refusals import NothingThere, RefusedByState


@click.group(short_help="Describe, explain, reset or delete a consumer group.")
def group() -> None:
    """Describe, explain, reset or delete a consumer group."""


@group.command(short_help="Delete groups without members, and their offsets.")
@several_groups
@yes_option
@cluster_options
@output_of(GroupsDeleted)
def delete(yes: bool, cluster: ClusterAccess, output: str, **given: Any) -> None:
    """Delete groups that have no members, with all that they have committed.

    Where one of those named has members nothing is deleted; of --all-groups those that have some stay.

    \b
    Examples:
      kohort group delete old-group
      kohort group delete old-group older-group --yes
    """
    refused: list[KohortError] = []
    with cluster.admin() as admin:
        wanted = []
        for group_id in chosen_groups(admin, (*given["names"], *given["more"]), every=given["all_groups"]):
            try:
                check_inactive(describe(admin, group_id), "deleted")
                wanted.append(group_id)
            except RefusedByState as error:
                if not given["all_groups"]:
                    raise
                refused.append(error)
        if not wanted:
            raise_last(refused)
            raise NothingThere("there is no group to delete")
        confirm(f"Delete {', '.join(wanted)} with all committed offsets?", yes=yes)
        results = admin.delete_groups(wanted, check=False, timeout_ms=ADMIN_MS)
    deleted = [name for name in results if name not in results.errors]
    if output != "table":
        print_result(GroupsDeleted(deleted=deleted), output)
    else:
        for name in deleted:
            click.echo(printable(f"deleted {name}"))
    raise_last([*refused, *results.errors.values()])


group.add_command(describe_group)
group.add_command(why)
group.add_command(timeline)
group.add_command(events)
group.add_command(fenced)
group.add_command(peek)
group.add_command(reset_offsets)
group.add_command(delete_offsets)
group.add_command(clone)
group.add_command(remove_member)
group.add_command(wait)
group.add_command(what_if)
