"""``kohort group describe``: partitions, members or state of a group, as Kafka's own tool shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kohort.cli.group.chosen import chosen_groups, is_one, modern_note, raise_last, several_groups
from kohort.cli.group.describe_tables import members_table, offsets_table, state_table
from kohort.cli.group.member_reports import MemberReports
from kohort.cli.groups.sampling import is_missing
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.options import ADMIN_MS
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import print_prose, print_table
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.results.groups import GroupDescribed, GroupsDescribed
from kohort.verbs.client_reports import BACK_MS, read_reports
from kohort.verbs.describing import described
from kohort.verbs.groups import describe, no_such_group, states_of, unowned

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription

DESCRIBE_HELP = """Show the partitions of each GROUP: what it has committed, how far behind it is, who reads what.

The columns are those of Kafka's own tool, with --verbose too; what is ours stands after them. CURRENT-OFFSET is the
next record to read. LAG below 0 is a commit beyond the end of the log.

Of a group whose coordinator assigns (KIP-848) --members shows what each member is still to give up and to get
(orders:0-3 is four partitions), --state the epochs of the group and of its target; --members --verbose has all of it.

\b
Examples:
  kohort group describe my-group
  kohort group describe my-group --members --verbose
  kohort group describe my-group --members --client-metrics
  kohort group describe my-group --output json | jq .lag
  kohort group describe --all-groups --output ndjson | jq -c '[.group, .lag]'
"""
TABLES = {"offsets": offsets_table, "members": members_table, "state": state_table}


@click.command("describe", help=DESCRIBE_HELP, short_help="Show partitions, lag and members.")
@several_groups
@click.option("--offsets", "view", flag_value="offsets", default=True, help="Partitions and lag (the default).")
@click.option("--members", "view", flag_value="members", help="Members and what each reads.")
@click.option("--state", "view", flag_value="state", help="State, coordinator and assignor.")
@click.option("--client-metrics", is_flag=True, help="With --members: what their clients pushed last (KIP-714).")
@click.option("--verbose", is_flag=True, help="More columns: epochs, and what each member is to have.")
@cluster_options
@output_of(GroupDescribed)
def describe_group(cluster: ClusterAccess, output: str, view: str, verbose: bool, **given: Any) -> None:
    if given["client_metrics"] and view != "members" and output == "table":
        raise click.UsageError("--client-metrics goes with --members")
    left_out: list[KohortError] = []
    with cluster.admin() as admin:
        names = chosen_groups(admin, (*given["names"], *given["more"]), every=given["all_groups"])
        if is_one(given):
            descriptions = [describe(admin, names[0])]
        else:
            descriptions, left_out = _described_of(admin, names)
        found = states_of(admin, descriptions)
        left = unowned(admin, descriptions)
        said = MemberReports(
            (read_reports(cluster.consumer, admin, BACK_MS) if given["client_metrics"] else None) or ()
        )
    if output != "table":
        results = [described(one, left[one.description.group_id], said.of) for one in found]
        print_result(results[0] if is_one(given) else GroupsDescribed(groups=results), output)
    else:
        for number, one in enumerate(found):
            if number:
                click.echo()
            _say_note(one.description, left[one.description.group_id])
            table = TABLES[view](one, verbose=verbose)
            about = one.description
            print_table(*(said.beside(table, about.group_id, about.members) if given["client_metrics"] else table))
    raise_last(left_out)


def _described_of(admin: Admin, names: list[str]) -> tuple[list[GroupDescription], list[KohortError]]:
    """Return the groups that could be described, and why the others could not."""
    told = admin.describe_groups(names, timeout_ms=ADMIN_MS)
    errors = [no_such_group(admin, name) if is_missing(error) else error for name, error in told.errors.items()]
    return [told[name] for name in names if name not in told.errors], errors


def _say_note(about: GroupDescription, left: list[TopicPartition]) -> None:
    """Say on stderr what the table does not show: that it rebalances, that nobody is there."""
    if about.state in ("PreparingRebalance", "CompletingRebalance"):
        print_prose(f"group {about.group_id!r} is rebalancing", err=True)
    elif note := modern_note(about):
        print_prose(note, err=True)
    elif not about.members:
        print_prose(f"group {about.group_id!r} has no active members", err=True)
    elif left:
        print_prose(unowned_note(about, left), err=True)


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
