"""``kohort group reset-offsets``, ``delete-offsets``, ``clone``, ``remove-member``: change offsets and members."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from kohort.cli.group.chosen import chosen_groups, is_one, several_groups
from kohort.cli.terminal.cluster import (
    ClusterAccess,
    cluster_options,
    complete_groups,
    complete_members,
    complete_topics,
)
from kohort.cli.terminal.options import ADMIN_MS, Duration, confirm, with_options, yes_option
from kohort.cli.terminal.output import output_of, print_result, raise_last, report_lines
from kohort.cli.terminal.show import cell, harmless, print_prose, print_table
from kohort.cli.terminal.wording import in_ranges
from kohort.errors import KohortError, UsageError
from kohort.results.groups import MembersRemoved, OffsetsDeleted, OffsetsReset, RefusedGroup
from kohort.verbs.groups import describe, find_members, names_of_members, remove_members, removed_rows
from kohort.verbs.offsets import (
    Moved,
    OffsetTarget,
    clone_offsets,
    committed_of,
    committed_offsets,
    deleted_rows,
    export_text,
    move,
    moved_rows,
    parse_time,
    read_plan,
)
from kohort.verbs.refusals import NothingThere

HELP = """Reset the committed offsets of GROUP. Without --execute, only show the new offsets.

The options are those of kafka-consumer-groups, but --topic and --all-topics are optional. --execute does not change
groups with members: it resets the other groups and exits with 5. SKIPPED is the number of offsets that the group will
not read. READ-AGAIN is the number of offsets that the group will read again.

\b
Examples:
  kohort group reset-offsets my-group --to-earliest --execute
  kohort group reset-offsets my-group --topic orders:0,3 --shift-by -100
  kohort group reset-offsets my-group --to-datetime 2026-11-20T08:00:00
  kohort group reset-offsets my-group --to-current --export > offsets.csv
  kohort group reset-offsets my-group --from-file offsets.csv --execute
