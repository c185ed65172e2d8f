"""Decodes record values into columns, for ``format("kohort")`` and the sources of pipelines.

JSON is decoded as by ``poll_arrow`` (columns/json_values), CSV by csv_records.py, Avro by avro.py. How a value is
decoded does not depend on the other values in its block.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions import REASON_MOST, Decoded
from kohort.columns.json_values.columns import read_json
from kohort.columns.json_values.object_reader import ObjectReader
from kohort.errors import ConfigError
from kohort.spark.options.changes import ChangeOptions
from kohort.spark.values.avro import AvroError, Reader, compile_schema, field_names
from kohort.spark.values.csv_records import CsvReader
from kohort.spark.values.debezium import ChangeReader

_FRAME: Final = 5


class ValueFormat:
    """Decoder of record values into the columns of ``schema``. Picklable: created on the driver, used in workers."""

    def __init__(
        self,
        kind: str,
        schema: pa.Schema,
        separator: str = ",",
        *,
        avro: str = "",
        framing: str = "none",
        changes: ChangeOptions | None = None,
    ) -> None:
        """Create a decoder of the format ``kind``: json, csv, avro or debezium.

        ``avro``: the writer's schema. ``framing``: ``confluent`` if a zero byte and a schema id precede each value.
        ``changes``: settings of the format debezium.
        """
        self.kind = kind
        self.schema = schema
        self.separator = separator
        self.avro = avro
        self.framed = framing == "confluent"
        self.changes = ChangeReader(schema, changes or ChangeOptions()) if kind == "debezium" else None
        if self.changes is not None:
            pass
        elif kind == "avro":
            known = field_names(avro)
            for name in schema.names:
                if name not in known:
                    raise ConfigError(f"schema: value.avro.schema has no field {name!r}, only {', '.join(known)}")
            for field in schema:
                if is_type.is_time(field.type):  # Arrow would read Avro's milliseconds as nanoseconds
                    raise ConfigError(
                        f"schema: column {field.name!r}: an Avro time of day must be read as int or bigint"
                    )
        else:
            check_types(kind, schema)

    def decode(self, values: pa.Array, zone: tzinfo = UTC, keys: pa.Array | None = None) -> Decoded:
        """Decode a binary column into the columns of the schema. A NULL becomes a row of NULLs.

        ``zone``: time zone of timestamps without a time zone. ``keys``: keys of the records, for change events.
        """
        if self.changes is not None:
            return self.changes.read_block(values, pa.nulls(len(values), pa.binary()) if keys is None else keys)
        if self.kind == "avro":
            return self._decode_avro(values.to_pylist())
        if self.kind == "json":
            return read_json(values, self.schema, zone)
        return CsvReader(self.schema, self.separator, zone).read_block(values)

    def _decode_avro(self, values: list[bytes | None]) -> Decoded:
        read = compile_schema(self.avro)
        problems: dict[int, str] = {}
        rows: list[dict[str, Any]] = [{}] * len(values)
        for row, value in enumerate(values):
            if value is None:
                continue
            try:
                rows[row] = _avro_row(read, value, framed=self.framed)
            except AvroError as error:
                problems[row] = str(error)[:REASON_MOST]
        try:
            return Decoded(self._avro_columns(rows), problems)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        for row, one in enumerate(rows):  # find rows with a value out of range for the column's type
            try:
                self._avro_columns([one])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                problems[row] = " ".join(str(error).split())[:REASON_MOST]
                rows[row] = {}
        return Decoded(self._avro_columns(rows), problems)

    def _avro_columns(self, rows: list[dict[str, Any]]) -> list[pa.Array]:
        columns = []
        for field in self.schema:
            column = [row.get(field.name) for row in rows]
            if "timestamp" in str(field.type):
                column = [_with_milliseconds(value, field.type) for value in column]
            columns.append(pa.array(column, field.type))
            columns[-1].validate(full=True)  # reject text that is not UTF-8
        return columns


def _with_milliseconds(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, int) and is_type.is_timestamp(kind):
        return value * 1000
    if isinstance(value, list):
        return [_with_milliseconds(item, kind.value_type) for item in value]
    if isinstance(value, dict) and is_type.is_map(kind):
        return {key: _with_milliseconds(item, kind.item_type) for key, item in value.items()}
    if isinstance(value, dict):
        return {f.name: _with_milliseconds(value.get(f.name), f.type) for f in kind}
    return value


def _avro_row(read: Reader, value: bytes, *, framed: bool) -> dict[str, Any]:
    if framed:
        if len(value) < _FRAME or value[0]:
            raise AvroError("the Avro value has no schema id: expected a zero byte and a schema id at its start")
        value = value[_FRAME:]
    row, end = read(value)
    if end != len(value):
        raise AvroError(f"{len(value) - end} bytes follow the Avro value")
    found: dict[str, Any] = row
    return found


def check_types(kind: str, schema: pa.Schema) -> None:
    for field in schema:
        one = pa.schema([field])
        try:
            if kind == "json":
                ObjectReader(one, UTC)
            else:
                CsvReader(one, ",", UTC)
        except TypeError as error:
            raise ConfigError(
                f"schema: column {field.name!r}: value.format={kind} does not support the type {error}; declare the "
                "column as string, or set value.format=raw"
            ) from None
