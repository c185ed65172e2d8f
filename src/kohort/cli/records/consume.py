"""``kohort consume``: print the records of topics, one per line."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups, complete_topics
from kohort.cli.terminal.exits import interrupts_wait
from kohort.cli.terminal.options import ADMIN_MS
from kohort.errors import ApiError, ErrorCode
from kohort.model import OffsetAndMetadata, Record, TopicPartition
from kohort.verbs.peeking import text_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer

Writer = Callable[[Iterable[Record]], bytes]

CSV_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value")


def writer_of(kind: str, key_separator: bytes | None, null_value: bytes, *, headers: bool) -> Writer:
    if kind == "json":
        return lambda records: b"".join(map(json_line, records))
    if kind == "csv":
        return csv_lines
    if headers:
        return lambda records: b"".join(headers_text(r) + raw_line(r, key_separator, null_value) for r in records)
    return lambda records: b"".join(raw_line(r, key_separator, null_value) for r in records)


def raw_line(record: Record, key_separator: bytes | None, null_value: bytes) -> bytes:
    value = null_value if record.value is None else record.value
    if key_separator is None:
        return value + b"\n"
    key = null_value if record.key is None else record.key
    return b"".join((key, key_separator, value, b"\n"))


def headers_text(record: Record) -> bytes:
    """Format record headers like Kafka's console consumer: ``name:value,name:value`` and a tab."""
    pairs = [name.encode() + b":" + (b"null" if value is None else value) for name, value in record.headers]
    return (b",".join(pairs) or b"NO_HEADERS") + b"\t"


def json_line(record: Record) -> bytes:
    about: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": None if record.timestamp_ms < 0 else record.timestamp_ms,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": [[name, text_of(value)] for name, value in record.headers],
    }
    return json.dumps(about, ensure_ascii=False).encode() + b"\n"


def csv_lines(records: Iterable[Record]) -> bytes:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for record in records:
        fields = [text_of(record.key), text_of(record.value)]
        shown = [field["base64"] if isinstance(field, dict) else field for field in fields]
        timestamp_ms = "" if record.timestamp_ms < 0 else record.timestamp_ms
        rows.writerow([record.topic, record.partition, record.offset, timestamp_ms, *shown])
    return out.getvalue().encode()


HELP = """Print the records of TOPICS, one per line, until Ctrl-C.

Without --group the command reads all partitions from the log end (with --from-beginning: from the log start) and
commits no offsets. With --group the command joins the group, and commits the offsets of printed records.

\b
Examples:
  kohort consume orders --from-beginning --until-end --format json | jq .value
  kohort consume orders payments --group audit --max 100
  kohort consume orders --group audit --set group.protocol=consumer
  kohort consume orders-dlq --from-beginning --headers
  kohort consume orders --partition 3 --offset 1500 --max 1
"""
POLL_MS: Final = 250
COMMIT_S: Final = 1.0
LAST_COMMIT_MS: Final = 3000


@click.command(help=HELP, short_help="Print the records of topics.")
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--group", "group_id", metavar="GROUP", shell_complete=complete_groups, help="Consumer group to join.")
@click.option("--from-beginning", is_flag=True, help="Start at the first record, if no offset is committed.")
@click.option("--partition", type=click.IntRange(min=0), help="Partition to read, without joining a group.")
@click.option("--offset", type=click.IntRange(min=0), help="Offset of the first record to print.")
@click.option("--max", "most", type=click.IntRange(min=1), help="Stop after this number of records.")
@click.option("--until-end", is_flag=True, help="Stop at the log ends that the topics have at the start.")
@click.option("--idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop after this time without a record.")
@click.option("--format", "kind", type=click.Choice(["raw", "json", "csv"]), default="raw", help="Output format [raw].")
@click.option("--key-separator", metavar="TEXT", help="Print the key and this text before each value.")
@click.option("--headers", is_flag=True, help="Print the headers and a tab before each record.")
@click.option("--null-value", metavar="TEXT", default="", help="Text for a null key or value in raw lines.")
@cluster_options
@click.option("--quiet", is_flag=True, help="Print errors only, no progress.")
def consume(
    topics: tuple[str, ...],
    group_id: str | None,
    from_beginning: bool,
    partition: int | None,
    offset: int | None,
    most: int | None,
    until_end: bool,
    idle: float | None,
    kind: str,
    key_separator: str | None,
    headers: bool,
    null_value: str,
    cluster: ClusterAccess,
    quiet: bool,
) -> None:
    if group_id is not None and (partition is not None or offset is not None):
        raise click.UsageError("--partition and --offset exclude --group")
    if key_separator is not None and kind != "raw":
        raise click.UsageError("--key-separator is for raw lines only; json and csv always have the key")
    if headers and kind != "raw":
        raise click.UsageError("--headers is for raw lines only; json always has headers, csv never")
    options: dict[str, Any] = {
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "allow.auto.create.topics": False,
        **({"group.id": group_id, "enable.auto.commit": False} if group_id is not None else {}),
    }
    partitions = partitions_of(topics, partition, cluster)
    separator = None if key_separator is None else key_separator.encode()
    write = writer_of(kind, separator, null_value.encode(), headers=headers)
    out = sys.stdout.buffer
    if kind == "csv":
        out.write(",".join(CSV_COLUMNS).encode() + b"\n")
    with cluster.consumer(options) as consumer:
        ends = consumer.end_offsets(partitions) if until_end else None
        printing = RecordPrinter(consumer, most=most, idle=idle, ends=ends)
        if group_id is not None:
            consumer.subscribe(dict.fromkeys(topics))
        else:
            assign(consumer, partitions, offset, from_beginning=from_beginning)
        try:
            printing.run(lambda records: out.write(write(records)), out.flush, commits=group_id is not None)
        finally:
            if group_id is not None:
                printing.commit()
            if not quiet:
                click.echo(f"{printing.count:,} records", err=True)


