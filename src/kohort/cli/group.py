"""``kohort group``: one consumer group described, explained, moved or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.group_state import GroupState, check_inactive, describe, states_of, unowned
from kohort.cli.modern_group import modern_members_table, modern_note, modern_state_table
from kohort.cli.options import ADMIN_MS, confirm, output_option, yes_option
from kohort.cli.reset import reset
from kohort.cli.show import print_json, print_table
from kohort.cli.why import why
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client.admin.model import GroupDescription

group_argument = click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)


@click.group(short_help="Describe, explain, reset or delete a consumer group.")
def group() -> None:
    """Describe, explain, reset or delete a consumer group."""


DESCRIBE_HELP = """Show the partitions of GROUP: what it has committed, how far behind it is, who reads what.

The columns are those of Kafka's own tool. CURRENT-OFFSET is the next record to read.

Of a group whose coordinator assigns (KIP-848) --state shows the epochs of the group and of its target, --members the
epoch of each member, its protocol, what it has (orders:0-3 is four partitions; what it is to give up included), and
what it is still to give up and to get.

\b
Examples:
  kohort group describe my-group
  kohort group describe my-group --members
  kohort group describe my-group --output json | jq .lag
"""


@group.command("describe", help=DESCRIBE_HELP, short_help="Show partitions, lag and members.")
@group_argument
@click.option("--offsets", "view", flag_value="offsets", default=True, help="Partitions and lag (the default).")
@click.option("--members", "view", flag_value="members", help="Members and what each reads.")
@click.option("--state", "view", flag_value="state", help="State, coordinator and assignor.")
@cluster_options
@output_option
def describe_group(group_id: str, view: str, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        (found,) = states_of(admin, [describe(admin, group_id)])
        left = unowned(admin, found.description)
    if output == "json":
        print_json("group.describe", {**found.as_json(), "unowned": [str(tp) for tp in left]})
        return
    if found.description.state in ("PreparingRebalance", "CompletingRebalance"):
        click.echo(f"group {group_id!r} is rebalancing", err=True)
    elif note := modern_note(found.description):
        click.echo(note, err=True)
    elif not found.description.members:
        click.echo(f"group {group_id!r} has no active members", err=True)
    elif left:
        click.echo(unowned_note(found.description, left), err=True)
    views = MODERN_VIEWS if found.description.group_type == "consumer" else VIEWS
    print_table(*views[view](found))


def unowned_note(about: GroupDescription, partitions: list[TopicPartition]) -> str:
    """That nobody reads some of what the group subscribes to, how that comes about, and what ends it."""
    names = ", ".join(str(tp) for tp in partitions[:5]) + (" and more" if len(partitions) > 5 else "")
    count = len(partitions)
    what = (
        f"{count} partition{'s' * (count > 1)} of {about.group_id!r} "
        f"{'are' if count > 1 else 'is'} read by no member: {names}. "
    )
    if about.group_type == "consumer":
        return what + "The coordinator has yet to see that its topics grew"
    return (
        what
        + "Either the assignor left out what it names, or a static member came back in the middle of a cooperative "
        "rebalance: the next rebalance of the group gives that out again"
    )


def offsets_table(found: GroupState) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    columns = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    rows: list[tuple[object, ...]] = []
    for p in found.partitions:
        owner = (p.member.member_id, p.member.client_host, p.member.client_id) if p.member else (None, None, None)
        at = (found.description.group_id, p.partition.topic, p.partition.partition)
        rows.append((*at, p.committed, p.log_end_offset, p.lag, *owner))
    return columns, rows


def members_table(found: GroupState) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    columns = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "LAG", "ASSIGNMENT")
    about = found.description
    return columns, [
        (
            about.group_id,
            m.member_id,
            m.group_instance_id,
            m.client_host,
            m.client_id,
            len(m.assignment),
            found.lag_of(m),
            [str(tp) for tp in sorted(m.assignment)],
        )
        for m in about.members
    ]


def state_table(found: GroupState) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    columns = ("GROUP", "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "LAG")
    about = found.description
    row = (about.group_id, about.coordinator_id, about.assignor, about.state, len(about.members), found.lag)
    return columns, [row]


VIEWS = {"offsets": offsets_table, "members": members_table, "state": state_table}
MODERN_VIEWS = {"offsets": offsets_table, "members": modern_members_table, "state": modern_state_table}


@group.command(short_help="Delete groups without members, and their offsets.")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups)
@yes_option
@cluster_options
@output_option
def delete(group_ids: tuple[str, ...], yes: bool, cluster: ClusterAccess, output: str) -> None:
    """Delete groups that have no members, with all that they have committed.

    \b
    Examples:
      kohort group delete old-group
      kohort group delete old-group older-group --yes
    """
    wanted = list(dict.fromkeys(group_ids))
    with cluster.admin() as admin:
        for group_id in wanted:
            check_inactive(describe(admin, group_id), "deleted")
        confirm(f"Delete {', '.join(wanted)} with all committed offsets?", yes=yes)
        results = admin.delete_groups(wanted, check=False, timeout_ms=ADMIN_MS)
    deleted = [name for name in results if name not in results.errors]
    if output == "json":
        print_json("group.delete", {"deleted": deleted})
    else:
        for name in deleted:
            click.echo(f"deleted {name}")
    results.check()


group.add_command(why)
group.add_command(reset)
