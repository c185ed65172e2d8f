"""``kohort group timeline``: draw a row for each member or partition, and a column for each generation."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

import click

from kohort.cli.group.events import entries_of_group, since_ms, since_option
from kohort.cli.groups.journal import store_option
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import cell, shortened, terminal_width, time_text
from kohort.cli.terminal.wording import in_ranges
from kohort.insight.findings.model import name_of_member
from kohort.insight.findings.timeline import ColumnFinding, LaneFinding, TimelineFinding, find_timeline
from kohort.insight.names import seconds
from kohort.results.groups import GroupTimeline
from kohort.verbs.describing import partitions_named

NAME_MAX: Final = 18
NARROWEST: Final = 12
WIDEST: Final = 28
LANES_SHOWN: Final = 60
LINE, SILENT, EDGE, FENCED, REMOVED, LEFT, REBALANCE, NONE = "─", "╌", "┊", "⚑", "✕", "←", "▼", "·"
ASCII: Final = str.maketrans(LINE + EDGE + FENCED + REMOVED + LEFT + REBALANCE + NONE + SILENT + "…", "-|!x<v..~")


class TextCell(NamedTuple):
    text: str = ""
    marks: str = ""
    through: bool = False
    """True if the member is still in the group at the end of this timeline column."""
    silent: tuple[tuple[float, float], ...] = ()
    """Start and end of each interval without heartbeats, as fractions of the column's width (0.0 to 1.0)."""


class TextLane(NamedTuple):
    name: str
    cells: tuple[TextCell, ...]


def draw_timeline(found: TimelineFinding, *, by: str, width: int, plain: bool = False) -> list[str]:
    """Draw the timeline of a group in lines of at most ``width`` characters. ``plain`` uses only ASCII characters."""
    topics = {name.rpartition("-")[0] for lane in found.lanes for s in lane.assignments for name in s.partitions}
    one_topic = len(topics) < 2
    lanes = _member_lanes(found, one_topic) if by == "member" else _partition_lanes(found)
    shown, left = lanes[:LANES_SHOWN], lanes[LANES_SHOWN:]
    names = min(NAME_MAX, max((len(lane.name) for lane in shown), default=0))
    heads = [_head(column) for column in found.columns]
    longest = max((len(one.text) + len(one.marks) + 2 for lane in shown for one in lane.cells), default=0)
    room = max(min(WIDEST, max(longest, *(len(head) for head in heads), NARROWEST)) if heads else NARROWEST, NARROWEST)
    room = min(room, max(NARROWEST, width - names - 4))
    per_block = max(1, (width - names - 1) // (room + 2))
    lines: list[str] = []
    for first in range(0, len(heads), per_block):
        part = range(first, min(first + per_block, len(heads)))
        if lines:
            lines.append("")
        lines.append((" " * (names + 1) + _row([heads[i].ljust(room) for i in part])).rstrip())
        for lane in shown:
            drawn = [_drawn(lane.cells[i], room) for i in part]
            if any(text.strip() for text in drawn):
                lines.append(f"{shortened(lane.name, names).ljust(names)} {_row(drawn)}".rstrip())
        lines += [shortened(text, width) for i in part if (text := _footnote(found.columns[i]))]
    if left:
        lines.append(shortened(f"... and {len(left)} more: --output json has them all", width))
    return [line.translate(ASCII) for line in lines] if plain else lines


def _row(cells: Sequence[str]) -> str:
    return f"{EDGE} ".join(cells)


def _head(column: ColumnFinding) -> str:
    word = "epoch" if column.protocol == "consumer" else "gen"
    number = "?" if column.generation is None else str(column.generation)
    return f"{word} {number}  {time_text(column.from_ms)[11:19]}"


def _footnote(column: ColumnFinding) -> str:
    if column.cause is None:
        return ""
    trigger = f" {cell(name_of_member(column.trigger))}" if column.trigger is not None else ""
    took = f"  {seconds(column.took_ms)}" if column.took_ms is not None else ""
    return f"{REBALANCE} {_head(column)}  {cell(column.cause)}{trigger}{took}"


def _drawn(one: TextCell, room: int) -> str:
    if not one.text and not one.marks:
        return " " * room
    tail = f" {one.marks}" if one.marks else ""
    shown = shortened(one.text, max(1, room - len(tail) - 1))
    body = f"{shown} " if shown else ""
    fill = _line(room - len(body) - len(tail), one.silent) if one.through else ""
    return f"{body}{fill}{tail}".ljust(room)[:room]


def _line(length: int, silent: Sequence[tuple[float, float]]) -> str:
    line = [LINE] * max(length, 0)
    for begin, end in silent if line else ():
        first = min(int(begin * length), length - 1)
        for i in range(first, min(max(ceil(end * length), first + 1), length)):
            line[i] = SILENT
    return "".join(line)


def _owned(lane: LaneFinding, column: ColumnFinding, until_ms: int) -> tuple[frozenset[str] | None, bool]:
    """Return a member's last assignment in the time of a column, and whether it is in the group when that time ends.

    The assignment is None if the client is not a member in this column.
    """
    end_ms = until_ms + 1 if column.until_ms is None else column.until_ms
    within = [s for s in lane.assignments if s.from_ms < end_ms and (s.until_ms is None or s.until_ms > column.from_ms)]
    if not within:
        return None, False
    last = within[-1]
    return frozenset(last.partitions), last.until_ms is None or last.until_ms >= end_ms


def _marks(lane: LaneFinding, column: ColumnFinding) -> str:
    signs = {"fenced": FENCED, "removed": REMOVED, "left": LEFT, "away": LEFT}
    return "".join(
        signs.get(mark.kind, "")
        for mark in lane.marks
        if mark.at_ms >= column.from_ms and (column.until_ms is None or mark.at_ms < column.until_ms)
    )[:5]


def _silent(lane: LaneFinding, column: ColumnFinding, now_ms: int) -> tuple[tuple[float, float], ...]:
    until_ms = now_ms if column.until_ms is None else column.until_ms
    lasted_ms = until_ms - column.from_ms
    spans = (
        (
            max(s.from_ms - column.from_ms, 0),
            min(until_ms if s.until_ms is None else s.until_ms, until_ms) - column.from_ms,
        )
        for s in lane.silences
    )
    return tuple((begin / lasted_ms, end / lasted_ms) for begin, end in spans if begin < end)


def _member_lanes(found: TimelineFinding, one_topic: bool) -> list[TextLane]:
    lanes = []
    for lane in found.lanes:
        cells: list[TextCell] = []
        before: frozenset[str] | None = None
        for column in found.columns:
            owned, through = _owned(lane, column, found.until_ms)
            marks = _marks(lane, column)
            if owned is None:
                cells.append(TextCell(marks=marks))
            else:
                kept, new = (owned, frozenset[str]()) if before is None else (owned & before, owned - before)
                text = " ".join(filter(None, (_short(kept, one_topic), _short(new, one_topic, "+"))))
                cells.append(TextCell(text or NONE, marks, through, _silent(lane, column, found.until_ms)))
            before = frozenset() if owned is None else owned
        lanes.append(TextLane(cell(name_of_member(lane.member)), tuple(cells)))
    return lanes


def _short(names: frozenset[str], one_topic: bool, sign: str = "") -> str:
    if not names:
        return ""
    text = in_ranges(partitions_named(names))
    return sign + cell(text.rpartition(":")[2] if one_topic else text)


def _partition_lanes(found: TimelineFinding) -> list[TextLane]:
    owners: dict[str, dict[int, TextCell]] = {}
    for lane in found.lanes:
        owner = shortened(cell(name_of_member(lane.member)), NAME_MAX)
        for i, column in enumerate(found.columns):
            names, through = _owned(lane, column, found.until_ms)
            silent = _silent(lane, column, found.until_ms)
            for name in names or ():
                owners.setdefault(name, {})[i] = TextCell(owner, "", through, silent)
    ordered = sorted(owners, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))
    none, columns = TextCell(NONE), range(len(found.columns))
    return [TextLane(cell(name), tuple(owners[name].get(i, none) for i in columns)) for name in ordered]


