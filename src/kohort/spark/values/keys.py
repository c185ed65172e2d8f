"""Decodes record keys into one column: text, a number, or a struct of the columns of a JSON, Avro or Debezium key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions import REASON_MOST, Decoded
from kohort.columns.json_values.columns import read_json
from kohort.errors import ConfigError
from kohort.spark.options.changes import KEY_TYPES
from kohort.spark.values.debezium import KeyReader
from kohort.spark.values.value_format import ValueFormat, check_types

_SIZES: Final = {"int": 4, "long": 8}


class KeyFormat:
    """Decoder of keys. Picklable: created on the driver, used in workers."""

    def __init__(self, kind: str, field: pa.Field, *, avro: str = "", framing: str = "none") -> None:
        """Create a decoder of the format ``kind``. Raises ConfigError if the column does not have its type.

        ``field``: the decoded column. ``avro``: the writer's schema. ``framing``: ``confluent`` if a zero byte and a
        schema id precede each key.
        """
        self.name = field.name
        self._kind = kind
        self._type = field.type
        expected = {"text": pa.string(), "int": pa.int32(), "long": pa.int64()}.get(kind)
        if expected is not None and field.type != expected:
            raise ConfigError(f"schema: column {field.name!r} must be {KEY_TYPES[kind]} for key.format={kind}")
        if expected is None and not (is_type.is_struct(field.type) and field.type.num_fields):
            raise ConfigError(f"schema: column {field.name!r} must be a struct for key.format={kind}")
        self._columns = pa.schema(list(field.type)) if expected is None else pa.schema([])
        self._avro = ValueFormat("avro", self._columns, avro=avro, framing=framing) if kind == "avro" else None
        if kind == "json":
            check_types("json", self._columns)

    def decode(self, keys: pa.Array) -> Decoded:
        """Decode a binary column of keys into one column. A NULL stays NULL."""
        if self._kind in _SIZES:
            return self._each(keys, self._number)
        if self._kind == "text":
            return self._each(keys, bytes.decode)
        if self._avro is not None:
            decoded = self._avro.decode(keys)
        elif self._kind == "json":
            decoded = read_json(keys, self._columns, UTC)
        else:
            decoded = KeyReader(self._columns).read_block(keys)
        absent = keys.is_null()
        column = pa.StructArray.from_arrays(decoded.columns, fields=list(self._type), mask=absent)
        return Decoded([column], {row: self._problem(reason) for row, reason in decoded.problems.items()})

    def _each(self, keys: pa.Array, convert: Callable[[bytes], Any]) -> Decoded:
        found: list[Any] = []
        problems: dict[int, str] = {}
        for row, key in enumerate(keys.to_pylist()):
            try:
                found.append(None if key is None else convert(key))
            except ValueError as error:
                problems[row] = self._problem("not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error))
                found.append(None)
        return Decoded([pa.array(found, self._type)], problems)

    def _number(self, key: bytes) -> int:
        size = _SIZES[self._kind]
        if len(key) != size:
            raise ValueError(f"{len(key)} bytes, expected {size} for key.format={self._kind}")
        return int.from_bytes(key, "big", signed=True)

    @staticmethod
    def _problem(reason: str) -> str:
        return f"the key: {reason}"[:REASON_MOST]
