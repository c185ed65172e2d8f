"""``kohort group timeline``: who had which partitions when, as lanes."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.events import nothing_known, since_ms, since_option
from kohort.cli.journal import read_journal, store_option
from kohort.cli.output import output_of, print_result
from kohort.cli.show import cell
from kohort.cli.timeline_drawing import draw_timeline
from kohort.insight.findings.timeline import find_timeline
from kohort.results.journal import GroupTimeline

TIMELINE_HELP = """Draw who had which partitions of GROUP when: a lane for each member, a column for each generation.

In a lane stand the partitions that the member has (0-2 +3: three that it had, one that is new) and a line while it
stays; where the line is broken (╌) nothing was heard of it. At its end: ← it left, ✕ it was put out, ⚑ a request of it
was refused. ▼ says what each rebalance was about.

\b
Examples:
  kohort group timeline my-group --since 30m
  kohort group timeline my-group --by partition
  kohort group timeline my-group --output json | jq '.timeline.lanes[].spells'
"""
PIPE_WIDTH = 120
DAY_MS = 86_400_000


@click.command(help=TIMELINE_HELP, short_help="Draw who had which partitions when.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@since_option
@click.option("--by", type=click.Choice(["member", "partition"]), default="member", help="What has a lane.")
@store_option
@cluster_options
@output_of(GroupTimeline)
def timeline(
    group_id: str, since: int | None, by: str, store: Path | None, cluster: ClusterAccess, output: str
) -> None:
    from_ms = since_ms(since)
    entries = read_journal(cluster, group_id, store)
    if not entries:
        raise nothing_known(cluster, group_id)
    now_ms = max(int(time.time() * 1000), entries[-1].at_ms)
    found = find_timeline(entries, group=group_id, from_ms=from_ms or entries[0].at_ms, until_ms=now_ms)
    if output != "table":
        print_result(GroupTimeline(timeline=found), output)
        return
    if not found.lanes:
        click.echo(f"{cell(group_id)} had no members in that time", err=True)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    for line in draw_timeline(found, by=by, width=width, plain=plain):
        click.echo(line)
