"""Avro values, decoded by fastavro. The schema is checked first, so that no value can exhaust memory or crash a worker.

fastavro trusts its input. This module differs from plain fastavro in four points:

- A list of items without bytes (nulls) can claim any number of items in a few bytes. Such schemas are rejected.
- fastavro reads a recursive record by recursion in C: 20 KB, nested deeply, crash the process. For such schemas this
  module uses fastavro's Python reader, which raises an error if the nesting is too deep.
- fastavro rounds decimals to the schema's precision. This module reads them exactly, and the column checks the range.
- fastavro converts times of day and uuids to Python objects. Here a time of day stays a number, a uuid becomes text.

See docs/adr/0014-avro-by-fastavro.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from kohort.errors import ConfigError
from kohort.extras import needs

Reader = Callable[[bytes], tuple[Any, int]]
"""Function that reads one Avro value at the start of the given bytes.

It returns the value and its length in bytes. It raises AvroError.
"""

DEPTH_MOST: Final = 64
_DECIMAL_BYTES_MOST: Final = 64
"""Maximum size of an Avro decimal in bytes. The conversion of larger decimals takes too long (quadratic time)."""
_EXACT: Final = Context(prec=160)
"""Decimal context that is precise enough for _DECIMAL_BYTES_MOST bytes, so that nothing is rounded."""
_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED: Final = ("record", "error", "enum", "fixed")
_LOGICAL: Final = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp-millis",
    ("long", "timestamp-micros"): "timestamp-micros",
    ("long", "local-timestamp-millis"): "local-timestamp-millis",
    ("long", "local-timestamp-micros"): "local-timestamp-micros",
    ("bytes", "decimal"): "kohort-decimal",
    ("fixed", "decimal"): "kohort-decimal",
    ("string", "uuid"): "kohort-uuid",
    ("fixed", "uuid"): "kohort-uuid",
}
"""Supported Avro logical types, and the name of the fastavro reader for each type.

