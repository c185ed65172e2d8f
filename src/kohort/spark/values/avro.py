"""Avro's binary encoding (specification 1.12, "Binary encoding"): a schema compiled into a reader of Python values.

Values come as Arrow takes them: records as dicts, maps as lists of pairs, logical types as dates, times and decimals.
Every length is checked against the bytes that remain, and nesting is bounded, so that a bad value is an AvroError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kohort.errors import ConfigError

Reader = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a place; returns it and the place after it."""

DEPTH_MOST: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_float = struct.Struct("<f")
_double = struct.Struct("<d")
_VARINT_MOST: Final = 10


class AvroError(ValueError):
    """Bytes that are not a value of the schema."""


@lru_cache(maxsize=64)
def compile_schema(text: str) -> Reader:
    """The reader of a schema, given as JSON. Raises ConfigError for what is no Avro schema."""
    return _compile(_parsed(text), {}, "")


def field_names(text: str) -> list[str]:
    """The fields of the record that the schema is. Raises ConfigError if it is none."""
    schema = _parsed(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ConfigError("value.avro.schema: expected a record at the top")
    compile_schema(text)
    return [field["name"] for field in schema["fields"]]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"value.avro.schema is not JSON: {error}") from None


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag number of variable length."""
    value = shift = 0
    for place in range(at, min(len(data), at + _VARINT_MOST)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
        shift += 7
    raise AvroError("a number that does not end")


def _taken(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0 or size > len(data) - at:
        raise AvroError(f"{size} bytes wanted, {len(data) - at} are left")
    return data[at : at + size], at + size


def _read_null(_data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte, at = _taken(data, at, 1)
    return byte != b"\0", at


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    raw, at = _taken(data, at, 4)
    return _float.unpack(raw)[0], at


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    raw, at = _taken(data, at, 8)
    return _double.unpack(raw)[0], at


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_varint(data, at)
    return _taken(data, at, size)


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _read_bytes(data, at)
    try:
        return raw.decode(), at
    except UnicodeDecodeError:
        raise AvroError("text that is not UTF-8") from None


PRIMITIVES: Final[dict[str, Reader]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": read_varint,
    "long": read_varint,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


def _compile(schema: Any, named: dict[str, Reader], space: str, depth: int = 0) -> Reader:
    if depth > DEPTH_MOST:
        raise ConfigError(f"value.avro.schema is nested more than {DEPTH_MOST} deep")
    if isinstance(schema, str):
        found = PRIMITIVES.get(schema) or named.get(schema) or named.get(f"{space}.{schema}")
        if found is None:
            raise ConfigError(f"value.avro.schema: unknown type {schema!r}")
        return found
    if isinstance(schema, list):
        return _union([_compile(branch, named, space, depth + 1) for branch in schema])
    if not isinstance(schema, dict) or "type" not in schema:
        raise ConfigError(f"value.avro.schema: expected a type, found {json.dumps(schema)[:80]}")
    kind = schema["type"]
    if kind in ("record", "enum", "fixed"):
        return _compile_named(schema, named, space, depth)
    if kind == "array":
        return _array(_compile(schema["items"], named, space, depth + 1))
    if kind == "map":
        return _map(_compile(schema["values"], named, space, depth + 1))
    return _logical(_compile(kind, named, space, depth + 1), schema)


def _compile_named(schema: Mapping[str, Any], named: dict[str, Reader], space: str, depth: int) -> Reader:
    name = schema.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"value.avro.schema: a {schema['type']} without a name")
    space = name.rpartition(".")[0] or schema.get("namespace", space)
    full = name if "." in name or not space else f"{space}.{name}"
    if schema["type"] == "enum":
        made = _enum(list(schema["symbols"]))
    elif schema["type"] == "fixed":
        size = int(schema["size"])
        made = _logical(lambda data, at: _taken(data, at, size), schema)
    else:
        fields: list[tuple[str, Reader]] = []
        made = _record(fields)
        named[full] = named[name] = made  # before its fields: a record may hold records like itself
        fields += [(f["name"], _compile(f["type"], named, space, depth + 1)) for f in schema["fields"]]
    named[full] = named[name] = made
    return made


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        row = {}
        for name, field in fields:
            row[name], at = field(data, at)
        return row, at

    return read


def _enum(symbols: list[str]) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = read_varint(data, at)
        if not 0 <= index < len(symbols):
            raise AvroError(f"symbol {index} of {len(symbols)}")
        return symbols[index], at

    return read


def _union(branches: list[Reader]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_varint(data, at)
        if not 0 <= index < len(branches):
            raise AvroError(f"branch {index} of {len(branches)}")
        return branches[index](data, at)

    return read


def _blocks(data: bytes, at: int, item: Callable[[int], int]) -> int:
    """Items in blocks, each with its count; a negative count is followed by the block's size, which is not needed."""
    while True:
        count, at = read_varint(data, at)
        if not count:
            return at
        if count < 0:
            count = -count
            _, at = read_varint(data, at)
        for _ in range(count):
            begin, at = at, item(at)
            if at == begin:  # of nulls a few bytes could claim any number, so that memory would have no bound
                raise AvroError("a list of items that take no bytes")


def _array(items: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []

        def one(at: int) -> int:
            value, at = items(data, at)
            found.append(value)
            return at

        return found, _blocks(data, at, one)

    return read


def _map(values: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
        found: list[tuple[str, Any]] = []

        def one(at: int) -> int:
            key, at = _read_string(data, at)
            value, at = values(data, at)
            found.append((key, value))
            return at

        return found, _blocks(data, at, one)

    return read


def _logical(plain: Reader, schema: Mapping[str, Any]) -> Reader:
    """The reader of a logical type; one that is not known is its plain type, as the specification says."""
    kind = schema.get("logicalType")
    scale = int(schema.get("scale", 0))
    turn: dict[Any, Callable[[Any], Any]] = {
        "date": lambda days: _FIRST_DAY + timedelta(days=days),
        "timestamp-millis": lambda ms: _EPOCH + timedelta(milliseconds=ms),
        "timestamp-micros": lambda us: _EPOCH + timedelta(microseconds=us),
        "decimal": lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale),
    }
    if kind not in turn:
        return plain
    convert = turn[kind]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = plain(data, at)
        try:
            return convert(value), at
        except (OverflowError, ArithmeticError) as error:
            raise AvroError(f"{kind} out of range: {error}") from None

    return read
