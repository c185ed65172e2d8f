"""``kohort group reset``: move what a group has committed; shows what it would do unless told to do it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.exits import NothingThere
from kohort.cli.group_state import check_inactive, describe, ends_of, names_of_members, states_of
from kohort.cli.options import ADMIN_MS, output_option
from kohort.cli.show import print_json, print_prose, print_table
from kohort.errors import KohortError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription

HELP = """Move what GROUP has committed. Shows where it would go; with --execute it goes there.

The group must have no members when it is done: stop its consumers first. The plan is shown without that.

\b
Examples:
  kohort group reset my-group --to-earliest              what would happen
  kohort group reset my-group --to-earliest --execute
  kohort group reset my-group --topic orders --shift-by -100 --execute
  kohort group reset my-group --topic orders:0,3 --to-offset 1500 --execute
  kohort group reset my-group --to-datetime 2026-11-20T08:00:00 --execute
"""
Offsets = Mapping[TopicPartition, int]


@click.command(help=HELP, short_help="Move what a group has committed.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--topic", "topics", metavar="TOPIC[:P,P]", multiple=True, help="Only this topic, or these partitions.")
@click.option("--to-earliest", is_flag=True, help="To the first record there is.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option("--shift-by", type=int, help="Forward by so many records, or back.")
@click.option("--to-datetime", metavar="TIME", help="To the first record of this time (ISO 8601; UTC unless it says).")
@click.option("--execute", is_flag=True, help="Do it.")
@cluster_options
@output_option
def reset(
    group_id: str,
    topics: tuple[str, ...],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    execute: bool,
    cluster: ClusterAccess,
    output: str,
) -> None:
    ways: dict[str, Callable[[Admin, Offsets], dict[TopicPartition, int]]] = {}
    if to_earliest:
        ways["--to-earliest"] = lambda admin, now: ends_of(admin, now, "earliest")
    if to_latest:
        ways["--to-latest"] = lambda admin, now: ends_of(admin, now, "latest")
    if to_offset is not None:
        ways["--to-offset"] = lambda admin, now: within(admin, dict.fromkeys(now, to_offset))
    if shift_by is not None:
        ways["--shift-by"] = lambda admin, now: within(admin, {tp: at + shift_by for tp, at in now.items()})
    if to_datetime is not None:
        at_ms = parse_time(to_datetime)
        ways["--to-datetime"] = lambda admin, now: first_after(admin, now, at_ms)
    if len(ways) != 1:
        raise click.UsageError("say where to, once: --to-earliest, --to-latest, --to-offset, --shift-by, --to-datetime")
    (target,) = ways.values()
    with cluster.admin() as admin:
        found = describe(admin, group_id)
        if execute:
            check_inactive(found, "reset")
        (state,) = states_of(admin, [found])
        committed = {p.partition: p.committed for p in state.partitions if p.committed is not None}
        before = chosen(admin, topics, committed, group_id)
        after = target(admin, before)
        if execute:
            admin.alter_group_offsets(group_id, after, timeout_ms=ADMIN_MS)
    if output == "json":
        moves = [
            {"topic": tp.topic, "partition": tp.partition, "prior_offset": committed.get(tp), "new_offset": after[tp]}
            for tp in sorted(after)
        ]
        print_json("group.reset", {"group": group_id, "executed": execute, "partitions": moves})
    else:
        rows = [(group_id, tp.topic, tp.partition, committed.get(tp), after[tp]) for tp in sorted(after)]
        print_table(("GROUP", "TOPIC", "PARTITION", "PRIOR-OFFSET", "NEW-OFFSET"), rows)
    if not execute:
        print_prose(f"nothing is changed yet: {what_it_takes(found)}", err=True)


def what_it_takes(group: GroupDescription) -> str:
    """Return what is to be done so that the plan is carried out."""
    if not group.members:
        return "add --execute"
    return (
        f"stop the members ({names_of_members(group)}), since a group that has some cannot be reset; then add --execute"
    )


def parse_time(text: str) -> int:
    """Milliseconds of an ISO 8601 time; UTC where it names no zone."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time such as 2026-11-20T08:00:00", param_hint="--to-datetime"
        ) from None
    at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at
    return int(at.timestamp() * 1000)


def chosen(admin: Admin, topics: tuple[str, ...], committed: Offsets, group_id: str) -> dict[TopicPartition, int]:
    """Return the partitions to move, and where they stand: the committed ones, or those named, whether committed or
    not."""
    if not topics:
        if not committed:
            raise KohortError(f"group {group_id!r} has committed nothing: name a --topic")
        return dict(committed)
    wanted: dict[TopicPartition, int] = {}
    for text in topics:
        name, _, numbers = text.partition(":")
        count = len(admin.describe_topics([name], timeout_ms=ADMIN_MS)[name].partitions)
        for number in parse_numbers(text, numbers) or range(count):
            if number >= count:
                raise NothingThere(f"--topic {text}: {name} has {count} partitions, 0 to {count - 1}")
            wanted[TopicPartition(name, number)] = 0
    starts = ends_of(admin, wanted, "earliest")
    return {tp: committed.get(tp, starts[tp]) for tp in wanted}


def parse_numbers(text: str, numbers: str) -> list[int]:
    """``0,3`` as numbers."""
    if not numbers:
        return []
    if not all(n.isdecimal() for n in numbers.split(",")):
        raise click.BadParameter(f"{text!r}: expected TOPIC or TOPIC:0,3", param_hint="--topic")
    return [int(n) for n in numbers.split(",")]


def within(admin: Admin, targets: Offsets) -> dict[TopicPartition, int]:
    """Return the targets, moved to the nearest offset that exists."""
    starts, ends = ends_of(admin, targets, "earliest"), ends_of(admin, targets, "latest")
    return {tp: min(max(at, starts[tp]), ends[tp]) for tp, at in targets.items() if tp in ends}


def first_after(admin: Admin, partitions: Offsets, at_ms: int) -> dict[TopicPartition, int]:
    """Return the first record of that time or later; behind the last record where there is none."""
    found = admin.list_offsets(dict.fromkeys(partitions, at_ms), timeout_ms=ADMIN_MS).check()
    ends = ends_of(admin, partitions, "latest")
    return {tp: found[tp].offset if found[tp].offset >= 0 else ends[tp] for tp in partitions}
