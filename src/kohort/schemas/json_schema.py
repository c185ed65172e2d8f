"""JSON with registered JSON Schemas: validation by jsonschema, JSON by msgspec."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Unpack

import msgspec

from kohort.errors import ConfigError, UndecodableValue
from kohort.extras import needs
from kohort.schemas.registered import (
    Convert,
    DeserializerOptions,
    RegistryDeserializer,
    RegistrySerializer,
    SerializerOptions,
    checked_registry,
    schema_argument,
)
from kohort.schemas.schema import JSON, ResolvedSchema, Schema
from kohort.schemas.serde import AnySchemaRegistry

FEATURE: Final = "validation by a JSON Schema"
Check = Callable[[Any], None]


class JSONSerializer(RegistrySerializer):
    """Serializer of JSON with a JSON Schema: ``JSONSerializer(schema, registry)``. Needs ``kohort[schemas]``.

    ``schema``: JSON Schema as text, or a ``Schema`` with references; its ``title`` is the record name. ``validate``:
    False to send values without validation. ``to_dict(value, ctx)`` converts objects. The other options are those of
    all serializers with a registry: docs/guides/schemas.md. Raises ConfigError for an invalid schema or option.
    """

    def __init__(
        self,
        schema: str | Schema | None,
        registry: AnySchemaRegistry,
        to_dict: Convert | None = None,
        *,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None:
        super().__init__(registry, schema_argument(schema, JSON), to_dict, options)
        self._validate = validate
        if self.schema is not None:
            parsed = _parsed(self.schema.schema_str)
            title = parsed.get("title") if isinstance(parsed, dict) else None
            self.record_name = title if isinstance(title, str) else None
            if validate and not self.schema.references:
                validator(self.schema.schema_str, ())

    def _encoder(self, resolved: ResolvedSchema) -> Callable[[Any], bytes]:
        """Return the function that validates and encodes values of a schema."""
        encode = msgspec.json.Encoder().encode
        if not self._validate:
            return encode
        check = _checked(resolved)

        def validated(value: Any) -> bytes:
            check(value)
            return encode(value)

        return validated


class JSONDeserializer(RegistryDeserializer):
    """Deserializer of JSON with a JSON Schema: ``JSONDeserializer(registry=registry)``. Needs ``kohort[schemas]``.

    Values are validated by ``schema``, by default by the schema of their writer. ``validate``: False to read values
    without validation. ``from_dict(value, ctx)`` converts dicts. Without ``registry``, the framing is removed, and
    ``schema`` validates.
    """

    def __init__(
        self,
        schema: str | Schema | None = None,
        from_dict: Convert | None = None,
        registry: AnySchemaRegistry | None = None,
        *,
        validate: bool = True,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, schema_argument(schema, JSON), from_dict, options)
        self._validate = validate
        if schema is None:
            checked_registry(self, registry)
        elif validate and self.schema is not None and not self.schema.references:
            validator(self.schema.schema_str, ())

    def _decoder(
        self,
        writer: ResolvedSchema | None,
        reader: ResolvedSchema | None,
        path: tuple[int, ...],  # noqa: ARG002
    ) -> Callable[[bytes], Any]:
        """Return the function that decodes and validates values of a schema."""
        if writer is not None and writer.registered.schema.schema_type != JSON:
            raise ConfigError(f"the schema has type {writer.registered.schema.schema_type}, not {JSON}")
        decode = msgspec.json.Decoder().decode
        judge = reader or writer
        check = _checked(judge) if self._validate and judge is not None else None

        def read(data: bytes) -> Any:
            try:
                value = decode(data)
                if check is not None:
                    check(value)
            except (ValueError, RecursionError) as error:
                raise UndecodableValue(f"JSON: {error or type(error).__name__}") from error
            return value

        return read


def _checked(resolved: ResolvedSchema) -> Check:
    return validator(resolved.registered.schema.schema_str, resolved.named)


def validator(text: str, named: tuple[tuple[str, str], ...]) -> Check:
    """Return a function that raises ValueError, with the place, for a value that a schema forbids.

    ``named``: schemas by the URIs that ``$ref`` uses; other URIs are never loaded. Raises ConfigError for an invalid
    schema. The default draft is 7, as in confluent-kafka.
    """
    with needs("schemas", FEATURE):
        from jsonschema import Draft7Validator
        from jsonschema.exceptions import SchemaError, best_match
        from jsonschema.validators import validator_for
        from referencing import Registry as References
        from referencing import Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT7
    schema = _parsed(text)
    judge = validator_for(schema, default=Draft7Validator)
    resources = [(name, Resource.from_contents(_parsed(of), default_specification=DRAFT7)) for name, of in named]
    references: Any = References().with_resources(resources)
    try:
        judge.check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"invalid JSON Schema: {error.message}") from None
    errors = judge(schema, registry=references).iter_errors

    def check(value: Any) -> None:
        try:
            error = best_match(errors(value))
        except Unresolvable as missing:
            raise ValueError(f"the schema refers to {missing.ref!r}, which no reference names") from None
        if error is not None:
            raise ValueError(f"{error.json_path}: {error.message[:500]}")

    return check


def _parsed(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}") from None
    if not isinstance(found, dict | bool):
        raise ConfigError(f"invalid JSON Schema: expected an object, found {text[:80]}")
    return found