"""
TARGETS: Final = (
    "to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"
)  # fmt: skip
TARGET_OPTIONS: Final = (
    click.option("--to-earliest", is_flag=True, help="Reset to the log start."),
    click.option("--to-latest", is_flag=True, help="Reset to the log end."),
    click.option(
        "--to-current",
        is_flag=True,
        help="Keep committed offsets. With --topic, partitions without a committed offset get the log end.",
    ),
    click.option("--to-offset", metavar="N", type=click.IntRange(min=0, max=2**63 - 1), help="Reset to this offset."),
    click.option("--shift-by", metavar="N", type=int, help="Add N to each committed offset. N may be negative."),
    click.option("--to-datetime", metavar="TIME", help="Reset to the first record at or after TIME (ISO 8601, UTC)."),
    click.option(
        "--by-duration",
        type=Duration(least_ms=0),
        metavar="DURATION",
        help="Reset to the first record that is younger than DURATION (P1DT2H or 90m).",
    ),
    click.option(
        "--from-file",
        type=click.File(encoding="utf-8"),
        metavar="CSV",
        help="Reset to the offsets in a file that --export printed.",
    ),
)


def topics_option(*, required: bool) -> Callable[[Any], Any]:
    return click.option(
        "--topic", "topics", metavar="TOPIC[:P,P]", multiple=True, required=required, shell_complete=complete_topics,
        help="Topic or partitions to select, such as orders:0,3; repeatable.",
    )  # fmt: skip


@click.command("reset-offsets", help=HELP, short_help="Reset committed offsets of groups.")
@several_groups
@topics_option(required=False)
@click.option("--all-topics", is_flag=True, help="Select all topics with committed offsets (the default).")
@with_options(*TARGET_OPTIONS)
@click.option("--dry-run", is_flag=True, help="Only show the new offsets (the default).")
@click.option("--execute", is_flag=True, help="Commit the new offsets.")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV, for --from-file.")
@cluster_options
@output_of(OffsetsReset)
def reset_offsets(cluster: ClusterAccess, output: str, execute: bool, export: bool, **given: Any) -> None:
    one_group = is_one(given)
    way = way_of(given, one_group=one_group)
    if execute and given["dry_run"]:
        raise click.UsageError("--dry-run and --execute exclude each other")
    if given["topics"] and (given["all_topics"] or way.name == "from-file"):
        raise click.UsageError("--topic, --all-topics and --from-file exclude each other")
    moved: dict[str, Moved] = {}
    refused: dict[str, KohortError] = {}
    with cluster.admin() as admin:
        for group_id in chosen_groups(admin, (*given["names"], *given["more"]), every=given["all_groups"]):
            try:
                moved[group_id] = move(admin, group_id, given["topics"], way, execute=execute)
            except KohortError as error:
                if one_group:
                    raise
                refused[group_id] = error
    if export:
        click.echo(export_text({g: m.after for g, m in moved.items()}, one_group=one_group), nl=False)
    else:
        show(moved, refused, output, execute=execute)
    if not execute:
        for group_id, each in moved.items():
            print_prose(f"no offset is changed yet: {next_step(group_id, each)}", err=True)
    failed = [error for each in moved.values() for error in each.failed.values()]
    raise_last([*refused.values(), *failed], "kohort group")


def way_of(given: Mapping[str, Any], *, one_group: bool) -> OffsetTarget:
    values = {name: given[name.replace("-", "_")] for name in TARGETS}
    chosen = [name for name, value in values.items() if value is not None and value is not False]
    if len(chosen) != 1:
        raise click.UsageError(f"expected exactly one of {', '.join(f'--{name}' for name in TARGETS)}")
    name, value = chosen[0], values[chosen[0]]
    if name == "to-datetime":
        return OffsetTarget(name, parse_time(value))
    if name == "by-duration":
        return OffsetTarget(name, max(0, int(time.time() * 1000) - value))
    if name == "from-file":
        try:
            return OffsetTarget(name, plan=read_plan(value.read(), one_group=one_group))
        except UnicodeDecodeError:
            raise click.BadParameter(f"{value.name} is not UTF-8", param_hint="--from-file") from None
        except UsageError as error:
            raise click.BadParameter(str(error), param_hint="--from-file") from None
    return OffsetTarget(name, 0 if value is True else value)


def show(moved: Mapping[str, Moved], refused: Mapping[str, KohortError], output: str, *, execute: bool) -> None:
    for group_id, each in moved.items():
        for missing in each.missing:
            text = f"group {group_id!r}: partition {missing} does not exist; its committed offset is unchanged"
            click.echo(harmless(text), err=True)
    rows = moved_rows(moved)
    if output != "table":
        groups = [RefusedGroup(group=group_id, reason=str(error)) for group_id, error in refused.items()]
        print_result(OffsetsReset(executed=execute, partitions=rows, refused=groups), output)
        return
    columns = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "PRIOR-OFFSET", "SKIPPED", "READ-AGAIN")
    failed = [r for r in rows if r.error is not None]
    rows = [r for r in rows if r.error is None]
    cells = [(r.group, r.topic, r.partition, r.new_offset, r.prior_offset, r.skipped, r.read_again) for r in rows]
    print_table(columns, cells)
    for row in failed:
        at = "without an offset" if row.prior_offset is None else f"at {row.prior_offset}"
        click.echo(harmless(f"group {row.group!r} stays {at} in {row.topic}-{row.partition}: {row.error}"), err=True)
    skipped, again = sum(r.skipped or 0 for r in rows), sum(r.read_again or 0 for r in rows)
    click.echo(f"{skipped:,} offsets skipped, {again:,} to be read again", err=True)


def next_step(group_id: str, moved: Moved) -> str:
    if moved.about is None:
        return f"group {group_id!r} does not exist; --execute creates it"
    if not moved.about.members:
        return "add --execute"
    return f"first stop the members ({names_of_members(moved.about)}), then add --execute"


DELETE_HELP = """Delete the committed offsets of GROUP for topics or partitions. The topics may be deleted already.

While the group has members, the offsets of subscribed topics cannot be deleted.

\b
Examples:
  kohort group delete-offsets my-group --topic old-orders
  kohort group delete-offsets my-group --topic orders:4,5 --yes
