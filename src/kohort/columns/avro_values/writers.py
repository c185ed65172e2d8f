"""Writers' schemas from a mapping, a function, or a client of a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kohort.columns.avro_values.schema import AvroProblem, parse_schema
from kohort.errors import UsageError
from kohort.schemas.framing import SchemaRef

REFERENCES_MOST: Final = 200
NOT_FOUND: Final = frozenset((404, 40401, 40402, 40403))
"""Codes of Confluent's REST API for an unknown subject, version or schema."""


class SchemaClient(Protocol):
    """Blocking client of a schema registry, with the methods of confluent-kafka's ``SchemaSchemaClient``."""

    def get_schema(self, schema_id: int, /) -> Any: ...
    def get_schema_by_guid(self, guid: str, /) -> Any: ...
    def get_version(self, subject_name: str, version: int, /) -> Any: ...


WriterSchemas = SchemaClient | Callable[[Any], str] | Mapping[Any, str]
"""Source of schemas by id, or by GUID as text. A function raises LookupError for an unknown schema."""


def is_source(registry: object) -> bool:
    return callable(registry) or isinstance(registry, Mapping) or hasattr(registry, "get_schema")


def writer_schema(registry: WriterSchemas, reference: SchemaRef) -> tuple[str, dict[str, str]]:
    """Return the text of a writer's schema, and the texts of its references by name.

    Raises LookupError for an unknown schema, AvroProblem for a schema that is not Avro, other errors of the registry.
    """
    if isinstance(registry, Mapping):
        return registry[reference], {}
    if callable(registry):
        return registry(reference), {}
    try:
        return _from_client(registry, reference)
    except Exception as error:
        codes = {getattr(error, name, None) for name in ("code", "error_code", "http_status_code")}
        if codes & NOT_FOUND:
            raise LookupError(str(error)) from error
        raise


def _from_client(registry: SchemaClient, reference: SchemaRef) -> tuple[str, dict[str, str]]:
    found = registry.get_schema_by_guid(reference) if isinstance(reference, str) else registry.get_schema(reference)
    if hasattr(found, "__await__"):
        if hasattr(found, "close"):
            found.close()  # a coroutine that never runs
        raise UsageError("registry= of an AvroFormat takes a blocking client, not one for asyncio")
    kind = getattr(found, "schema_type", None) or "AVRO"
    if kind != "AVRO":
        raise AvroProblem(f"the schema has type {kind}, not AVRO")
    named: dict[str, str] = {}
    _collect(registry, found, named)
    return found.schema_str, named


def _collect(registry: SchemaClient, schema: Any, named: dict[str, str]) -> None:
    """Add the texts of all references of a schema."""
    for reference in schema.references or ():
        if reference.name in named:
            continue
        if len(named) >= REFERENCES_MOST:
            raise AvroProblem(f"the schema has more than {REFERENCES_MOST} references")
        found = registry.get_version(reference.subject, reference.version)
        found = getattr(found, "schema", found)
        named[reference.name] = found.schema_str
        _collect(registry, found, named)


def check_schema(text: str) -> None:
    """Raise UsageError for an invalid Avro schema."""
    try:
        parse_schema(text)
    except AvroProblem as problem:
        raise UsageError(f"schema: {problem}") from None
