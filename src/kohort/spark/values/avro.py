"""Values of Avro's binary encoding, read by fastavro, and what is done before it so that no value can do harm.

fastavro is fast and trusts what it reads, in four things that this module takes care of, by the schema alone:

- A list of items that take no bytes (nulls, say) can claim any number of them in a few bytes. A schema that has such a
  list is refused.
- A record that may hold records like itself is read by recursion in C: twenty kilobytes, nested deep enough, end the
  process. Such a schema goes to fastavro's twin in Python, where depth is an error.
- A decimal is rounded to the schema's precision. Here it is read exactly, and the column says what it can hold.
- Times of day would be values that no column of Spark takes; they stay the numbers that they are. A uuid is its text.

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
"""Reads the value that the bytes begin with; returns it and the number of bytes that it takes. Raises AvroError."""

DEPTH_MOST: Final = 64
_DECIMAL_BYTES_MOST: Final = 64
"""Four times what a decimal of Spark needs; the work of making a number of its bytes grows with their square."""
_EXACT: Final = Context(prec=160)
"""As many digits as so many bytes can have, so that nothing is rounded."""
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
"""The logical types that are read, by the name for fastavro: its own, or one of a reader that is registered here. Any
other is its plain type, as the specification says."""


class AvroError(ValueError):
    """Bytes that are not a value of the schema."""


@lru_cache(maxsize=64)
def compile_schema(text: str) -> Reader:
    """Return the reader of a schema, given as JSON.

    Raises ConfigError for what is no Avro schema and for one with lists of items that take no bytes, MissingExtra
    without fastavro.
    """
    with needs("pipeline", "value.format=avro"):
        import fastavro
        from fastavro import _read_py as in_python  # private, and the only way to a reader that depth cannot end
        from fastavro.schema import SchemaParseException
    _register_readers()
    given, checked = _parsed(text), _Checked()
    try:
        ready = checked.rewrite(given, "", 0)
        checked.check_lists()
        schema = fastavro.parse_schema(ready)
    except ConfigError:
        raise
    except (SchemaParseException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"value.avro.schema: {' '.join(str(error).split())}") from None
    schemaless_reader = in_python.schemaless_reader if checked.recursive else fastavro.schemaless_reader
    failures = (EOFError, LookupError, ValueError, ArithmeticError, TypeError, RecursionError, struct.error)

    def read(data: bytes) -> tuple[Any, int]:
        source = BytesIO(data)
        try:
            value = schemaless_reader(source, schema, None)
        except failures as error:
            raise AvroError(_why(error, source.tell(), len(data))) from None
        return value, source.tell()

    return read


def field_names(text: str) -> list[str]:
    """Return the fields of the record that the schema is. Raises ConfigError if it is none."""
    schema = _parsed(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ConfigError("value.avro.schema: expected a record at the top")
    compile_schema(text)
    return [field["name"] for field in schema["fields"]]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"value.avro.schema is not JSON: {error}") from None


def _why(error: Exception, at: int, size: int) -> str:
    if isinstance(error, RecursionError):
        return "records nested too deep"
    if isinstance(error, EOFError) or (isinstance(error, IndexError) and at >= size):
        return "the value ends in the middle"
    if isinstance(error, IndexError):
        return "a branch or a symbol that the schema does not have"
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    return " ".join(str(error).split()) or type(error).__name__


def _register_readers() -> None:
    """Tell fastavro how to read the logical types that it does not read as Spark wants them."""
    from fastavro.read import LOGICAL_READERS

    LOGICAL_READERS["bytes-kohort-decimal"] = LOGICAL_READERS["fixed-kohort-decimal"] = _read_decimal
    LOGICAL_READERS["string-kohort-uuid"] = lambda text, *_: str(UUID(text))
    LOGICAL_READERS["fixed-kohort-uuid"] = lambda raw, *_: str(UUID(bytes=raw))


def _read_decimal(raw: bytes, schema: Any, *_: Any) -> Decimal:
    if len(raw) > _DECIMAL_BYTES_MOST:
        raise AvroError(f"a decimal of {len(raw)} bytes")
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-schema["kohort-scale"], _EXACT)


class _Checked:
    """One schema on its way to fastavro: rewritten, its named types known, its lists kept for a look at the end."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._open: list[str] = []
        self._lists: list[Any] = []
        self.recursive = False

    def rewrite(self, schema: Any, space: str, depth: int) -> Any:
        """Return the schema with the logical types that are read here. Raises ConfigError for what is no type."""
        if depth > DEPTH_MOST:
            raise ConfigError(f"value.avro.schema is nested more than {DEPTH_MOST} deep")
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
            raise ConfigError(f"value.avro.schema: a {schema['type']} without a name")
        space = name.rpartition(".")[0] or schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        made: dict[str, Any] = {"type": schema["type"], "name": name.rpartition(".")[2], "namespace": space}
        if schema["type"] == "enum":
            made["symbols"] = _inside(schema, "symbols")
        elif schema["type"] == "fixed":
            made |= {"size": _whole(_inside(schema, "size"), "size"), **_logical("fixed", schema)}
        else:
            self._types[full] = made  # before its fields: a record may hold records like itself
            self._open.append(full)
            given = [(_inside(field, "name"), _inside(field, "type")) for field in _inside(schema, "fields")]
            made["fields"] = [{"name": n, "type": self.rewrite(kind, space, depth + 1)} for n, kind in given]
            self._open.pop()
        self._types[full] = made
        return made

    def check_lists(self) -> None:
        """Raise ConfigError for a list whose items take no bytes: a few bytes could claim any number of them."""
        if any(self._is_empty(items, ()) for items in self._lists):
            raise ConfigError("value.avro.schema: a list of items that take no bytes, of which any number could come")

    def _is_empty(self, schema: Any, seen: tuple[str, ...]) -> bool:
        if isinstance(schema, str):
            named = self._types.get(schema)
            return schema == "null" if named is None else schema in seen or self._is_empty(named, (*seen, schema))
        if not isinstance(schema, dict):
            return False  # a union begins with the number of its branch
        if schema["type"] == "fixed":
            return not schema["size"]
        return "fields" in schema and all(self._is_empty(field["type"], seen) for field in schema["fields"])


def _inside(schema: Any, key: str) -> Any:
    """Return what a type must have. Raises ConfigError."""
    if not isinstance(schema, dict) or key not in schema:
        raise ConfigError(f"value.avro.schema: expected {key!r} in {json.dumps(schema)[:80]}")
    return schema[key]


def _logical(plain: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    name = schema.get("logicalType")
    known = _LOGICAL.get((plain, name)) if isinstance(name, str) else None
    if known is None or (known == "kohort-uuid" and plain == "fixed" and schema.get("size") != 16):
        return {}
    scale = {"kohort-scale": _whole(schema.get("scale", 0), "scale")} if name == "decimal" else {}
    return {"logicalType": known} | scale


def _whole(found: Any, key: str) -> int:
    """Return a number of a schema. Raises ConfigError."""
    try:
        return int(found)
    except (TypeError, ValueError, OverflowError):
        shown = json.dumps(found)[:80]
        raise ConfigError(f"value.avro.schema: expected a whole number as {key!r}, found {shown}") from None
