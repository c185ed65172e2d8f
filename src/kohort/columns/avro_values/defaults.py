"""Encode defaults of fields, from the JSON of a schema to Avro."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kohort.columns.avro_values.schema import NO_DEFAULT, TEXT_MOST, AvroProblem, Field, Type

RANGES: Final = {"int": 1 << 31, "long": 1 << 63}


def default_of(field: Field) -> bytes:
    """Return the default of a field in Avro. Raises AvroProblem for an invalid default."""
    if field.encoded is None:
        field.encoded = encode_default(field.type, field.default)
        if len(field.encoded) > TEXT_MOST:
            raise AvroProblem(f"the default of field {field.name!r} has more than {TEXT_MOST} bytes")
    return field.encoded


def encode_default(kind: Type, value: Any) -> bytes:
    """Return the default ``value`` of a field in Avro. Raises AvroProblem if it is not a value of the type.

    The default of a union may have the type of any branch, as in fastavro; the specification allows only the first one.
    """
    if kind.kind == "union":
        for place, branch in enumerate(kind.branches):
            try:
                return _long(place) + encode_default(branch, value)
            except AvroProblem:
                continue
    try:
        return _ENCODERS[kind.kind](kind, value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error):
        raise AvroProblem(f"the default {str(value)[:80]!r} is not a value of type {kind}") from None


def _long(value: int) -> bytes:
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _whole(kind: Type, value: Any) -> bytes:
    if type(value) is not int or not -RANGES[kind.kind] <= value < RANGES[kind.kind]:
        raise ValueError
    return _long(value)


def _number(kind: Type, value: Any) -> bytes:
    if type(value) not in (int, float):
        raise ValueError
    return struct.pack("<f" if kind.kind == "float" else "<d", value)


def _boolean(_: Type, value: Any) -> bytes:
    if type(value) is not bool:
        raise ValueError
    return bytes([value])


def _null(_: Type, value: Any) -> bytes:
    if value is not None:
        raise ValueError
    return b""


def _blob(kind: Type, value: Any) -> bytes:
    """Encode bytes, which JSON has as text of the code points 0 to 255."""
    data: bytes = value.encode("latin-1")
    if kind.kind == "fixed":
        if len(data) != kind.size:
            raise ValueError
        return data
    return _long(len(data)) + data


def _string(_: Type, value: Any) -> bytes:
    data: bytes = value.encode()
    return _long(len(data)) + data


def _enum(kind: Type, value: Any) -> bytes:
    return _long(kind.symbols.index(value))


def _list(kind: Type, value: Any) -> bytes:
    assert kind.items is not None
    if not isinstance(value, list):
        raise TypeError
    items = b"".join(encode_default(kind.items, item) for item in value)
    return (_long(len(value)) + items if value else b"") + b"\0"


def _map(kind: Type, value: Any) -> bytes:
    assert kind.items is not None
    pairs = b"".join(_string(kind, name) + encode_default(kind.items, item) for name, item in value.items())
    return (_long(len(value)) + pairs if value else b"") + b"\0"


def _record(kind: Type, value: Any) -> bytes:
    if not isinstance(value, dict):
        raise TypeError
    out = []
    for field in kind.fields:
        if field.name in value:
            out.append(encode_default(field.type, value[field.name]))
        elif field.default is not NO_DEFAULT:
            out.append(default_of(field))
        else:
            raise KeyError(field.name)
    return b"".join(out)


_ENCODERS: Final[dict[str, Callable[[Type, Any], bytes]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _number,
    "double": _number,
    "bytes": _blob,
    "fixed": _blob,
    "string": _string,
    "enum": _enum,
    "array": _list,
    "map": _map,
    "record": _record,
}
