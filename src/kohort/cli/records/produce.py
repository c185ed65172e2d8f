"""``kohort produce``: lines of files or of stdin to a topic."""

from __future__ import annotations

import csv
import json
import sys
import time
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_topics, pairs
from kohort.cli.terminal.options import ADMIN_MS
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.aio.producing.delivery import Delivery

LONGEST_LINE: Final = 16 << 20
"""More than a broker takes in a record; a file without line ends is not read into memory to find that out."""


class InputError(KohortError):
    """A malformed line, with file and number."""


class InputLine(NamedTuple):
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Input format. ``key_field``: field of JSON or column of CSV; ``separator``: of CSV."""

    kind: str = "raw"
    separator: str | None = None
    key_separator: bytes | None = None
    key_field: str | None = None
    null_value: bytes | None = None


Skip = Callable[[InputError], None]


def read_lines(file: BinaryIO, name: str, form: LineFormat, on_error: Skip) -> Iterator[InputLine]:
    """Yield the records in a file. ``on_error`` gets each malformed line, and raises or skips it."""
    if form.kind == "csv":
        yield from _csv_lines(file, name, form, on_error)
        return
    parse = _json_line if form.kind == "json" else _raw_line
    for number, line in _numbered(file, name):
        if number == 1 and form.kind == "json":
            line = line.removeprefix(BOM_UTF8)
        try:
            yield parse(line, form)
        except ValueError as error:
            on_error(InputError(f"{name}:{number}: {error}"))


def _numbered(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines. Raises InputError for one that is too long: the next one cannot be found."""
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
            raise ValueError(f"no key separator {form.key_separator.decode(errors='replace')!r} in the line")
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
        raise ValueError("not JSON that can be read: nested too deeply") from None
    if form.key_field is None:
        return line_of
    if not isinstance(content, dict) or form.key_field not in content:
        raise ValueError(f"no field {form.key_field!r} for the key")
    key = content[form.key_field]
    text = key if isinstance(key, str) else json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    return InputLine(None if key is None else text.encode("utf-8", "surrogatepass"), line_of.value)


class _CsvText:
    """Lines of a CSV file; the further lines of a malformed record are read again."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._again: deque[tuple[int, str]] = deque()
        self._taken: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._again:
            line = self._again.popleft()
        else:
            number, content = next(self._lines)
            line = number, content.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape") + "\n"
        self._taken.append(line)
        return line[1]

    def begin_record(self) -> None:
        self._taken.clear()

    def give_back(self) -> tuple[int, int]:
        """Return the first and last line of the record, and continue after the first."""
        first, *rest = self._taken
        self._again.extendleft(reversed(rest))
        return first[0], self._taken[-1][0]


def _csv_lines(file: BinaryIO, name: str, form: LineFormat, on_error: Skip) -> Iterator[InputLine]:
    """Yield each row as a JSON object of texts, by the names in the first line.

    A quote that is not closed makes its line malformed, not the lines that follow.
    """
    csv.field_size_limit(LONGEST_LINE)
    text = _CsvText(_numbered(file, name))
    rows = csv.reader(text, delimiter=form.separator or ",", strict=True)
    try:
        columns = next(rows, None)
    except csv.Error as error:
        raise InputError(f"{name}:1: the names of the columns: {error}") from None
    if columns is None:
        return
    _check_columns(columns, name, form)
    while True:
        text.begin_record()
        try:
            row = next(rows, None)
            if row is None:
                return
            if row:
                yield _csv_row(columns, row, form)
        except (ValueError, csv.Error) as error:
            first, last = text.give_back()
            span = f" (read as one record with the lines to {last})" if last > first else ""
            on_error(InputError(f"{name}:{first}: {error}{span}"))


def _check_columns(columns: list[str], name: str, form: LineFormat) -> None:
    if any("\0" in column or column[:1] in ("\udcff", "\udcfe") for column in columns):
        raise InputError(f"{name}: the file is UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    if form.separator is None and len(columns) == 1 and "\t" in columns[0]:
        raise InputError(f"{name}:1: tabs and no comma between the names of the columns: give --separator '\\t'")
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise InputError(f"{name}:1: two columns are called {twice!r}: rename one of them")
    if form.key_field is not None and form.key_field not in columns:
        raise InputError(f"{name}:1: no column {form.key_field!r} for the key; there are {', '.join(columns)}")


def _csv_row(columns: list[str], row: list[str], form: LineFormat) -> InputLine:
    if len(row) != len(columns):
        raise ValueError(f"{len(row)} fields where the first line names {len(columns)} columns")
    fields = dict(zip(columns, row, strict=True))
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    try:
        key = None if form.key_field is None else fields[form.key_field].encode()
        return InputLine(key, text.encode())
    except UnicodeEncodeError:
        raise ValueError("not UTF-8") from None


HELP = """Send each line of FILES, or of stdin, to TOPIC as a record.

raw: the line is the value, after the key if --key-separator is given. json: the same, and each line must be JSON;
--key-field takes the key from it. csv: the first line names the columns, and each row becomes a JSON object of texts.
A malformed line stops the command with file and line number, or is skipped with --on-error skip.

\b
Examples:
  echo 'hello' | kohort produce greetings
  kohort produce orders orders.jsonl --format json --key-field customer
  kohort produce orders - --key-separator '|' --header from=me < orders.txt
  kohort produce flights f.csv --format csv --key-field origin --on-error skip
  kohort produce orders orders.txt --set compression.type=zstd
"""
PROGRESS_S: Final = 0.2
TAB: Final = "\t"


@click.command(help=HELP, short_help="Send lines from files or stdin to a topic.")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--format", "kind", type=click.Choice(["raw", "json", "csv"]), default="raw", help="Input format [raw].")
@click.option("--key-separator", metavar="TEXT", help="Text between key and value of a line; \\t is a tab.")
@click.option("--separator", metavar="CHARACTER", help="Separator of CSV; \\t is a tab [,].")
@click.option("--key-field", metavar="NAME", help="Field of JSON or column of CSV with the key.")
@click.option("--null-value", metavar="TEXT", help="Text of a null key or value in raw lines.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Header of every record.")
@click.option("--partition", type=click.IntRange(min=0), help="Partition of all records.")
@click.option("--on-error", type=click.Choice(["fail", "skip"]), default="fail", help="On a malformed line [fail].")
@cluster_options
@click.option("--quiet", is_flag=True, help="Only errors.")
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
    cluster: ClusterAccess,
    quiet: bool,
) -> None:
    form = line_format(kind, key_separator, separator, key_field, null_value)
    fixed = [(name, value.encode()) for name, value in pairs(headers, "--header").items()]
    with cluster.admin() as admin:
        admin.describe_cluster(timeout_ms=ADMIN_MS)  # nobody there: said before the first line is read
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
                    tally.sent_one(producer.send(topic, value, key, partition=partition, headers=fixed))
            producer.flush()
        finally:
            tally.close(quiet=quiet)
    tally.raise_failure()


def lines_of(name: str, form: LineFormat, bad_line: Skip) -> Iterator[InputLine]:
    if name == "-":
        yield from read_lines(sys.stdin.buffer, "<stdin>", form, bad_line)
        return
    with Path(name).open("rb") as file:
        yield from read_lines(file, name, form, bad_line)


def line_format(
    kind: str, key_separator: str | None, separator: str | None, key_field: str | None, null_value: str | None
) -> LineFormat:
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
    """Counts of sent and failed records, the first failure, and the progress on a terminal."""

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
