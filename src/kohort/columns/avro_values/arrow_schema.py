"""Reader's schema of Avro from an Arrow schema: some of the writers' fields, in chosen types.

A nullable field may be missing in a writer's schema. A string column also reads symbols of enums and UUIDs, a decimal
column also ``fixed``.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.avro_values.schema import DEPTH_MOST, NO_DEFAULT, TEXT, AvroProblem, Field, Type

PRIMITIVES: Final = {
    pa.bool_(): ("boolean", ""),
    pa.int32(): ("int", ""),
    pa.int64(): ("long", ""),
    pa.float32(): ("float", ""),
    pa.float64(): ("double", ""),
    pa.binary(): ("bytes", ""),
    pa.string(): ("string", TEXT),
    pa.date32(): ("int", "date"),
    pa.time32("ms"): ("int", "time-millis"),
    pa.time64("us"): ("long", "time-micros"),
}
UNITS: Final = {"ms": "millis", "us": "micros", "ns": "nanos"}


def reader_type(schema: pa.Schema) -> Type:
    """Return the record with the columns of a schema. Raises AvroProblem for a type that Avro does not have."""
    if len(set(schema.names)) < len(schema.names):
        raise AvroProblem("the Arrow schema has two columns of one name")
    return _record(list(schema), 0)


def _record(fields: list[pa.Field], depth: int) -> Type:
    made = Type("record", name="Arrow")
    made.fields = tuple(
        Field(field.name, _field_type(field, depth), None if field.nullable else NO_DEFAULT) for field in fields
    )
    return made


def _field_type(field: pa.Field, depth: int) -> Type:
    if depth > DEPTH_MOST:
        raise AvroProblem(f"the Arrow schema is nested more than {DEPTH_MOST} levels deep")
    try:
        made = _type(field.type, depth + 1)
    except AvroProblem as problem:
        raise AvroProblem(f"column {field.name!r}: {problem}") from None
    if not field.nullable:
        return made
    union = Type("union")
    union.branches = (Type("null", least=0), made)
    return union


def _type(kind: Any, depth: int) -> Type:
    if kind in PRIMITIVES:
        made = Type(PRIMITIVES[kind][0])
        made.logical = PRIMITIVES[kind][1]
    elif is_type.is_timestamp(kind) and kind.unit in UNITS and kind.tz in (None, "UTC"):
        made = Type("long")
        made.logical = f"{'' if kind.tz else 'local-'}timestamp-{UNITS[kind.unit]}"
    elif is_type.is_decimal128(kind) or is_type.is_decimal256(kind):
        made = Type("bytes")
        made.logical, made.precision, made.scale = "decimal", kind.precision, kind.scale
    elif is_type.is_fixed_size_binary(kind):
        made = Type("fixed", name="Arrow")
        made.size = kind.byte_width
    elif is_type.is_struct(kind):
        made = _record([kind.field(i) for i in range(kind.num_fields)], depth)
    elif is_type.is_list(kind):
        made = Type("array")
        made.items = _field_type(kind.value_field, depth)
    elif is_type.is_map(kind) and is_type.is_string(kind.key_type):
        made = Type("map")
        made.items = _field_type(kind.item_field, depth)
    else:
        raise AvroProblem(f"{kind} cannot be read from Avro")
    return made