def partitions_of(topics: tuple[str, ...], only: int | None, cluster: ClusterAccess) -> list[TopicPartition]:
    with cluster.admin() as admin:
        results = admin.describe_topics(dict.fromkeys(topics), timeout_ms=ADMIN_MS)
        for name, error in results.errors.items():
            if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NothingThere(f"topic {name!r} does not exist on {cluster.address}") from None
            raise error
        counts = {name: len(results[name].partitions) for name in results}
    if only is not None:
        for name, count in counts.items():
            if only >= count:
                raise NothingThere(f"topic {name!r} has partitions 0 to {count - 1}, not {only}")
    return [TopicPartition(name, p) for name, n in counts.items() for p in range(n) if only is None or p == only]


def assign(consumer: Consumer, partitions: list[TopicPartition], offset: int | None, *, from_beginning: bool) -> None:
    consumer.assign(partitions)
    if offset is not None:
        for partition in partitions:
            consumer.seek(partition, offset)
    elif from_beginning:
        consumer.seek_to_beginning(partitions)
    else:
        consumer.seek_to_end(partitions)


class RecordPrinter:
    def __init__(
        self, consumer: Consumer, *, most: int | None, idle: float | None, ends: dict[TopicPartition, int] | None
    ) -> None:
        """Conditions that stop the command; None disables a condition.

        ``most``: number of records. ``idle``: seconds without a record. ``ends``: offset per partition.
        """
        self.count = 0
        self._written: dict[TopicPartition, OffsetAndMetadata] = {}
        self._consumer = consumer
        self._most = most
        self._idle = idle
        self._ends = ends
        self._last_record = self._last_commit = time.monotonic()

    def run(self, write: Callable[[list[Record]], object], flush: Callable[[], object], *, commits: bool) -> None:
        """Write polled records until a stop condition is met. If ``commits``, commit their offsets once per second."""
        while not self._is_done():
            room = 500 if self._most is None else min(500, self._most - self.count)
            records = self._consumer.poll(POLL_MS, max_records=room)
            now = time.monotonic()
            if records:
                with interrupts_wait():
                    write(records)
                    flush()
                    self._count(records)
                self._last_record = now
                if commits and now - self._last_commit >= COMMIT_S:
                    self._consumer.commit_async(self._offsets_to_commit())
                    self._last_commit = now

    def _count(self, records: list[Record]) -> None:
        self.count += len(records)
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            self._written[partition] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)

    def commit(self) -> None:
        """Commit the offsets of the written records. On Ctrl-C, close the consumer at once."""
        if written := self._offsets_to_commit():
            try:
                self._consumer.commit(written, timeout_ms=LAST_COMMIT_MS)
            except KeyboardInterrupt:
                self._consumer.close(timeout_ms=0)
                raise

    def _offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        owned = self._consumer.assignment()
        return {p: at for p, at in self._written.items() if p in owned}

    def _is_done(self) -> bool:
        if self._most is not None and self.count >= self._most:
            return True
        if self._idle is not None and time.monotonic() - self._last_record >= self._idle:
            return True
        return self._ends is not None and self._is_at_end(self._ends)

    def _is_at_end(self, ends: dict[TopicPartition, int]) -> bool:
        owned = self._consumer.assignment()
        if not owned:
            return not any(ends.values())
        return all(self._consumer.position(p, timeout_ms=ADMIN_MS) >= ends.get(p, 0) for p in owned)