fastavro has some of these readers; this module registers the others. Other logical types are read as their underlying
type, as the specification requires.
"""


class AvroError(ValueError):
    pass


@lru_cache(maxsize=64)
def compile_schema(text: str) -> Reader:
    """Compile an Avro schema (JSON) into a function that reads values.

    Raises ConfigError for an invalid schema, and for arrays whose items take no bytes: their length is unbounded.
    Raises MissingExtra if fastavro is not installed.
    """
    with needs("pipeline", "value.format=avro"):
        import fastavro

        # fastavro's Python reader is private, but only this reader survives deep nesting
        from fastavro import _read_py as in_python
        from fastavro.read import LOGICAL_READERS
        from fastavro.schema import SchemaParseException
    LOGICAL_READERS["bytes-kohort-decimal"] = LOGICAL_READERS["fixed-kohort-decimal"] = _read_decimal
    LOGICAL_READERS["string-kohort-uuid"] = lambda text, *_: str(UUID(text))
    LOGICAL_READERS["fixed-kohort-uuid"] = lambda raw, *_: str(UUID(bytes=raw))
    given, rewriter = _parsed(text), _SchemaRewriter()
    try:
        rewritten = rewriter.rewrite(given, "", 0)
        rewriter.check_lists()
        schema = fastavro.parse_schema(rewritten)
    except ConfigError:
        raise
    except (SchemaParseException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"value.avro.schema: {' '.join(str(error).split())}") from None
    schemaless_reader = in_python.schemaless_reader if rewriter.recursive else fastavro.schemaless_reader
    failures = (EOFError, LookupError, ValueError, ArithmeticError, TypeError, RecursionError, struct.error)

    def read(data: bytes) -> tuple[Any, int]:
        source = BytesIO(data)
        try:
            value = schemaless_reader(source, schema, None)
        except failures as error:
            raise AvroError(_reason(error, source.tell(), len(data))) from None
        return value, source.tell()

    return read


def field_names(text: str) -> list[str]:
    schema = _parsed(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ConfigError("value.avro.schema: the top-level type must be a record")
    compile_schema(text)
    return [field["name"] for field in schema["fields"]]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"value.avro.schema is not JSON: {error}") from None


def _reason(error: Exception, at: int, size: int) -> str:
    if isinstance(error, RecursionError):
        return "records nested too deep"
    if isinstance(error, EOFError) or (isinstance(error, IndexError) and at >= size):
        return "the value is truncated"
    if isinstance(error, IndexError):
        return "a branch or symbol index outside the schema"
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    return " ".join(str(error).split()) or type(error).__name__


def _read_decimal(raw: bytes, schema: Any, *_: Any) -> Decimal:
    if len(raw) > _DECIMAL_BYTES_MOST:
        raise AvroError(f"the Avro decimal has {len(raw)} bytes, expected at most {_DECIMAL_BYTES_MOST}")
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-schema["kohort-scale"], _EXACT)


class _SchemaRewriter:
    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._open: list[str] = []
        self._lists: list[Any] = []
        self.recursive = False

    def rewrite(self, schema: Any, space: str, depth: int) -> Any:
        """Convert an Avro schema for fastavro; omit unsupported logical types. Raises ConfigError."""
        if depth > DEPTH_MOST:
            raise ConfigError(f"value.avro.schema is nested more than {DEPTH_MOST} levels deep")
        if isinstance(schema, str):
            return self._reference(schema, space)
        if isinstance(schema, list):
            return [self.rewrite(branch, space, depth + 1) for branch in schema]
        if not isinstance(schema, dict) or "type" not in schema:
            raise ConfigError(f"value.avro.schema: expected a type, found {json.dumps(schema)[:80]}")
        kind = schema["type"]
        if isinstance(kind, str) and kind in _NAMED:
            return self._named(schema, space, depth)
        if kind == "array":
            items = self.rewrite(_inside(schema, "items"), space, depth + 1)
            self._lists.append(items)
            return {"type": "array", "items": items}
        if kind == "map":
            return {"type": "map", "values": self.rewrite(_inside(schema, "values"), space, depth + 1)}
        inner = self.rewrite(kind, space, depth + 1)
        logical = _logical(inner, schema) if isinstance(inner, str) else {}
        return {"type": inner, **logical} if logical else inner

    def _reference(self, name: str, space: str) -> str:
        if name in _PRIMITIVES:
            return name
        full = name if "." in name or not space else f"{space}.{name}"
        found = next((known for known in (full, name) if known in self._types), None)
        if found is None:
            raise ConfigError(f"value.avro.schema: unknown type {name!r}")
        self.recursive |= found in self._open
        return found

    def _named(self, schema: Mapping[str, Any], space: str, depth: int) -> dict[str, Any]:
        name = schema.get("name")
        if not isinstance(name, str):
            raise ConfigError(f"value.avro.schema: type {schema['type']} needs a name")
        space = name.rpartition(".")[0] or schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        made: dict[str, Any] = {"type": schema["type"], "name": name.rpartition(".")[2], "namespace": space}
        if schema["type"] == "enum":
            made["symbols"] = _inside(schema, "symbols")
        elif schema["type"] == "fixed":
            made |= {"size": _whole(_inside(schema, "size"), "size"), **_logical("fixed", schema)}
        else:
            self._types[full] = made  # register the type before its fields: a record may contain itself
            self._open.append(full)
            given = [(_inside(field, "name"), _inside(field, "type")) for field in _inside(schema, "fields")]
            made["fields"] = [{"name": n, "type": self.rewrite(kind, space, depth + 1)} for n, kind in given]
            self._open.pop()
        self._types[full] = made
        return made

    def check_lists(self) -> None:
        """Raise ConfigError for a list whose items take no bytes: a few bytes could declare any number of items."""
        if any(self._is_empty(items, ()) for items in self._lists):
            raise ConfigError("value.avro.schema: lists of items without bytes (such as null) are not supported")

    def _is_empty(self, schema: Any, seen: tuple[str, ...]) -> bool:
        if isinstance(schema, str):
            named = self._types.get(schema)
            return schema == "null" if named is None else schema in seen or self._is_empty(named, (*seen, schema))
        if not isinstance(schema, dict):
            return False  # an Avro union starts with its branch number, so it is never empty
        if schema["type"] == "fixed":
            return not schema["size"]
        return "fields" in schema and all(self._is_empty(field["type"], seen) for field in schema["fields"])


def _inside(schema: Any, key: str) -> Any:
    if not isinstance(schema, dict) or key not in schema:
        raise ConfigError(f"value.avro.schema: expected the key {key!r} in {json.dumps(schema)[:80]}")
    return schema[key]


def _logical(plain: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    name = schema.get("logicalType")
    known = _LOGICAL.get((plain, name)) if isinstance(name, str) else None
    if known is None or (known == "kohort-uuid" and plain == "fixed" and schema.get("size") != 16):
        return {}
    scale = {"kohort-scale": _whole(schema.get("scale", 0), "scale")} if name == "decimal" else {}
    return {"logicalType": known} | scale


def _whole(found: Any, key: str) -> int:
    try:
        return int(found)
    except (TypeError, ValueError, OverflowError):
        shown = json.dumps(found)[:80]
        raise ConfigError(f"value.avro.schema: expected a whole number as {key!r}, found {shown}") from None
