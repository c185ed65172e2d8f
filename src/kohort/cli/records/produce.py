"""``kohort produce``: send the lines of files, or of stdin, to a topic."""

from __future__ import annotations

import json
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_topics, pairs
from kohort.cli.terminal.options import ADMIN_MS
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.aio.producing.delivery import Delivery

LONGEST_LINE: Final = 16 << 20
"""Maximum length of an input line in bytes, larger than any record. Limits memory if a file has no line ends."""


class InputError(KohortError):
    pass


class InputLine(NamedTuple):
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Format of input lines. ``kind``: raw or json. ``key_field``: JSON field that holds the record key."""

    kind: str = "raw"
    key_separator: bytes | None = None
    key_field: str | None = None
    null_value: bytes | None = None


Skip = Callable[[InputError], None]


def read_lines(file: IO[bytes], name: str, form: LineFormat, on_error: Skip) -> Iterator[InputLine]:
    """Yield key and value of each input line.

    Pass the error of a malformed line to ``on_error``, which may raise it.
    """
    parse = _json_line if form.kind == "json" else _raw_line
    for number, line in _numbered(file, name):
        if number == 1 and form.kind == "json":
            line = line.removeprefix(BOM_UTF8)
        try:
            yield parse(line, form)
        except ValueError as error:
            on_error(InputError(f"{name}:{number}: {error}"))


def _numbered(file: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their line numbers. Raises InputError for a line longer than ``LONGEST_LINE``."""
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise InputError(f"{name}:{number}: the line is longer than {LONGEST_LINE >> 20} MiB")
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def _raw_line(line: bytes, form: LineFormat) -> InputLine:
    key: bytes | None = None
    value: bytes | None = line
    if form.key_separator is not None:
        key, found, value = line.partition(form.key_separator)
        if not found:
            raise ValueError(f"the line has no key separator {form.key_separator.decode(errors='replace')!r}")
    if form.null_value is not None:
        key = None if key == form.null_value else key
        value = None if value == form.null_value else value
    return InputLine(key, value)


def _json_line(line: bytes, form: LineFormat) -> InputLine:
    line_of = _raw_line(line, form) if form.key_separator is not None else InputLine(None, line)
    try:
        content = json.loads(line_of.value or b"")
    except UnicodeDecodeError as error:
        raise ValueError(f"not JSON: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if form.key_field is None:
        return line_of
    if not isinstance(content, dict) or form.key_field not in content:
        raise ValueError(f"the JSON has no key field {form.key_field!r}")
    key = content[form.key_field]
    text = key if isinstance(key, str) else json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    return InputLine(None if key is None else text.encode("utf-8", "surrogatepass"), line_of.value)


HELP = """Send each line of FILES, or of stdin, to TOPIC as a record.

A line is the value of a record. With --key-separator it is the key, the separator, and the value. With --format json
each line must be JSON, and --key-field names the field that holds the key. The first malformed line stops the command;
--on-error skip skips it with a warning.

\b
Examples:
  echo 'hello' | kohort produce greetings
  kohort produce orders orders.jsonl --format json --key-field customer
  kohort produce orders - --key-separator '|' --header from=me < orders.txt
  kohort produce flights f.jsonl --format json --on-error skip
  kohort produce orders orders.txt --set compression.type=zstd
"""
PROGRESS_S: Final = 0.2


@click.command(help=HELP, short_help="Send lines from files or stdin to a topic.")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--format", "kind", type=click.Choice(["raw", "json"]), default="raw", help="Input format [raw].")
@click.option("--key-separator", metavar="TEXT", help="Text between key and value of a line; \\t is a tab.")
@click.option("--key-field", metavar="NAME", help="JSON field that holds the key.")
@click.option("--null-value", metavar="TEXT", help="Text that stands for a null key or value in raw lines.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Header of every record.")
@click.option("--partition", type=click.IntRange(min=0), help="Partition for all records.")
@click.option(
    "--on-error", type=click.Choice(["fail", "skip"]), default="fail", help="Action on a malformed line [fail]."
)
@cluster_options
@click.option("--quiet", is_flag=True, help="Print errors only, no progress.")
def produce(
    topic: str,
    files: tuple[str, ...],
    kind: str,
    key_separator: str | None,
    key_field: str | None,
    null_value: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    on_error: str,
    cluster: ClusterAccess,
    quiet: bool,
) -> None:
    form = line_format(kind, key_separator, key_field, null_value)
    fixed = [(name, value.encode()) for name, value in pairs(headers, "--header").items()]
    with cluster.admin() as admin:
        admin.describe_cluster(timeout_ms=ADMIN_MS)  # fail before the first line is read if no broker answers
    with cluster.producer({}) as producer:
        tally = Tally(topic, is_shown=not quiet and sys.stderr.isatty())

        def bad_line(error: InputError) -> None:
            if on_error == "fail":
                raise error
            tally.skipped += 1
            click.echo(f"skipped {error}", err=True)

        try:
            for name in files or ("-",):
                for key, value in lines_of(name, form, bad_line):
                    tally.add(producer.send(topic, value, key, partition=partition, headers=fixed))
            producer.flush()
        finally:
            tally.close(quiet=quiet)
    tally.raise_failure()


def lines_of(name: str, form: LineFormat, bad_line: Skip) -> Iterator[InputLine]:
    with click.open_file(name, "rb") as file:
        yield from read_lines(file, "<stdin>" if name == "-" else name, form, bad_line)


def line_format(kind: str, key_separator: str | None, key_field: str | None, null_value: str | None) -> LineFormat:
    if key_field is not None and kind == "raw":
        raise click.UsageError("--key-field needs --format json; raw lines have --key-separator")
    if key_separator is not None and key_field is not None:
        raise click.UsageError("--key-separator and --key-field exclude each other")
    if null_value is not None and kind != "raw":
        raise click.UsageError("--null-value is for raw lines only")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    return LineFormat(
        kind,
        key_separator=None if key_separator is None else key_separator.replace(r"\t", "\t").encode(),
        key_field=key_field,
        null_value=None if null_value is None else null_value.encode(),
    )


class Tally:
    """Counts sent, skipped and failed records. Prints the progress on a terminal."""

    def __init__(self, topic: str, *, is_shown: bool) -> None:
        self.topic = topic
        self.sent = 0
        self.skipped = 0
        self.failed = 0
        self.first_failure: KohortError | None = None
        self._lock = Lock()
        self._is_shown = is_shown
        self._began = self._shown_at = time.monotonic()

    def add(self, delivery: Delivery) -> None:
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
        if self.first_failure is not None:
            raise KohortError(f"{self.failed} of {self.sent} records were not delivered: {self.first_failure}")

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        rate = self.sent / max(self._shown_at - self._began, 1e-3)
        click.echo(f"\r{self.sent:,} records, {rate:,.0f}/s ", nl=False, err=True)

    def close(self, *, quiet: bool) -> None:
        if self._is_shown:
            click.echo("\r", nl=False, err=True)
        if quiet:
            return
        seconds = time.monotonic() - self._began
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        delivered = self.sent - self.failed
        click.echo(f"{delivered:,} records to {self.topic}{skipped} in {seconds:.1f} s", err=True)
