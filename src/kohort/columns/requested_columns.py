"""The columns of the RecordBatches asked for: checked, with all that is the same for every batch. A small fetch is
decoded in less time than it takes to ask Arrow the same of seven types again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kohort.columns import kernels
from kohort.columns.schema import check_schema, column_of, is_text, is_wide

REMEMBERED_MOST: Final = 16
NOTED: Final[dict[str, tuple[int, ...]]] = {
    "topic": (),
    "partition": (),
    "offset": (kernels.OFFSETS,),
    "timestamp": (kernels.TIMES,),
    "timestamp_type": (),
    "key": (kernels.KEY_AT, kernels.KEY_LENGTH),
    "value": (kernels.VALUE_AT, kernels.VALUE_LENGTH),
    "headers": (kernels.HEADERS_AT, kernels.HEADERS_END),
}
"""What a walk has to note for each column."""
COLUMN_ARRAYS: Final = frozenset({kernels.OFFSETS, kernels.TIMES})
"""What is noted in the layout of a column already."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of a schema, and which column of records it asks for."""

    column: str
    name: str
    type: Any
    nullable: bool
    is_text: bool
    is_wide: bool


@dataclass(frozen=True, slots=True, eq=False)
class RequestedColumns:
    """``noted``: what a walk writes as columns; ``places``: what it writes for columns to be gathered from."""

    schema: Any
    columns: tuple[Column, ...]
    noted: tuple[int, ...]
    places: tuple[int, ...]


def column_for(field: Any, column: str = "") -> Column:
    kind = field.type
    return Column(column, field.name, kind, field.nullable, is_text(kind), is_wide(kind))


def requested_columns(schema: pa.Schema) -> RequestedColumns:
    """Raise UsageError for a column that records do not have, or one of a type that it cannot take."""
    known = _remembered.get(id(schema))
    if known is not None:
        return known
    check_schema(schema)
    columns = tuple(column_for(field, column_of(field.name)) for field in schema)
    arrays = {array for column in columns for array in NOTED[column.column]}
    requested = RequestedColumns(schema, columns, tuple(arrays & COLUMN_ARRAYS), tuple(sorted(arrays - COLUMN_ARRAYS)))
    _remembered[id(schema)] = requested
    for oldest in list(_remembered)[:-REMEMBERED_MOST]:
        _remembered.pop(oldest, None)
    return requested


_remembered: Final[dict[int, RequestedColumns]] = {}
"""By the identity of the schema, which is nobody else's as long as the form holds it: schemas are slow to compare."""
