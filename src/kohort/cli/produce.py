"""``kohort produce``: lines of files or of stdin to a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_topics, pairs
from kohort.cli.input_lines import InputError, InputLine, LineFormat, Skip, read_lines
from kohort.cli.options import ADMIN_MS
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.aio.producing.delivery import Delivery

HELP = """Send each line of FILES, or of stdin, to TOPIC as a record; what went where is told on stderr.

raw: the line is the value; with --key-separator, what stands before it is the key. json: the same, and each line must
be JSON; --key-field takes the key from it. csv: the first line names the columns, and each row becomes a JSON object of
texts. A line that does not fit stops the command with its file and number, or with --on-error skip is told and left
out.

\b
Examples:
  echo 'hello' | kohort produce greetings
  kohort produce orders orders.jsonl --format json --key-field customer
  kohort produce orders - --key-separator '|' --header from=me < orders.txt
  kohort produce flights f.csv --format csv --key-field origin --on-error skip
"""
PROGRESS_S: Final = 0.2
TAB: Final = "\t"


@click.command(help=HELP, short_help="Send lines from files or stdin to a topic.")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--format", "kind", type=click.Choice(["raw", "json", "csv"]), default="raw", help="What a line is [raw]."
)
@click.option("--key-separator", metavar="TEXT", help="Text between key and value of a line; \\t is a tab.")
@click.option("--separator", metavar="CHARACTER", help="Separator of CSV; \\t is a tab [,].")
@click.option("--key-field", metavar="NAME", help="The field of JSON, or the column of CSV, that is the key.")
@click.option("--null-value", metavar="TEXT", help="A raw key or value that reads so is null (a tombstone).")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record.")
@click.option("--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option("--on-error", type=click.Choice(["fail", "skip"]), default="fail", help="What a bad line does [fail].")
@click.option(
    "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", help="[none]"
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", help="Whose receipt to wait for [all].")
@cluster_options
@click.option("--quiet", is_flag=True, help="Tell errors only.")
def produce(
    topic: str,
    files: tuple[str, ...],
    kind: str,
    key_separator: str | None,
    separator: str | None,
    key_field: str | None,
    null_value: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    on_error: str,
    compression: str,
    acks: str,
    cluster: ClusterAccess,
    quiet: bool,
) -> None:
    form = line_format(kind, key_separator, separator, key_field, null_value)
    fixed = [(name, value.encode()) for name, value in pairs(headers, "--header").items()]
    options: dict[str, Any] = {
        "compression.type": compression,
        "acks": acks,
    }
    with cluster.admin() as admin:
        admin.describe_cluster(timeout_ms=ADMIN_MS)  # nobody there: said before the first line is read
    with cluster.producer(options) as producer:
        tally = Tally(topic, is_shown=not quiet and sys.stderr.isatty())

        def bad_line(error: InputError) -> None:
            if on_error == "fail":
                raise error
            tally.skipped += 1
            click.echo(f"skipped {error}", err=True)

        try:
            for name in files or ("-",):
                for key, value in lines_of(name, form, bad_line):
                    tally.sent_one(producer.send(topic, value, key, partition=partition, headers=fixed))
            producer.flush()
        finally:
            tally.close(quiet=quiet)
    tally.raise_failure()


def lines_of(name: str, form: LineFormat, bad_line: Skip) -> Iterator[InputLine]:
    """Yield the records of a file, or of stdin for ``-``."""
    if name == "-":
        yield from read_lines(sys.stdin.buffer, "<stdin>", form, bad_line)
        return
    with Path(name).open("rb") as file:
        yield from read_lines(file, name, form, bad_line)


def line_format(
    kind: str, key_separator: str | None, separator: str | None, key_field: str | None, null_value: str | None
) -> LineFormat:
    """Return the format that the options amount to. Raises UsageError where they contradict each other."""
    if key_field is not None and kind == "raw":
        raise click.UsageError("--key-field needs --format json or csv; for raw lines there is --key-separator")
    if key_separator is not None and kind == "csv":
        raise click.UsageError("--key-separator is for raw and json; for csv there is --key-field")
    if key_separator is not None and key_field is not None:
        raise click.UsageError("--key-separator and --key-field: choose one")
    if null_value is not None and kind != "raw":
        raise click.UsageError("--null-value is for raw lines")
    if separator is not None:
        if kind != "csv":
            raise click.UsageError("--separator is for csv; for raw and json there is --key-separator")
        separator = TAB if separator == r"\t" else separator
        if len(separator) != 1 or separator in '"\r\n':
            raise click.UsageError(f"--separator {separator!r}: expected one character, not a quote or a line end")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    return LineFormat(
        kind,
        separator=separator,
        key_separator=None if key_separator is None else key_separator.replace(r"\t", TAB).encode(),
        key_field=key_field,
        null_value=None if null_value is None else null_value.encode(),
    )


class Tally:
    """Counts what was sent and delivered, keeps the first failure, and shows both on a terminal."""

    def __init__(self, topic: str, *, is_shown: bool) -> None:
        self.topic = topic
        self.sent = 0
        self.skipped = 0
        self.failed = 0
        self.first_failure: KohortError | None = None
        self._last: Delivery | None = None
        self._lock = Lock()
        self._is_shown = is_shown
        self._began = self._shown_at = time.monotonic()

    def sent_one(self, delivery: Delivery) -> None:
        """Count a record, and listen for its failure. Raises the first failure as soon as there is one."""
        self.sent += 1
        delivery.add_done_callback(self._done)
        if self._is_shown and time.monotonic() - self._shown_at > PROGRESS_S:
            self._show()
        if self.first_failure is not None:
            raise self.first_failure

    def _done(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            with self._lock:
                self.failed += 1
                self.first_failure = self.first_failure or error

    def raise_failure(self) -> None:
        """Raise the first failure, with how many there were."""
        if self.first_failure is not None:
            raise KohortError(f"{self.failed} of {self.sent} records were not delivered: {self.first_failure}")

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        rate = self.sent / max(self._shown_at - self._began, 1e-3)
        click.echo(f"\r{self.sent:,} records, {rate:,.0f}/s ", nl=False, err=True)

    def close(self, *, quiet: bool) -> None:
        """Say at the end how many records went where, and how fast."""
        if self._is_shown:
            click.echo("\r", nl=False, err=True)
        if quiet:
            return
        seconds = time.monotonic() - self._began
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        delivered = self.sent - self.failed
        click.echo(f"{delivered:,} records to {self.topic}{skipped} in {seconds:.1f} s", err=True)
