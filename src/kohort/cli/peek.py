"""``kohort group peek``: the records around what a group has committed; what a stuck partition is stuck at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups, complete_places
from kohort.cli.exits import NothingThere
from kohort.cli.group_state import describe, ends_of
from kohort.cli.options import ADMIN_MS
from kohort.cli.output import output_of, print_result
from kohort.cli.record_lines import text_of
from kohort.cli.results.groups import GroupPeek, PeekedHeader, PeekedRecord
from kohort.cli.show import print_prose, print_table, time_text
from kohort.errors import ApiTimeout
from kohort.model import Record, TopicPartition
from kohort.notes import one_line

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer

PEEK_HELP = """Show the records of a partition around what GROUP has committed: what it read last, what it reads next.

The partition is TOPIC:NUMBER. Nothing is committed and nobody is disturbed. In the table, control characters are
escaped and long values cut; --output json has records whole, bytes that are no text as base64.

\b
Examples:
  kohort group peek my-group orders:3
  kohort group peek my-group orders:3 -B 0 -A 1 --output json | jq .records
"""
POLL_MS: Final = 500
MOST: Final = 1000


PEEK_OPTIONS: Final = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
}
"""Whatever a file of options says: what an open transaction holds back is what people look for."""


@click.command(help=PEEK_HELP, short_help="Show the records around a committed offset.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.argument("place", metavar="TOPIC:PARTITION", shell_complete=complete_places)
@click.option("-B", "--before", type=click.IntRange(0, MOST), default=3, show_default=True, help="Offsets before it.")
@click.option("-A", "--after", type=click.IntRange(0, MOST), default=3, show_default=True, help="Offsets from it on.")
@cluster_options
@output_of(GroupPeek)
def peek(group_id: str, place: str, before: int, after: int, cluster: ClusterAccess, output: str) -> None:
    partition = place_of(place)
    with cluster.admin() as admin:
        committed, start, end = where_it_is(admin, group_id, partition)
    first, behind = max(start, committed - before), min(end, committed + after)
    with cluster.consumer(PEEK_OPTIONS) as consumer:
        records = read_between(consumer, partition, first, behind) if first < behind else []
    if output != "table":
        rows = [peeked(record, committed) for record in records]
        about = {"log_start_offset": start, "log_end_offset": end, "committed": committed}
        result = GroupPeek(group=group_id, topic=partition.topic, partition=partition.partition, records=rows, **about)
        print_result(result, output)
        return
    columns = ("READ", "OFFSET", "TIME", "KEY", "VALUE")
    print_table(columns, [cells(record, committed) for record in records], none="no records there")
    print_prose(standing(partition, committed, start, end), err=True)


def place_of(text: str) -> TopicPartition:
    """Return the partition that ``orders:3`` names. Raises BadParameter for any other text."""
    topic, _, number = text.rpartition(":")
    if not topic or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise click.BadParameter(f"{text!r}: expected TOPIC:NUMBER, such as orders:3", param_hint="TOPIC:PARTITION")
    return TopicPartition(topic, int(number))


def where_it_is(admin: Admin, group_id: str, partition: TopicPartition) -> tuple[int, int, int]:
    """Return what the group has committed, the first offset and the end. Raises NothingThere where there is none."""
    describe(admin, group_id)
    starts, ends = ends_of(admin, [partition], "earliest"), ends_of(admin, [partition], "latest")
    if partition not in ends:
        raise NothingThere(f"{partition}: no such partition")
    at = admin.list_group_offsets(group_id, [partition], timeout_ms=ADMIN_MS)[partition]
    if at is None:
        raise NothingThere(f"group {group_id!r} has committed nothing for {partition}")
    return at.offset, starts[partition], ends[partition]


def read_between(consumer: Consumer, partition: TopicPartition, first: int, behind: int) -> list[Record]:
    """Return the records from ``first`` to before ``behind``; fewer where a log was compacted."""
    consumer.assign([partition])
    consumer.seek(partition, first)
    found: list[Record] = []
    deadline = time.monotonic() + ADMIN_MS / 1000
    while consumer.position(partition, timeout_ms=ADMIN_MS) < behind:
        found += [r for r in consumer.poll(POLL_MS, max_records=behind - first) if r.offset < behind]
        if time.monotonic() > deadline:
            raise ApiTimeout(f"{partition} could not be read up to {behind} within {ADMIN_MS // 1000} s")
    return found


def standing(partition: TopicPartition, committed: int, start: int, end: int) -> str:
    """Return where the group is in the partition, in a sentence."""
    if committed > end:
        return f"{partition}: committed {committed}, beyond the end of the log, {end}"
    if committed < start:
        return f"{partition}: committed {committed}; {start - committed} offsets were deleted before they were read"
    if committed == end:
        return f"{partition}: committed {committed}, the end of the log: everything is read"
    return f"{partition}: committed {committed}, {end - committed} behind the end of the log, {end}"


def read_word(offset: int, committed: int) -> str:
    """Return whether the group has read a record: ``yes``, ``next``, ``no``."""
    return "yes" if offset < committed else ("next" if offset == committed else "no")


def cells(record: Record, committed: int) -> tuple[object, ...]:
    """Return the row of a record."""
    when = None if record.timestamp_ms < 0 else time_text(record.timestamp_ms).removesuffix(" UTC")
    return read_word(record.offset, committed), record.offset, when, _shown(record.key), _shown(record.value)


def _shown(data: bytes | None) -> str | None:
    """Return bytes as text on one line, escaped and cut."""
    return None if data is None else one_line(data.decode("utf-8", "backslashreplace"))


def peeked(record: Record, committed: int) -> PeekedRecord:
    """Return a record for programs."""
    return PeekedRecord(
        read=read_word(record.offset, committed),
        offset=record.offset,
        timestamp_ms=None if record.timestamp_ms < 0 else record.timestamp_ms,
        key=text_of(record.key),
        value=text_of(record.value),
        headers=[PeekedHeader(name=name, value=text_of(value)) for name, value in record.headers],
    )
