"""``kohort group``: the command group with its subcommands, and the subcommand ``delete``."""

from __future__ import annotations

from typing import Any

import click

from kohort.cli.group.changes import clone, delete_offsets, remove_member, reset_offsets
from kohort.cli.group.chosen import chosen_groups, several_groups
from kohort.cli.group.describe import describe_group
from kohort.cli.group.events import events, fenced, why
from kohort.cli.group.peek import peek
from kohort.cli.group.timeline import timeline
from kohort.cli.group.wait import wait
from kohort.cli.group.what_if import what_if
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.options import ADMIN_MS, confirm, yes_option
from kohort.cli.terminal.output import output_of, raise_last, report_lines
from kohort.errors import KohortError
from kohort.results.groups import GroupsDeleted
from kohort.verbs.groups import check_inactive, describe
from kohort.verbs.refusals import NothingThere, RefusedByState


@click.group(short_help="Describe, explain or delete a group, or reset its offsets.")
def group() -> None:
    """Describe, explain or delete a group, or reset its offsets.

    Groups may use the classic or the consumer protocol.
    """


@group.command(short_help="Delete groups without members, and their offsets.")
@several_groups
@yes_option
@cluster_options
@output_of(GroupsDeleted)
def delete(yes: bool, cluster: ClusterAccess, output: str, **given: Any) -> None:
    """Delete groups without members, and their committed offsets.

    If any named GROUP has members, no group is deleted. --all-groups skips groups with members.

    \b
    Examples:
      kohort group delete old-group
      kohort group delete old-group older-group --yes
    """
    refused: list[KohortError] = []
    with cluster.admin() as admin:
        deletable = []
        for group_id in chosen_groups(admin, (*given["names"], *given["more"]), every=given["all_groups"]):
            try:
                check_inactive(describe(admin, group_id), "deleted")
                deletable.append(group_id)
            except RefusedByState as error:
                if not given["all_groups"]:
                    raise
                refused.append(error)
        if not deletable:
            raise_last(refused, "kohort group")
            raise NothingThere("the cluster has no group to delete")
        confirm(f"Delete {', '.join(deletable)} with all committed offsets?", yes=yes)
        results = admin.delete_groups(deletable, check=False, timeout_ms=ADMIN_MS)
    deleted = [name for name in results if name not in results.errors]
    report_lines(output, GroupsDeleted(deleted=deleted), [f"deleted {name}" for name in deleted])
    raise_last([*refused, *results.errors.values()], "kohort group")


for command in (
    describe_group, why, timeline, events, fenced, peek, reset_offsets, delete_offsets, clone, remove_member, wait,
    what_if,
):  # fmt: skip
    group.add_command(command)
