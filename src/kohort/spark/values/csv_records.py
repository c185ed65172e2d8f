"""Decodes CSV values into columns. Each value is one CSV record: a quoted field cannot extend into the next value.

A quote inside a quoted field is doubled (RFC 4180) or has a backslash before it (Spark). A CSV record whose meaning
differs between the two rules is an error. An empty field is NULL. A quoted empty field is NULL too, except in a text
column, where it is an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.columns.conversions import REASON_MOST, Decoded
from kohort.columns.conversions.blocks import plain_values
from kohort.columns.conversions.scalars import is_binary, is_text, scalar_of, shown

_DOUBLED: Final = r'"([^"]*+(?:""[^"]*+)*+)"'
_BACKSLASHED: Final = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LINE_END: Final = r"(?:\r\n|\n|\r)\z"
_ESCAPED: Final = re.compile(r'\\(["\\])')


class CsvReader:
    def __init__(self, schema: pa.Schema, separator: str, zone: tzinfo) -> None:
        self._schema = schema
        self._separator = separator
        self._zone = zone
        self._convert = [_converter(field.type, zone) for field in schema]
        self._is_text = [is_text(field.type) for field in schema]
        bare = rf'([^"\r\n{re.escape(separator)}][^\r\n{re.escape(separator)}]*+)?'
        self._doubled = re.compile(f"{_DOUBLED}|{bare}")
        self._backslashed = re.compile(f"{_BACKSLASHED}|{bare}", re.DOTALL)

    def read_block(self, values: pa.Array) -> Decoded:
        """Decode CSV values (a binary array) into columns, one row for each value. A NULL becomes a row of NULLs."""
        columns, left = self._plain(values)
        if not len(left):
            return Decoded(columns, {})
        rows: list[list[Any]] = []
        problems: dict[int, str] = {}
        nothing: list[Any] = [None] * len(self._schema)
        for place, value in zip(left.tolist(), values.take(pa.array(left)).to_pylist(), strict=True):
            try:
                rows.append(nothing if value is None else self.read(value))
            except ValueError as error:
                problems[place] = str(error)[:REASON_MOST]
                rows.append(nothing)
        places = np.arange(len(values))
        places[left] = len(values) + np.arange(len(left))
        rest = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self._schema)]
        pieces = [pa.concat_arrays([a, b]).take(pa.array(places)) for a, b in zip(columns, rest, strict=True)]
        return Decoded(pieces, problems)

    def read(self, value: bytes) -> list[Any]:
        """Decode a CSV value into one value for each column. Raises ValueError if it does not match the schema."""
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the CSV value is not UTF-8 at byte {error.start}") from None
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise ValueError("the CSV value is empty")
        row: list[Any] = []
        for i, (field, quoted) in enumerate(self._fields(text)):
            if not field and not (quoted and self._is_text[i]):
                row.append(None)
                continue
            try:
                row.append(self._convert[i](field))
            except ValueError as error:
                raise ValueError(f"column {self._schema.names[i]!r}: {error}, found {shown(field)!r}") from None
        return row

    def _fields(self, text: str) -> list[tuple[str, bool]]:
        """Split a CSV record into fields. Return pairs: a field, and True if the field was quoted.

        Raises ValueError.
        """
        doubled = self._split(text, self._doubled, lambda inside: inside.replace('""', '"'))
        if '\\"' not in text:
            return self._checked(doubled, text)
        backslashed = self._split(text, self._backslashed, lambda inside: _ESCAPED.sub(r"\1", inside))
        either = [fields for fields in (doubled, backslashed) if fields and len(fields) == len(self._schema)]
        if len(either) == 2 and doubled != backslashed:
            raise ValueError("the CSV value is ambiguous: it has a backslash before a quote")
        return self._checked(either[0] if either else doubled, text)

    def _checked(self, fields: list[tuple[str, bool]] | None, text: str) -> list[tuple[str, bool]]:
        if fields is None:
            raise ValueError(f"the CSV value has an unclosed quote, or a line end outside of quotes: {shown(text)!r}")
        if len(fields) != len(self._schema):
            raise ValueError(f"the CSV value has {len(fields)} fields, expected {len(self._schema)}")
        return fields

    def _split(self, text: str, field: re.Pattern[str], inside: Callable[[str], str]) -> list[tuple[str, bool]] | None:
        found, at = [], 0
        while match := field.match(text, at):
            quoted = match[1] is not None
            found.append((inside(match[1]) if quoted else match[2] or "", quoted))
            at = match.end()
            if at == len(text):
                return found
            if text[at] != self._separator:
                break
            at += 1
        return None

    def _plain(self, values: pa.Array) -> tuple[list[pa.Array], Any]:
        """Convert CSV records that contain neither a quote nor a line end. Uses Arrow functions on the column.

        Returns the columns, and the indexes of the rows that this method cannot convert.
        """
        nothing = [pa.nulls(len(values), field.type) for field in self._schema]
        try:
            text = values.cast(pa.string())
        except pa.ArrowInvalid:  # some bytes are not UTF-8
            return nothing, np.arange(len(values))
        text = pc.replace_substring_regex(text, _LINE_END, "")
        plain = pc.invert(pc.match_substring_regex(text, '["\r\n]'))
        fields = pc.split_pattern(text, self._separator)
        plain = pc.and_(plain, pc.equal(pc.list_value_length(fields), len(self._schema)))
        plain = pc.fill_null(pc.and_(plain, pc.greater(pc.binary_length(text), 0)), True)
        left = ~np.asarray(plain)
        flat = pc.if_else(plain, fields, None).drop_null().flatten()
        rows = np.cumsum(np.asarray(pc.and_(plain, text.is_valid()))) - 1
        where = pa.array(rows, mask=left | np.asarray(text.is_null()))
        columns = []
        for i, field in enumerate(self._schema):
            own = flat.take(pa.array(np.arange(i, len(flat), len(self._schema)))).take(where)
            own = pc.if_else(pc.equal(own, ""), None, own)
            column, unsure = plain_values(own, field.type, self._zone)
            columns.append(column)
            left |= unsure
        return columns, np.flatnonzero(left)


def _converter(kind: pa.DataType, zone: tzinfo) -> Callable[[str], Any]:
    if is_binary(kind):
        return str.encode
    scalar = scalar_of(kind, zone)
    if scalar is None or scalar.text is None:
        raise TypeError(str(kind))
    return scalar.text
