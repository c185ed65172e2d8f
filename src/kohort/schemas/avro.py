"""Avro with registered schemas, by fastavro: references, evolution, logical types, checks of hostile schemas."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final, Unpack

from kohort.errors import ConfigError, UndecodableValue
from kohort.extras import needs
from kohort.schemas.registered import (
    Convert,
    DeserializerOptions,
    RegistryDeserializer,
    RegistrySerializer,
    SerializerOptions,
    schema_argument,
)
from kohort.schemas.schema import AVRO, ResolvedSchema, Schema
from kohort.schemas.serde import AnySchemaRegistry

FEATURE: Final = "an Avro serializer"
DEEPEST: Final = 100
"""Limit of nesting levels in a schema."""
_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
_DAMAGED: Final = (EOFError, LookupError, ValueError, ArithmeticError, TypeError, RecursionError, struct.error)


class AvroSerializer(RegistrySerializer):
    """Serializer of Avro: ``AvroSerializer(registry, schema)``. Needs ``kohort[schemas]``.

    ``schema``: Avro schema as JSON text, or a ``Schema`` with references. Values are dicts and standard types, or
    objects that ``to_dict(value, ctx)`` converts. ``validate_strict``: reject records with missing or additional
    fields; ``validate_strict_allow_default``: missing fields need a default. The other options are those of all
    serializers with a registry: docs/guides/schemas.md. Raises ConfigError for an invalid schema or option.
    """

    def __init__(
        self,
        registry: AnySchemaRegistry,
        schema: str | Schema | None = None,
        to_dict: Convert | None = None,
        *,
        validate_strict: bool = False,
        validate_strict_allow_default: bool = False,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, schema_argument(schema, AVRO), to_dict, options)
        self._checks = {"strict": validate_strict, "strict_allow_default": validate_strict_allow_default}
        if self.schema is not None:
            self.record_name = record_name(_json(self.schema.schema_str))
            if not self.schema.references:
                AvroSchema(self.schema.schema_str)

    def _encoder(self, resolved: ResolvedSchema) -> Callable[[Any], bytes]:
        """Return the function that encodes values of a schema."""
        avro = avro_schema(resolved)
        if avro.is_bytes:
            return _as_bytes
        with needs("schemas", FEATURE):
            from fastavro import schemaless_writer
        parsed, checks = avro.parsed, self._checks

        def encode(value: Any) -> bytes:
            out = BytesIO()
            schemaless_writer(out, parsed, value, **checks)
            return out.getvalue()

        return encode


class AvroDeserializer(RegistryDeserializer):
    """Deserializer of Avro: ``AvroDeserializer(registry)``. Needs ``kohort[schemas]``.

    ``schema``: the reader's schema; default: each value is read with the schema of its writer. Records become dicts,
    which ``from_dict(value, ctx)`` may convert. ``return_record_name``: in a union, a record is a tuple of its name and
    the dict. ``use_latest_version``: read with the latest version of the subject.
    """

    def __init__(
        self,
        registry: AnySchemaRegistry,
        schema: str | Schema | None = None,
        from_dict: Convert | None = None,
        return_record_name: bool = False,  # as in confluent-kafka
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, schema_argument(schema, AVRO), from_dict, options)
        self._return_record_name = return_record_name
        if self.schema is not None and not self.schema.references:
            AvroSchema(self.schema.schema_str)

    def _decoder(
        self,
        writer: ResolvedSchema | None,
        reader: ResolvedSchema | None,
        path: tuple[int, ...],  # noqa: ARG002
    ) -> Callable[[bytes], Any]:
        """Return the function that decodes values of a schema."""
        if writer is None:
            raise ConfigError("AvroDeserializer needs a schema registry")
        written = avro_schema(writer)
        wanted = None if reader is None else avro_schema(reader).parsed
        if written.is_bytes and wanted is None:
            return bytes
        return written.reader(wanted, return_record_name=self._return_record_name)


class AvroSchema:
    """Avro schema as fastavro reads it. ``named``: schemas of the types that it refers to.

    Raises ConfigError for an invalid schema, and for arrays of items without bytes, such as null: a few bytes could
    claim any number of items.
    """

    def __init__(self, text: str, named: Mapping[str, str] | None = None) -> None:
        with needs("schemas", FEATURE):
            from fastavro import parse_schema
            from fastavro.schema import SchemaParseException
        builder = _Builder({name: _json(text) for name, text in (named or {}).items()})
        try:
            whole = builder.built(_json(text), "", 0)
            builder.check_arrays()
            self.parsed: Any = parse_schema(whole)
        except ConfigError:
            raise
        except (SchemaParseException, ValueError, TypeError, LookupError, AttributeError) as error:
            raise ConfigError(f"invalid Avro schema: {' '.join(str(error).split()) or type(error).__name__}") from None
        self.is_recursive = builder.recursive
        kind = whole.get("type") if isinstance(whole, dict) else whole
        self.is_bytes = kind == "bytes" and not (isinstance(whole, dict) and "logicalType" in whole)

    def reader(self, wanted: Any, *, return_record_name: bool) -> Callable[[bytes], Any]:
        """Return the function that reads a value, with the reader's schema ``wanted`` if there is one.

        fastavro reads recursive records by recursion in C, which deep nesting in a few bytes would crash. For these
        schemas its reader in Python raises an error (ADR 14).
        """
        from fastavro import schemaless_reader

        if self.is_recursive:
            from fastavro._read_py import schemaless_reader
        parsed = self.parsed
        if self.is_bytes:
            return lambda data: schemaless_reader(BytesIO(_length(data) + data), parsed, wanted)

        def read(data: bytes) -> Any:
            source = BytesIO(data)
            try:
                return schemaless_reader(source, parsed, wanted, return_record_name)
            except _DAMAGED as error:
                raise UndecodableValue(f"Avro: {_reason(error, source.tell(), len(data))}") from error

        return read


def avro_schema(resolved: ResolvedSchema) -> AvroSchema:
    """Parse a registered Avro schema with its references. Raises ConfigError, also for another type of schema."""
    schema = resolved.registered.schema
    if schema.schema_type != AVRO:
        raise ConfigError(f"the schema has type {schema.schema_type}, not {AVRO}")
    return AvroSchema(schema.schema_str, dict(resolved.named))


def record_name(schema: Any) -> str | None:
    """Return the full name of a named type, and the name of a primitive type; None for a union."""
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        return None
    name = schema.get("name")
    if not isinstance(name, str):
        kind = schema.get("type")
        return kind if isinstance(kind, str) else None
    space = schema.get("namespace")
    return name if "." in name or not space else f"{space}.{name}"


class _Builder:
    """Builds one schema from a schema and its references: each referenced type is declared at its first use."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._types: dict[str, Any] = {}
        self._open: list[str] = []
        self._arrays: list[Any] = []
        self.recursive = False

    def built(self, schema: Any, space: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise ConfigError(f"invalid Avro schema: nested more than {DEEPEST} levels deep")
        if isinstance(schema, str):
            return self._reference(schema, space, depth)
        if isinstance(schema, list):
            return [self.built(branch, space, depth + 1) for branch in schema]
        if not isinstance(schema, dict) or "type" not in schema:
            raise ConfigError(f"invalid Avro schema: expected a type, found {json.dumps(schema)[:80]}")
        kind = schema["type"]
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            made = {**schema, key: self.built(schema.get(key), space, depth + 1)}
            if kind == "array":
                self._arrays.append(made[key])
            return made
        if isinstance(kind, str) and kind in _NAMED:
            return self._declared(schema, space, depth)
        return {**schema, "type": self.built(kind, space, depth + 1)}

    def _reference(self, name: str, space: str, depth: int) -> Any:
        if name in _PRIMITIVES:
            return name
        full = name if "." in name or not space else f"{space}.{name}"
        for known in (full, name):
            if known in self._types:
                self.recursive |= known in self._open
                return known
        for known in (full, name):
            if known in self._named:
                return self.built(self._named[known], "", depth + 1)
        raise ConfigError(f"invalid Avro schema: unknown type {name!r}, neither declared nor a reference")

    def _declared(self, schema: Mapping[str, Any], space: str, depth: int) -> dict[str, Any]:
        name = schema.get("name")
        if not isinstance(name, str):
            raise ConfigError(f"invalid Avro schema: type {schema['type']} needs a name")
        space = name.rpartition(".")[0] or schema.get("namespace", space) or ""
        full = name if "." in name or not space else f"{space}.{name}"
        made: dict[str, Any] = {**schema, "name": full}
        made.pop("namespace", None)
        self._types[full] = made
        if schema["type"] in ("record", "error"):
            self._open.append(full)
            made["fields"] = [{**f, "type": self.built(f.get("type"), space, depth + 1)} for f in schema["fields"]]
            self._open.pop()
        return made

    def check_arrays(self) -> None:
        if any(self._is_empty(items, ()) for items in self._arrays):
            raise ConfigError("Avro arrays of items without bytes, such as null, are not supported")

    def _is_empty(self, schema: Any, seen: tuple[str, ...]) -> bool:
        if isinstance(schema, str):
            named = self._types.get(schema)
            return schema == "null" if named is None else schema in seen or self._is_empty(named, (*seen, schema))
        if not isinstance(schema, dict):
            return False  # a union starts with the number of its branch
        if schema["type"] == "fixed":
            return not schema.get("size")
        if "fields" in schema:
            return all(self._is_empty(field["type"], seen) for field in schema["fields"])
        return schema["type"] not in ("array", "map", "enum") and self._is_empty(schema["type"], seen)


def _json(text: str) -> Any:
    """Parse a schema; the name of a type may stand without quotes, as Java's registry sends it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip() in _PRIMITIVES:
            return text.strip()
        raise ConfigError(f"the Avro schema is not JSON: {error}") from None


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _length(data: bytes) -> bytes:
    from kohort.wire.varints import varint_bytes

    return varint_bytes(len(data))


def _reason(error: Exception, at: int, size: int) -> str:
    if isinstance(error, RecursionError):
        return "records nested too deep"
    if isinstance(error, EOFError) or (isinstance(error, IndexError) and at >= size):
        return "the value is truncated"
    if isinstance(error, IndexError):
        return "a branch or symbol index outside the schema"
    return " ".join(str(error).split()) or type(error).__name__
