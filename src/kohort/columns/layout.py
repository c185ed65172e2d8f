"""Requested output columns: columns of the record, and columns of its JSON value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from kohort.columns.decode import requested_schema
from kohort.columns.json_values.columns import check_json_schema, json_columns, raise_first_problem
from kohort.columns.schema import COLUMNS, column_of, record_schema
from kohort.errors import UsageError

JSON_ERROR: Final = "json_error"


class Layout:
    """Output columns. ``schema``: columns of the output; ``decoded``: columns to decode from the batches."""

    def __init__(
        self,
        schema: pa.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pa.Schema | None = None,
        *,
        json_errors: bool = False,
    ) -> None:
        """Check the columns. ``json``: schema of the JSON value; the column ``value`` is then omitted by default.

        ``json_errors``: keep the row of a malformed value, with the reason in the column ``json_error``. Raises
        UsageError for unknown columns, and for a name in both the record's and the value's columns.
        """
        if json_errors and json is None:
            raise UsageError("json_errors=True needs json=, the schema of the values")
        for name, given in (("schema", schema), ("json", json)):
            if given is not None and not isinstance(given, pa.Schema):
                raise UsageError(f"{name}= takes a pyarrow.Schema, not {type(given).__name__}")
        names = None if columns is None else list(columns)
        if json is not None and schema is None and names is None:
            names = [name for name in COLUMNS if name != "value"]
        self._shown = requested_schema(schema, names)
        self._json = json
        self._json_errors = json_errors
        self.schema = self.decoded = self._shown
        if json is not None:
            check_json_schema(json)
            both = [name for name in json.names if name in self._shown.names]
            if json_errors and JSON_ERROR in json.names:
                raise UsageError(f"the JSON schema has a column {JSON_ERROR!r}: omit it, or omit json_errors")
            if both:
                raise UsageError(
                    f"{both[0]!r} is a column of the record and of its JSON value:"
                    " omit it in columns= or in the schema of the value"
                )
            errors = [pa.field(JSON_ERROR, pa.string())] if json_errors else []
            fields = [field.with_nullable(True) for field in json] if json_errors else json
            self.schema = pa.schema([*self._shown, *fields, *errors])
            self.decoded = self._with(("offset", "value"))

    def finish(self, batch: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """Return the output columns of a decoded batch. Raises UndecodableValue with its offset."""
        if self._json is None:
            return batch
        by_column = {column_of(name): batch.column(i) for i, name in enumerate(batch.schema.names)}
        decoded = json_columns(by_column["value"], self._json)
        if self._json_errors:
            reasons = [decoded.problems.get(row) for row in range(batch.num_rows)]
            parsed = [*decoded.columns, pa.array(reasons, pa.string())]
        else:
            raise_first_problem(decoded, by_column["offset"], topic=topic, partition=partition)
            parsed = decoded.columns
        shown = [batch.column(i) for i in range(len(self._shown))]
        return pa.RecordBatch.from_arrays([*shown, *parsed], schema=self.schema)

    def _with(self, needed: Iterable[str]) -> pa.Schema:
        has = {column_of(name) for name in self._shown.names}
        return pa.schema([*self._shown, *record_schema([name for name in needed if name not in has])])
