"""The columns of a table: Arrow types that a format stores, and the fit of rows into an existing table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kohort.errors import TableError

MAX_DECIMAL_DIGITS: Final = 38
_STORED_AS: Final[dict[Any, Any]] = {
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    **{kind: kind for kind in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())},
    **{kind: kind for kind in (pa.date32(), pa.string(), pa.binary())},
}
_WIDER: Final[dict[Any, tuple[Any, ...]]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A table format, and the Arrow types that only one of the formats stores."""

    name: str
    small_integers: bool
    times: bool
    fixed_binary: bool


DELTA: Final = TableFormat("Delta", small_integers=True, times=False, fixed_binary=False)
ICEBERG: Final = TableFormat("Iceberg", small_integers=False, times=True, fixed_binary=True)


def stored_schema(schema: pa.Schema, form: TableFormat) -> pa.Schema:
    """Return the columns as the format stores them; all are nullable.

    Raises TableError for two columns of one name, and for a type that the format does not store.
    """
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise TableError(f"the rows have two columns {twice[0]!r}: rename or drop one in transform=")
    fields = []
    for field in schema:
        kind = stored_type(field.type, form)
        if kind is None:
            raise TableError(
                f"{form.name} does not store column {field.name!r} of Arrow type {field.type}: cast it in transform="
            )
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def stored_type(kind: pa.DataType, form: TableFormat) -> pa.DataType | None:
    """Return the Arrow type under which the format stores values of ``kind``; None if it stores none."""
    if isinstance(kind, pa.BaseExtensionType):
        return stored_type(kind.storage_type, form)
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type, form)
    if pa.types.is_struct(kind):
        members = [(field.name, stored_type(field.type, form)) for field in kind]
        return None if any(inner is None for _, inner in members) else pa.struct(members)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = stored_type(kind.value_type, form)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(kind):
        key, item = stored_type(kind.key_type, form), stored_type(kind.item_type, form)
        return None if key is None or item is None else pa.map_(key, item)
    return _stored_scalar(kind, form)


def _stored_scalar(kind: pa.DataType, form: TableFormat) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= MAX_DECIMAL_DIGITS else None
    if pa.types.is_fixed_size_binary(kind):
        return kind if form.fixed_binary else pa.binary()
    if pa.types.is_time(kind):
        return pa.time64("us") if form.times else None
    if kind in (pa.int8(), pa.int16()) and not form.small_integers:
        return pa.int32()
    return _STORED_AS.get(kind)


def new_columns(rows: pa.Schema, table: pa.Schema, name: str) -> list[pa.Field]:
    """Return the columns of ``rows`` that the table lacks; both schemas are stored ones.

    Raises TableError for a column of another type. A narrower integer or float fits.
    """
    for field in rows:
        if field.name not in table.names:
            continue
        kind = table.field(field.name).type
        if field.type != kind and kind not in _WIDER.get(field.type, ()):
            raise TableError(
                f"{name} has column {field.name!r} of type {kind}, the rows have {field.type}:"
                " a table's column keeps its type; cast or rename it in transform="
            )
    return [field for field in rows if field.name not in table.names]


def fit_rows(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Cast rows to the table's columns, in the table's order; a column that the rows lack is NULL."""
    columns = []
    for field in table:
        at = rows.schema.get_field_index(field.name)
        columns.append(pa.nulls(rows.num_rows, field.type) if at < 0 else _cast(rows.column(at), field.type))
    return pa.table(columns, schema=table)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], column.type.storage_type)
    if column.type == kind:
        return column
    return column.cast(kind, safe="[ns" not in str(column.type))  # nanoseconds are cut to microseconds