"""


@click.command("delete-offsets", help=DELETE_HELP, short_help="Delete committed offsets of topics.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@topics_option(required=True)
@yes_option
@cluster_options
@output_of(OffsetsDeleted)
def delete_offsets(group_id: str, topics: tuple[str, ...], yes: bool, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        describe(admin, group_id)
        committed = committed_offsets(admin, group_id)
        chosen = committed_of(committed, topics)
        if not chosen:
            raise NothingThere(f"group {group_id!r} has no committed offset for {', '.join(topics)}")
        confirm(f"Delete the committed offsets of {cell(group_id)} for {cell(in_ranges(chosen))}?", yes=yes)
        results = admin.delete_group_offsets(group_id, chosen, check=False, timeout_ms=ADMIN_MS)
    deleted = [tp for tp in chosen if tp not in results.errors]
    lines = [f"{tp}: deleted offset {committed[tp]}" for tp in deleted]
    report_lines(output, OffsetsDeleted(group=group_id, deleted=deleted_rows(deleted, committed)), lines)
    results.check()


CLONE_HELP = """Copy the committed offsets of group FROM to group TO. Without --execute, only show the new offsets.

TO must have no members; it is created if it does not exist. TO keeps its committed offsets for other partitions.

\b
Examples:
  kohort group clone orders orders-rehearsal --execute
"""


@click.command(help=CLONE_HELP, short_help="Copy committed offsets to another group.")
@click.argument("source", metavar="FROM", shell_complete=complete_groups)
@click.argument("target", metavar="TO", shell_complete=complete_groups)
@click.option("--execute", is_flag=True, help="Commit the new offsets. Without it, the command only shows them.")
@cluster_options
@output_of(OffsetsReset)
def clone(source: str, target: str, execute: bool, cluster: ClusterAccess, output: str) -> None:
    if source == target:
        raise click.UsageError("FROM and TO are the same group")
    with cluster.admin() as admin:
        moved = clone_offsets(admin, source, target, execute=execute)
    show({target: moved}, {}, output, execute=execute)
    if not execute:
        print_prose(f"no offset is changed yet: {next_step(target, moved)}", err=True)
    raise_last(list(moved.failed.values()), "kohort group")


REMOVE_HELP = """Remove members from GROUP. MEMBER is a member id or an instance id; --all removes all members.

The group rebalances without the removed members. A removed member joins again if its process still runs. Remove a
static member that has stopped: otherwise its partitions stay unread until its session times out.

\b
Examples:
  kohort group remove-member my-group billing-3 --reason "host is down"
  kohort group remove-member my-group --all --yes
"""


@click.command("remove-member", help=REMOVE_HELP, short_help="Remove members from a group.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.argument("names", metavar="[MEMBER]...", nargs=-1, shell_complete=complete_members)
@click.option("--all", "remove_all", is_flag=True, help="Remove all members of the group.")
@click.option("--reason", default="", help="Reason to write to the broker's log and journal.")
@yes_option
@cluster_options
@output_of(MembersRemoved)
def remove_member(
    group_id: str, names: tuple[str, ...], remove_all: bool, reason: str, yes: bool, cluster: ClusterAccess, output: str
) -> None:
    if bool(names) == remove_all:
        raise click.UsageError("expected either MEMBER or --all")
    with cluster.admin() as admin:
        about = describe(admin, group_id)
        chosen = list(about.members) if remove_all else find_members(about, list(dict.fromkeys(names)))
        if not chosen:
            raise NothingThere(f"group {group_id!r} has no members")
        members = ", ".join(cell(f"{m.group_instance_id or m.member_id} at {m.client_host}") for m in chosen)
        confirm(f"Remove {members} from {cell(group_id)}?", yes=yes)
        removed, results = remove_members(admin, group_id, chosen, reason)
    lines = [f"removed {m.group_instance_id or m.member_id} of {m.client_id} at {m.client_host}" for m in removed]
    report_lines(output, MembersRemoved(group=group_id, removed=removed_rows(removed)), lines)
    results.check()
