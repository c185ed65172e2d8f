"""Decodes the values of records into columns, with Arrow's readers, and finds the ones that cannot be decoded.

Flat JSON is read by a kernel (columns/json_values/flat_objects.py), five times as fast as by Arrow's reader, which
judges all that the kernel is not sure of. A block of values is one text of lines for Arrow's JSON or CSV reader. It
gives up on a whole block for one bad line, so the block is halved until the bad lines stand alone: the same reader
judges each line, whatever block it was in. A line of CSV is one record, without line breaks.
Avro is read value by value, by fastavro (avro.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.errors import ConfigError
from kohort.spark.values.avro import AvroError, Reader, compile_schema, field_names

if TYPE_CHECKING:
    import pyarrow as pa

NO_VALUE: Final = "the record has no value"
_REASON_MOST: Final = 300
_FRAME: Final = 5


class Decoded(NamedTuple):
    """The columns of a block, null where a value could not be decoded, and why, by row."""

    columns: list[pa.Array]
    problems: dict[int, str]


Parse = Callable[[list[bytes]], "pa.Table"]


class ValueFormat:
    """How values become the columns of ``schema``. Picklable: made on the driver, used in workers."""

    def __init__(
        self, kind: str, schema: pa.Schema, separator: str = ",", *, avro: str = "", framing: str = "none"
    ) -> None:
        """``avro``: the schema that values were written with; ``framing``: confluent, if five bytes stand before."""
        self.kind = kind
        self.schema = schema
        self.separator = separator
        self.avro = avro
        self.framed = framing == "confluent"
        if kind == "avro":
            known = field_names(avro)
            for name in schema.names:
                if name not in known:
                    raise ConfigError(f"schema: {name!r} is no field of value.avro.schema: {', '.join(known)}")
            _check_no_times(schema)
        else:
            check_types(kind, schema)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode all rows of a binary column."""
        if self.kind == "avro":
            return self._decode_avro(values.to_pylist())
        return self._decode_flat(values) or self._decode_lines(values.to_pylist())

    def _decode_flat(self, values: pa.Array) -> Decoded | None:
        """Decode JSON without anything nested by a kernel; the rows that it leaves are judged as all others would
        be."""
        import pyarrow as pa

        from kohort.columns.json_values.flat_objects import flat_columns

        flat = flat_columns(values, self.schema) if self.kind == "json" else None
        if flat is None or not len(flat.left):
            return None if flat is None else Decoded(flat.columns, {})
        rest = self._decode_lines(values.take(pa.array(flat.left)).to_pylist())
        return Decoded(flat.with_judged(rest.columns), {int(flat.left[row]): why for row, why in rest.problems.items()})

    def _decode_lines(self, lines: list[bytes | None]) -> Decoded:
        """Decode each value as a line of a text for Arrow's reader."""
        problems: dict[int, str] = {}
        check = _is_object if self.kind == "json" else _is_line
        whole: list[int] = []
        given: list[bytes] = []
        for row, line in enumerate(lines):
            problem = check(line)
            if problem:
                problems[row] = problem
            elif line is not None:
                whole.append(row)
                given.append(line)
        parse = self._parse_json if self.kind == "json" else self._parse_csv
        pieces: list[pa.Table] = []
        _parse_all(given, whole, parse, pieces, problems)
        return Decoded(self._in_place(pieces, len(lines), problems), problems)

    def _decode_avro(self, values: list[bytes | None]) -> Decoded:
        import pyarrow as pa

        read = compile_schema(self.avro)
        problems: dict[int, str] = {}
        rows: list[dict[str, Any]] = [{}] * len(values)
        for row, value in enumerate(values):
            try:
                rows[row] = _avro_row(read, value, framed=self.framed)
            except AvroError as error:
                problems[row] = str(error)[:_REASON_MOST]
        try:
            return Decoded(self._avro_columns(rows), problems)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        for row, one in enumerate(rows):  # a value that its column cannot hold: find whose
            try:
                self._avro_columns([one])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                problems[row] = " ".join(str(error).split())[:_REASON_MOST]
                rows[row] = {}
        return Decoded(self._avro_columns(rows), problems)

    def _avro_columns(self, rows: list[dict[str, Any]]) -> list[pa.Array]:
        import pyarrow as pa

        return [pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema]

    def _in_place(self, pieces: list[pa.Table], rows: int, problems: dict[int, str]) -> list[pa.Array]:
        """Return one array for each column, with null in the rows that have none."""
        import numpy as np
        import pyarrow as pa

        table = pa.concat_tables(pieces) if pieces else self.schema.empty_table()
        arrays = [_one_piece(table.column(i)) for i in range(len(self.schema))]
        if not problems:
            return arrays
        good = np.ones(rows, bool)
        good[list(problems)] = False
        places = np.cumsum(good) - 1
        taken = pa.array(places, mask=~good)
        return [array.take(taken) for array in arrays]

    def _parse_json(self, lines: list[bytes]) -> pa.Table:
        import pyarrow as pa
        from pyarrow import json

        body = b"\n".join(lines)
        if body.count(b"\n") != len(lines) - 1:  # legal between tokens, and nowhere else in JSON
            body = b"\n".join(line.replace(b"\n", b" ") for line in lines)
        table = json.read_json(
            pa.BufferReader(body),
            read_options=json.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=json.ParseOptions(explicit_schema=_readable(self.schema), unexpected_field_behavior="ignore"),
        )
        return self._checked(table, len(lines))

    def _parse_csv(self, lines: list[bytes]) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv

        body = b"\n".join(lines) + b"\n"
        table = csv.read_csv(
            pa.BufferReader(body),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=len(body) + 1, column_names=self.schema.names, encoding="utf8"
            ),
            parse_options=csv.ParseOptions(delimiter=self.separator, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=self.schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        return self._checked(table, len(lines))

    def _checked(self, table: pa.Table, rows: int) -> pa.Table:
        """Return the table in the schema's types. Raises ArrowInvalid unless it has one sound row for each line."""
        import pyarrow as pa

        if table.num_rows != rows:
            raise pa.ArrowInvalid("not exactly one record")
        table = table.select(self.schema.names).cast(self.schema)
        for column in table.columns:
            column.validate(full=True)  # Arrow's reader passes on text that is not UTF-8
        return table


def _parse_all(lines: list[bytes], rows: list[int], parse: Parse, into: list[Any], problems: dict[int, str]) -> None:
    """Parse ``lines``, halving where they fail; ``rows`` says which rows they are. Pieces come in order."""
    import pyarrow as pa

    if not lines:
        return
    try:
        into.append(parse(lines))
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        if len(lines) == 1:
            problems[rows[0]] = " ".join(str(error).split())[:_REASON_MOST]
            return
        middle = len(lines) // 2
        _parse_all(lines[:middle], rows[:middle], parse, into, problems)
        _parse_all(lines[middle:], rows[middle:], parse, into, problems)


def _avro_row(read: Reader, value: bytes | None, *, framed: bool) -> dict[str, Any]:
    """Return the fields of one value. Raises AvroError."""
    if value is None:
        raise AvroError(NO_VALUE)
    if framed:
        if len(value) < _FRAME or value[0]:
            raise AvroError("not framed: expected a zero byte and a schema id in front")
        value = value[_FRAME:]
    row, end = read(value)
    if end != len(value):
        raise AvroError(f"{len(value) - end} bytes follow the value")
    found: dict[str, Any] = row
    return found


def _is_object(line: bytes | None) -> str:
    """Return why a value cannot be one JSON object, judged by its ends: so that a block of lines has its objects in
    line."""
    if line is None:
        return NO_VALUE
    if line[:1] != b"{" or line[-1:] != b"}":
        line = line.strip()
        if line[:1] != b"{" or line[-1:] != b"}":
            return "not a JSON object" if line else "the value is empty"
    return ""


def _is_line(line: bytes | None) -> str:
    if line is None:
        return NO_VALUE
    if not line:
        return "the value is empty"
    if b"\n" in line.rstrip(b"\r\n"):
        return "more than one line of CSV"
    return "" if line[-1:] not in (b"\n", b"\r") else "a line break at the end of the value"


def _check_no_times(schema: pa.Schema) -> None:
    """Raise ConfigError for a column of Spark's type time, for which Avro's numbers would be nanoseconds."""
    import pyarrow.types as is_type

    for field in schema:
        if is_type.is_time(field.type):
            raise ConfigError(f"schema: column {field.name!r}: times of day are read from Avro as int or bigint")


def check_types(kind: str, schema: pa.Schema) -> None:
    """Raise ConfigError for a column that the format cannot give."""
    import pyarrow.types as is_type

    for field in schema:
        refused = _refused_type(field.type, top=True)
        if not refused and kind == "csv" and is_type.is_nested(field.type):
            refused = str(field.type)
        if refused:
            raise ConfigError(
                f"schema: column {field.name!r}: value.format={kind} cannot make {refused}; read it as string, or the "
                "whole value with value.format=raw"
            )


def _refused_type(kind: pa.DataType, *, top: bool = False) -> str:
    import pyarrow.types as is_type

    if is_type.is_struct(kind):
        return next(filter(None, (_refused_type(kind.field(i).type) for i in range(kind.num_fields))), "")
    if is_type.is_list(kind):
        return _refused_type(kind.value_type)
    if is_type.is_date(kind) and not top:
        return f"a nested {kind}"
    kinds: Sequence[Callable[[Any], bool]] = (
        is_type.is_integer, is_type.is_floating, is_type.is_string, is_type.is_boolean, is_type.is_timestamp,
        is_type.is_decimal, is_type.is_date,
    )  # fmt: skip
    return "" if any(test(kind) for test in kinds) else str(kind)


def _readable(schema: pa.Schema) -> pa.Schema:
    """Return what Arrow's JSON reader is told: dates arrive as text and are cast."""
    import pyarrow as pa
    import pyarrow.types as is_type

    return pa.schema([pa.field(f.name, pa.string() if is_type.is_date(f.type) else f.type) for f in schema])


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
