"""Lines of files as records to send: raw, JSON or CSV, each fault with the file and the line where it is."""

from __future__ import annotations

import csv
import json
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from kohort.errors import KohortError

LONGEST_LINE: Final = 16 << 20
"""More than a broker takes in a record; a file without line ends is not read into memory to find that out."""


class InputError(KohortError):
    """A line that cannot be sent: which file, which line, what is wrong with it."""


class InputLine(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of lines. ``key_field``: the field of JSON or CSV that is the key; ``separator``: of CSV, a comma."""

    kind: str = "raw"
    separator: str | None = None
    key_separator: bytes | None = None
    key_field: str | None = None
    null_value: bytes | None = None


Skip = Callable[[InputError], None]


def read_lines(file: BinaryIO, name: str, form: LineFormat, on_error: Skip) -> Iterator[InputLine]:
    """Yield the records in a file. ``on_error`` is told of each line that is none, and raises, or returns to skip
    it."""
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
    """Yield lines without their ends, numbered from 1. A line without end that is too long is an error that cannot be
    skipped: there is no telling where the next one begins."""
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
    """Return the line as it stands, once it is known to be JSON."""
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
    """Lines of a CSV file as text. The lines that a malformed record took beyond its first are given out again."""

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
        """Return the first and the last line of the record, and begin again behind its first."""
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
    """Raise InputError for a first line that does not name each column once."""
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
