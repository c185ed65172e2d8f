"""Schemas and their references, as a registry stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """Reference to a version of a subject. ``name``: Avro type, URI of a ``$ref``, or path of a Protobuf import."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """Text of a schema, its type (AVRO, JSON or PROTOBUF), and its references."""

    schema_str: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.references, tuple):
            object.__setattr__(self, "references", tuple(self.references))


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """Schema with its id. A registry may omit the GUID, and subject and version of a schema that was read by id."""

    schema_id: int
    schema: Schema
    guid: str | None = None
    subject: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """Registered schema with the texts of all schemas it refers to, by name, referenced schemas first."""

    registered: RegisteredSchema
    named: tuple[tuple[str, str], ...] = ()
