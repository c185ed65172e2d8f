"""Reader of one JSON object into the values of a schema, by RFC 8259 (plus NaN and infinities).

Numbers are converted from their text, so no digit is lost. A text column accepts any value: a string's characters, or
the JSON text of another value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import tzinfo
from json.decoder import scanstring  # type: ignore[attr-defined]  # in no stub
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions.scalars import Scalar, checked_text, is_text, json_float, scalar_of, shown

Read = Callable[[str, int], tuple[Any, int]]
"""Reads the value at a position of the text; returns it and its end. Raises ValueError."""
_SPACE: Final = re.compile(r"[ \t\n\r]*").match
_SCAN: Final = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # in no stub
_WORDS: Final = {"true": True, "false": False}
_DEPTH: Final = "nested too deeply"


class ObjectReader:
    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        """Compile the reader. Raises TypeError for a column type that JSON does not support."""
        self._read = _struct([(field.name, field.type) for field in schema], zone, by_name=False)

    def read(self, value: bytes) -> list[Any]:
        """Return the value of each column. Raises ValueError unless ``value`` is one JSON object of the schema."""
        text = value.decode(errors="surrogateescape")  # skipped fields may contain invalid UTF-8
        at = _skip(text, 0)
        if at == len(text):
            raise ValueError("the value is empty")
        if text[at] != "{":
            raise ValueError("not a JSON object")
        try:
            row, end = self._read(text, at)
        except RecursionError:
            raise ValueError(_DEPTH) from None
        end = _skip(text, end)
        if end != len(text):
            raise ValueError(f"more after the JSON object: {shown(text[end:])}")
        found: list[Any] = row
        return found


def _skip(text: str, at: int) -> int:
    found = _SPACE(text, at)
    return found.end() if found else at


def _scan(text: str, at: int) -> tuple[Any, int]:
    """Return any JSON value and its end. Raises ValueError."""
    try:
        found: tuple[Any, int] = _SCAN(text, at)
    except StopIteration:
        left = shown(text[at:])
        raise ValueError(f"expected a JSON value, found {left}" if left else "the JSON ends in the middle") from None
    return found


def _reader_of(kind: pa.DataType, zone: tzinfo) -> Read:
    """Return the reader of a type. Raises TypeError for an unsupported type."""
    if is_type.is_dictionary(kind) and is_text(kind.value_type):
        kind = kind.value_type
    if is_type.is_struct(kind):
        return _struct([(kind.field(i).name, kind.field(i).type) for i in range(kind.num_fields)], zone, by_name=True)
    if is_type.is_list(kind) or is_type.is_large_list(kind):
        return _list(_reader_of(kind.value_type, zone))
    if is_type.is_map(kind) and is_text(kind.key_type):
        return _map(_reader_of(kind.item_type, zone))
    scalar = scalar_of(kind, zone)
    if scalar is None:
        raise TypeError(str(kind))
    return _any_as_text if is_text(kind) else _leaf(kind, scalar)


def _any_as_text(text: str, at: int) -> tuple[Any, int]:
    found, end = _scan(text, at)
    if found is None:
        return None, end
    return checked_text(found if isinstance(found, str) else text[at:end]), end


def _leaf(kind: pa.DataType, scalar: Scalar) -> Read:
    """Return the reader of numbers, booleans, times and base64, each from its JSON type only."""
    quoted = scalar.text
    if is_type.is_floating(kind):
        quoted = json_float
    elif is_type.is_integer(kind) or is_type.is_boolean(kind):
        quoted = None
    words = _WORDS if is_type.is_boolean(kind) else {}

    def read(text: str, at: int) -> tuple[Any, int]:
        found, end = _scan(text, at)
        if found is None:
            return None, end
        if isinstance(found, bool) and words:
            return found, end
        convert = quoted if isinstance(found, str) else scalar.number if isinstance(found, int | float) else None
        if convert is None or isinstance(found, bool):
            raise ValueError(f"expected {kind}, found {shown(text[at:end])}")
        try:
            return convert(found if isinstance(found, str) else text[at:end]), end
        except ValueError as error:
            raise ValueError(f"{error}, found {shown(text[at:end])}") from None

    return read


def _struct(fields: list[tuple[str, pa.DataType]], zone: tzinfo, *, by_name: bool) -> Read:
    """Return the reader of objects with these fields; skips other fields; the last duplicate counts."""
    readers = {name: (place, _reader_of(kind, zone)) for place, (name, kind) in enumerate(fields)}
    names = [name for name, _ in fields]

    def read(text: str, at: int) -> tuple[Any, int]:
        if text[at : at + 1] != "{":
            return _null_or_raise(text, at, "an object")
        row: list[Any] = [None] * len(names)
        at = _skip(text, at + 1)
        if text[at : at + 1] == "}":
            return (dict(zip(names, row, strict=True)) if by_name else row), at + 1
        while True:
            name, at = _field_name(text, at)
            found = readers.get(name)
            if found is None:
                _, at = _scan(text, at)
            else:
                try:
                    row[found[0]], at = found[1](text, at)
                except ValueError as error:
                    raise ValueError(f"column {name!r}: {error}") from None
            at = _skip(text, at)
            if text[at : at + 1] == "}":
                return (dict(zip(names, row, strict=True)) if by_name else row), at + 1
            at = _comma(text, at)

    return read


def _map(read_value: Read) -> Read:
    """Return the reader of objects as maps. A duplicate key is an error: a map would lose a value."""

    def read(text: str, at: int) -> tuple[Any, int]:
        if text[at : at + 1] != "{":
            return _null_or_raise(text, at, "an object")
        pairs: dict[str, Any] = {}
        at = _skip(text, at + 1)
        if text[at : at + 1] == "}":
            return [], at + 1
        while True:
            name, at = _field_name(text, at)
            checked_text(name)
            if name in pairs:
                raise ValueError(f"duplicate key {shown(name)!r}")
            pairs[name], at = read_value(text, at)
            at = _skip(text, at)
            if text[at : at + 1] == "}":
                return list(pairs.items()), at + 1
            at = _comma(text, at)

    return read


def _list(read_item: Read) -> Read:
    def read(text: str, at: int) -> tuple[Any, int]:
        if text[at : at + 1] != "[":
            return _null_or_raise(text, at, "an array")
        items: list[Any] = []
        at = _skip(text, at + 1)
        if text[at : at + 1] == "]":
            return items, at + 1
        while True:
            item, at = read_item(text, at)
            items.append(item)
            at = _skip(text, at)
            if text[at : at + 1] == "]":
                return items, at + 1
            at = _comma(text, at)

    return read


def _null_or_raise(text: str, at: int, expected: str) -> tuple[None, int]:
    found, end = _scan(text, at)
    if found is not None:
        raise ValueError(f"expected {expected}, found {shown(text[at:end])}")
    return None, end


def _field_name(text: str, at: int) -> tuple[str, int]:
    """Return a name and the position of its value. Raises ValueError."""
    if text[at : at + 1] != '"':
        raise ValueError(f"expected a field's name in double quotes, found {shown(text[at:]) or 'the end'}")
    name, at = scanstring(text, at + 1, True)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"expected a colon after {shown(name)!r}, found {shown(text[at:]) or 'the end'}")
    return name, _skip(text, at + 1)


def _comma(text: str, at: int) -> int:
    """Return the position after a comma and blanks. Raises ValueError."""
    if text[at : at + 1] != ",":
        raise ValueError(f"expected a comma, found {shown(text[at:]) or 'the end'}")
    return _skip(text, at + 1)
