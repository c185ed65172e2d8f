"""``kohort group delete-offsets`` and ``clone``: what a group has committed, forgotten or given to another."""

from __future__ import annotations

import click

from kohort.cli.chosen_groups import raise_last
from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups, complete_topics
from kohort.cli.modern_group import in_ranges
from kohort.cli.options import ADMIN_MS, confirm, yes_option
from kohort.cli.output import output_of, print_result
from kohort.cli.reset import show, what_it_takes
from kohort.cli.show import cell, harmless, print_prose
from kohort.results.groups import OffsetsDeleted, OffsetsReset
from kohort.verbs.cloning import clone_offsets
from kohort.verbs.group_state import describe
from kohort.verbs.leaving import committed_of, deleted_rows
from kohort.verbs.refusals import NothingThere

DELETE_HELP = """Forget what GROUP has committed for topics, or for partitions of them.

A group that works may lose the offsets of topics that it does not subscribe to. Topics that are gone count too.

\b
Examples:
  kohort group delete-offsets my-group --topic old-orders
  kohort group delete-offsets my-group --topic orders:4,5 --yes
"""


@click.command("delete-offsets", help=DELETE_HELP, short_help="Forget what a group has committed for topics.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P]",
    multiple=True,
    required=True,
    shell_complete=complete_topics,
    help="Of this topic, or of these partitions; may be repeated.",
)
@yes_option
@cluster_options
@output_of(OffsetsDeleted)
def delete_offsets(group_id: str, topics: tuple[str, ...], yes: bool, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        describe(admin, group_id)
        found = admin.list_group_offsets(group_id, timeout_ms=ADMIN_MS).check()
        committed = {tp: at.offset for tp in found if (at := found[tp]) is not None}
        wanted = committed_of(committed, topics)
        if not wanted:
            raise NothingThere(f"group {group_id!r} has committed nothing for {', '.join(topics)}")
        confirm(f"Forget what {cell(group_id)} has committed for {cell(in_ranges(wanted))}?", yes=yes)
        results = admin.delete_group_offsets(group_id, wanted, check=False, timeout_ms=ADMIN_MS)
    gone = [tp for tp in wanted if tp not in results.errors]
    if output != "table":
        print_result(OffsetsDeleted(group=group_id, deleted=deleted_rows(gone, committed)), output)
    else:
        for tp in gone:
            click.echo(harmless(f"{tp}: forgot {committed[tp]}"))
    results.check()


CLONE_HELP = """Give group TO what group FROM has committed. Shows it; with --execute it is done.

TO must have no members; it need not exist. What it has committed for other partitions stays.

\b
Examples:
  kohort group clone orders orders-rehearsal
  kohort group clone orders orders-rehearsal --execute
"""


@click.command(help=CLONE_HELP, short_help="Give a group what another has committed.")
@click.argument("source", metavar="FROM", shell_complete=complete_groups)
@click.argument("target", metavar="TO", shell_complete=complete_groups)
@click.option("--execute", is_flag=True, help="Do it.")
@cluster_options
@output_of(OffsetsReset)
def clone(source: str, target: str, execute: bool, cluster: ClusterAccess, output: str) -> None:
    if source == target:
        raise click.UsageError("FROM and TO are the same group")
    with cluster.admin() as admin:
        moved = clone_offsets(admin, source, target, execute=execute)
    show({target: moved}, {}, output, execute=execute)
    if not execute:
        print_prose(f"nothing is changed yet: {what_it_takes(target, moved)}", err=True)
    raise_last(list(moved.failed.values()))
