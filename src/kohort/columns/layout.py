"""Requested output columns: columns of the record, and columns of its value in JSON or Avro."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import pyarrow as pa

from kohort.columns.avro_values.decoder import decoder_of
from kohort.columns.avro_values.format import AvroFormat
from kohort.columns.conversions import Decoded, raise_first_problem
from kohort.columns.decode import requested_schema
from kohort.columns.json_values.columns import check_json_schema, json_columns
from kohort.columns.schema import COLUMNS, column_of, record_schema
from kohort.errors import UsageError

JSON_ERROR: Final = "json_error"
AVRO_ERROR: Final = "avro_error"


class ValueColumns(Protocol):
    """Decoder of values into columns. ``needed``: columns of the record; ``schema``: None before it is known."""

    name: str
    needed: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema | None: ...
    def decode(self, by_column: dict[str, pa.Array]) -> Decoded: ...


class JsonColumns:
    name = "JSON"
    needed: tuple[str, ...] = ("value",)

    def __init__(self, schema: pa.Schema) -> None:
        check_json_schema(schema)
        self.schema: pa.Schema | None = schema

    def decode(self, by_column: dict[str, pa.Array]) -> Decoded:
        return json_columns(by_column["value"], self.schema)


class AvroColumns:
    name = "Avro"

    def __init__(self, avro: AvroFormat) -> None:
        self._decoder = decoder_of(avro)
        self.needed = self._decoder.needed

    @property
    def schema(self) -> pa.Schema | None:
        return self._decoder.schema

    def decode(self, by_column: dict[str, pa.Array]) -> Decoded:
        return self._decoder.decode(by_column["value"].cast(pa.binary()), by_column.get("headers"))


class Layout:
    """Output columns. ``decoded``: columns to decode from the batches."""

    def __init__(
        self,
        schema: pa.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pa.Schema | None = None,
        *,
        json_errors: bool = False,
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
    ) -> None:
        """Check the columns. ``json``: schema of the JSON value; the column ``value`` is then omitted by default.

        ``json_errors``: keep the row of a malformed value, with the reason in the column ``json_error``. ``avro`` and
        ``avro_errors``: the same for Avro. Raises UsageError for unknown columns, and for a name in both the record's
        and the value's columns.
        """
        if json_errors and json is None:
            raise UsageError("json_errors=True needs json=, the schema of the values")
        if avro_errors and avro is None:
            raise UsageError("avro_errors=True needs avro=, the format of the values")
        if json is not None and avro is not None:
            raise UsageError("json= and avro= exclude each other: values have one format")
        for name, given, kind in (
            ("schema", schema, pa.Schema),
            ("json", json, pa.Schema),
            ("avro", avro, AvroFormat),
        ):
            if given is not None and not isinstance(given, kind):
                expected = "pyarrow.Schema" if kind is pa.Schema else "kohort.AvroFormat"
                raise UsageError(f"{name}= takes a {expected}, not {type(given).__name__}")
        self._error = JSON_ERROR if json_errors else AVRO_ERROR if avro_errors else ""
        self._errors = [pa.field(self._error, pa.string())] if self._error else []
        self._values: ValueColumns | None = None
        if json is not None:
            self._values = JsonColumns(json)
        elif avro is not None:
            self._values = AvroColumns(avro)
        names = None if columns is None else list(columns)
        if self._values is not None and schema is None and names is None:
            names = [name for name in COLUMNS if name != "value"]
        self._shown = requested_schema(schema, names)
        self.decoded = self._shown
        self._schema: pa.Schema | None = None
        if self._values is not None:
            self.decoded = self._with(("offset", *self._values.needed))
            self._schema = self._whole_schema(self._values)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output; without the value's columns while the Avro schema is unknown."""
        if self._schema is None and self._values is not None:
            self._schema = self._whole_schema(self._values)
        return self._schema or pa.schema([*self._shown, *self._errors])

    def _whole_schema(self, values: ValueColumns) -> pa.Schema | None:
        """Return the schema of the output; None before it is known. Raises UsageError for a duplicate name."""
        if values.schema is None:
            return None
        if self._error in values.schema.names:
            raise UsageError(f"the {values.name} schema has a column {self._error!r}: omit it, or omit {self._error}s")
        both = [name for name in values.schema.names if name in self._shown.names]
        if both:
            raise UsageError(
                f"{both[0]!r} is a column of the record and of its {values.name} value:"
                " omit it in columns= or in the schema of the value"
            )
        fields = [field.with_nullable(True) for field in values.schema] if self._error else values.schema
        return pa.schema([*self._shown, *fields, *self._errors])

    def finish(self, batch: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """Return the output columns of a decoded batch. Raises UndecodableValue with its offset."""
        if self._values is None:
            return batch
        by_column = {column_of(name): batch.column(i) for i, name in enumerate(batch.schema.names)}
        decoded = self._values.decode(by_column)
        made = decoded.columns
        if self._error:
            reasons = [decoded.problems.get(row) for row in range(batch.num_rows)]
            made = [*made, pa.array(reasons, pa.string())]
        else:
            name = self._values.name
            raise_first_problem(decoded, by_column["offset"], name, topic=topic, partition=partition)
        shown = [batch.column(i) for i in range(len(self._shown))]
        return pa.RecordBatch.from_arrays([*shown, *made], schema=self.schema)

    def table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        """Return the output batches as one table. Batches from before the Avro schema was known get nulls."""
        return pa.Table.from_batches([self._completed(batch) for batch in batches], schema=self.schema)

    def _completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_columns == len(self.schema):
            return batch
        names = batch.schema.names
        columns = [
            batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _with(self, needed: Iterable[str]) -> pa.Schema:
        has = {column_of(name) for name in self._shown.names}
        return pa.schema([*self._shown, *record_schema([name for name in needed if name not in has])])
