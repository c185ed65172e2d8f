"""``kohort group peek``: show the records around a committed offset, such as a record that a member cannot process."""

from __future__ import annotations

import base64
from typing import Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups, complete_partitions
from kohort.cli.terminal.options import partition_in
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import print_prose, print_table, time_text
from kohort.model import TopicPartition
from kohort.notes import one_line
from kohort.results.groups import GroupPeek, PeekedRecord
from kohort.verbs.peeking import peek as read_records
from kohort.verbs.peeking import position_of

PEEK_HELP = """Show the records of a partition around the committed offset of GROUP. Commits no offsets.

The table escapes control characters and cuts long values. --output json has whole records, with base64 for bytes that
are not UTF-8.

\b
Examples:
  kohort group peek my-group orders:3
  kohort group peek my-group orders:3 -B 0 -A 1 --output json | jq .records
"""
MOST: Final = 1000


@click.command(help=PEEK_HELP, short_help="Show the records around a committed offset.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.argument("place", metavar="TOPIC:PARTITION", shell_complete=complete_partitions)
@click.option(
    "-B",
    "--before",
    type=click.IntRange(0, MOST),
    default=3,
    help="Number of records to show before the committed offset [3].",
)
@click.option(
    "-A",
    "--after",
    type=click.IntRange(0, MOST),
    default=3,
    help="Number of records to show from the committed offset on [3].",
)
@cluster_options
@output_of(GroupPeek)
def peek(group_id: str, place: str, before: int, after: int, cluster: ClusterAccess, output: str) -> None:
    partition = partition_in(place, given_as="TOPIC:PARTITION")
    with cluster.admin() as admin:
        ends = position_of(admin, group_id, partition)
    result = read_records(cluster.consumer, group_id, partition, ends, range(-before, after))
    if output != "table":
        print_result(result, output)
        return
    columns = ("READ", "OFFSET", "TIME", "KEY", "VALUE")
    print_table(columns, [cells(record) for record in result.records], none="no records")
    print_prose(position_text(partition, *ends), err=True)


def position_text(partition: TopicPartition, committed: int, start: int, end: int) -> str:
    if committed > end:
        return f"{partition}: committed {committed}, beyond the end of the log, {end}"
    if committed < start:
        return f"{partition}: committed {committed}; {start - committed} offsets were deleted unread"
    if committed == end:
        return f"{partition}: committed {committed}, the end of the log: all records are read"
    return f"{partition}: committed {committed}, {end - committed} behind the end of the log, {end}"


def cells(record: PeekedRecord) -> tuple[object, ...]:
    when = None if record.timestamp_ms is None else time_text(record.timestamp_ms).removesuffix(" UTC")
    return record.read, record.offset, when, _shown(record.key), _shown(record.value)


def _shown(text: str | dict[str, str] | None) -> str | None:
    if isinstance(text, dict):
        text = base64.b64decode(text["base64"]).decode("utf-8", "backslashreplace")
    return None if text is None else one_line(text)