TIMELINE_HELP = """Draw the assignments of GROUP over time: a lane for each member, a column for each generation.

A lane shows the partitions of the member: 0-2 +3 means that it kept partitions 0 to 2 and got partition 3. A broken
line (╌) means that the member sent no heartbeats. Marks: ← the member left, ✕ the member was removed, ⚑ a request of
the member was rejected, ▼ a rebalance and its cause.

\b
Examples:
  kohort group timeline my-group --since 30m
  kohort group timeline my-group --by partition
  kohort group timeline my-group --output json | jq '.timeline.lanes[]'
"""
PIPE_WIDTH = 120


@click.command(help=TIMELINE_HELP, short_help="Draw the assignments over time.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@since_option
@click.option(
    "--by",
    type=click.Choice(["member", "partition"]),
    default="member",
    help="Draw a lane for each member, or for each partition [member].",
)
@store_option
@cluster_options
@output_of(GroupTimeline)
def timeline(
    group_id: str, since: int | None, by: str, store: Path | None, cluster: ClusterAccess, output: str
) -> None:
    from_ms = since_ms(since)
    entries = entries_of_group(cluster, group_id, store)
    now_ms = max(int(time.time() * 1000), entries[-1].at_ms)
    found = find_timeline(entries, group=group_id, from_ms=from_ms or entries[0].at_ms, until_ms=now_ms)
    if output != "table":
        print_result(GroupTimeline(timeline=found), output)
        return
    if not found.lanes:
        click.echo(f"{cell(group_id)} had no members in this time span", err=True)
        return
    width = terminal_width() if sys.stdout.isatty() else PIPE_WIDTH
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    for line in draw_timeline(found, by=by, width=width, plain=plain):
        click.echo(line)
