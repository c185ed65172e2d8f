"""Calls of a schema registry with their caches, as generators of requests: Confluent's REST API.

Ids and GUIDs of schemas, and versions of subjects, never change, so they are cached without expiry. The latest version
expires. Failures are not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec

from kohort.clock import Rng
from kohort.config.schema_registry import SchemaRegistryConfig
from kohort.errors import SchemaRegistryError
from kohort.schemas.framing import SchemaRef
from kohort.schemas.http import Exchange, RegistryClient, escaped
from kohort.schemas.schema import AVRO, RegisteredSchema, ResolvedSchema, Schema, SchemaReference

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SERIALIZED: Final = "serialized"
"""Format of Protobuf schemas as base64 of a FileDescriptorProto."""
DEEPEST_REFERENCES: Final = 64
MOST_REFERENCES: Final = 1000


FRESH_MS: Final = 1000
"""Shortest age at which the latest version of a subject is read again."""


class Bounded(Generic[K, V]):
    """Cache of up to ``capacity`` entries: the oldest entry is dropped first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[K, V] = {}
        self.get = self._entries.get

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value; None without one."""
        return self._entries.pop(key, None)

    def put(self, key: K, value: V) -> None:
        """Store an entry."""
        entries = self._entries
        while len(entries) >= self._capacity and key not in entries:
            entries.pop(next(iter(entries)), None)
        entries[key] = value


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Answer(msgspec.Struct, rename="camel"):
    id: int | None = None
    guid: str | None = None
    subject: str | None = None
    version: int | None = None
    schema: str | None = None
    schema_type: str | None = None
    references: list[_Reference] | None = None


class _Compatibility(msgspec.Struct):
    is_compatible: bool
    messages: list[str] | None = None


class RegistryCalls:
    """Methods of ``SchemaRegistry`` and ``AsyncSchemaRegistry``. ``now_ms``: clock for the age of latest versions."""

    def __init__(self, config: SchemaRegistryConfig, rng: Rng, now_ms: Callable[[], int]) -> None:
        capacity = config.schema_registry_cache_capacity
        ttl = config.schema_registry_cache_latest_ttl_sec
        self._ttl_ms = None if ttl is None else int(ttl * 1000)
        self._now_ms = now_ms
        self._client = RegistryClient(config, rng)
        self._by_ref: Bounded[tuple[SchemaRef, str], ResolvedSchema] = Bounded(capacity)
        self._by_version: Bounded[tuple[str, int, str], RegisteredSchema] = Bounded(capacity)
        self._registered: Bounded[tuple[str, Schema, bool, bool], RegisteredSchema] = Bounded(capacity)
        self._latest: Bounded[tuple[str, str], tuple[int | None, ResolvedSchema]] = Bounded(max(2, capacity))

    # For serializers and deserializers: each call has its cache

    def cached_schema(self, ref: SchemaRef, form: str = "") -> ResolvedSchema | None:
        """Return the schema of an id or GUID, if it is cached."""
        return self._by_ref.get((ref, form))

    def resolve_schema(self, ref: SchemaRef, form: str = "") -> Exchange[ResolvedSchema]:
        """Get the schema of an id or GUID with its references. ``form``: of Protobuf schemas."""
        found = self._by_ref.get((ref, form))
        if found is None:
            registered = yield from self._schema(ref, form)
            found = ResolvedSchema(registered, (yield from self.resolve_references(registered.schema, form)))
            self._by_ref.put((ref, form), found)
        return found

    def cached_latest(self, subject: str, form: str = "") -> ResolvedSchema | None:
        """Return the latest version of a subject, if it is cached and fresh (``cache.latest.ttl.sec``)."""
        found = self._latest.get((subject, form))
        if found is None or (found[0] is not None and self._now_ms() >= found[0]):
            return None
        return found[1]

    def resolve_latest(self, subject: str, form: str = "") -> Exchange[ResolvedSchema]:
        """Get the latest version of a subject with its references.

        It stays fresh for a second or more, and longer than a slow registry takes: key and value of one record may need
        it from two requests.
        """
        found = self.cached_latest(subject, form)
        if found is None:
            asked_ms = self._now_ms()
            registered = yield from self._version(subject, "latest", form)
            found = ResolvedSchema(registered, (yield from self.resolve_references(registered.schema, form)))
            now_ms, ttl_ms = self._now_ms(), self._ttl_ms
            stale_ms = None if ttl_ms is None else now_ms + max(ttl_ms, FRESH_MS, 2 * (now_ms - asked_ms))
            self._latest.put((subject, form), (stale_ms, found))
        return found

    def cached_registered(
        self, subject: str, schema: Schema, *, register: bool, normalize: bool
    ) -> RegisteredSchema | None:
        """Return the registration of a schema under a subject, if it is cached."""
        return self._registered.get((subject, schema, register, normalize))

    def resolve_registered(
        self, subject: str, schema: Schema, *, register: bool, normalize: bool
    ) -> Exchange[RegisteredSchema]:
        """Register a schema under a subject, or look it up."""
        found = self.cached_registered(subject, schema, register=register, normalize=normalize)
        if found is None:
            post = self._register if register else self._lookup
            found = yield from post(subject, schema, normalize)
            self._registered.put((subject, schema, register, normalize), found)
        return found

    def resolve_references(self, schema: Schema, form: str = "") -> Exchange[tuple[tuple[str, str], ...]]:
        """Get the texts of all references by name, depth first. Raises SchemaRegistryError beyond the limits."""
        found: dict[str, str] = {}
        yield from self._collect(schema, form, found, 0)
        return tuple(found.items())

    def _collect(self, schema: Schema, form: str, found: dict[str, str], depth: int) -> Exchange[None]:
        for reference in schema.references:
            if reference.name in found:
                continue
            if depth >= DEEPEST_REFERENCES or len(found) >= MOST_REFERENCES:
                raise SchemaRegistryError(
                    f"the references of a schema are nested more than {DEEPEST_REFERENCES} levels deep, or more than "
                    f"{MOST_REFERENCES}: {reference.name!r} of subject {reference.subject!r}",
                    subject=reference.subject,
                )
            version = yield from self._version(reference.subject, reference.version, form)
            yield from self._collect(version.schema, form, found, depth + 1)
            found[reference.name] = version.schema.schema_str

    # Public methods

    def get_schema(self, schema_id: int) -> Exchange[Schema]:
        """Return the schema of an id. Raises SchemaRegistryError with 40403 for an unknown id."""
        return (yield from self.resolve_schema(schema_id)).registered.schema

    def get_schema_by_guid(self, guid: str) -> Exchange[Schema]:
        """Return the schema of a GUID. Raises SchemaRegistryError with 40403 for an unknown GUID."""
        return (yield from self.resolve_schema(guid)).registered.schema

    def register_schema(self, subject_name: str, schema: Schema, normalize_schemas: bool = False) -> Exchange[int]:
        """Register a schema under a subject, and return its id; that of the existing version if there is one.

        Raises SchemaRegistryError, with 409 for a schema that the subject's compatibility level forbids.
        """
        return (yield from self.register_schema_full_response(subject_name, schema, normalize_schemas)).schema_id

    def register_schema_full_response(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
    ) -> Exchange[RegisteredSchema]:
        """Register a schema under a subject, and return its id, and its GUID if the registry has GUIDs."""
        return self.resolve_registered(subject_name, schema, register=True, normalize=normalize_schemas)

    def lookup_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
    ) -> Exchange[RegisteredSchema]:
        """Return id and version of a schema under a subject. Raises SchemaRegistryError with 40401 or 40403."""
        return self.resolve_registered(subject_name, schema, register=False, normalize=normalize_schemas)

    def get_subjects(self) -> Exchange[list[str]]:
        """Return all subjects."""
        return self._client.send("GET", "/subjects", list[str])

    def get_versions(self, subject_name: str) -> Exchange[list[int]]:
        """Return the versions of a subject. Raises SchemaRegistryError with 40401 for an unknown subject."""
        path = f"/subjects/{escaped(subject_name)}/versions"
        return self._client.send("GET", path, list[int], subject=subject_name)

    def get_version(self, subject_name: str, version: int) -> Exchange[RegisteredSchema]:
        """Return a version of a subject. Raises SchemaRegistryError with 40401 or 40402."""
        return self._version(subject_name, version, "")

    def get_latest_version(self, subject_name: str) -> Exchange[RegisteredSchema]:
        """Return the latest version of a subject, at most ``cache.latest.ttl.sec`` old."""
        return (yield from self.resolve_latest(subject_name)).registered

    def test_compatibility(self, subject_name: str, schema: Schema, version: int | str = "latest") -> Exchange[bool]:
        """Return True if a new version with this schema is compatible with ``version`` of the subject."""
        answer = yield from self._client.send(
            "POST",
            f"/compatibility/subjects/{escaped(subject_name)}/versions/{version}",
            _Compatibility,
            body=_body(schema),
            subject=subject_name,
        )
        return answer.is_compatible

    # Requests

    def _schema(self, ref: SchemaRef, form: str) -> Exchange[RegisteredSchema]:
        path = f"/schemas/ids/{ref}" if isinstance(ref, int) else f"/schemas/guids/{escaped(ref)}"
        answer = yield from self._client.send("GET", path + (f"?format={form}" if form else ""), _Answer)
        if isinstance(ref, int):
            return RegisteredSchema(ref, _schema_of(answer), _guid_of(answer))
        return RegisteredSchema(answer.id or 0, _schema_of(answer), ref)

    def _version(self, subject: str, version: int | str, form: str) -> Exchange[RegisteredSchema]:
        key = (subject, version, form) if isinstance(version, int) else None
        found = None if key is None else self._by_version.get(key)
        if found is None:
            path = f"/subjects/{escaped(subject)}/versions/{version}"
            options = "&".join([*(["deleted=true"] if key else []), *([f"format={form}"] if form else [])])
            answer = yield from self._client.send(
                "GET", f"{path}?{options}" if options else path, _Answer, subject=subject
            )
            found = _registered(answer, _schema_of(answer), subject)
            if key is not None:
                self._by_version.put(key, found)
        return found

    def _register(self, subject: str, schema: Schema, normalize: bool) -> Exchange[RegisteredSchema]:
        path = f"/subjects/{escaped(subject)}/versions{'?normalize=true' if normalize else ''}"
        answer = yield from self._client.send("POST", path, _Answer, body=_body(schema), subject=subject)
        return _registered(answer, schema, subject)

    def _lookup(self, subject: str, schema: Schema, normalize: bool) -> Exchange[RegisteredSchema]:
        path = f"/subjects/{escaped(subject)}{'?normalize=true' if normalize else ''}"
        answer = yield from self._client.send("POST", path, _Answer, body=_body(schema), subject=subject)
        return _registered(answer, schema, subject)


def _registered(answer: _Answer, schema: Schema, subject: str) -> RegisteredSchema:
    if answer.id is None or not 0 <= answer.id < 1 << 32:
        raise SchemaRegistryError(
            f"schema registry: the answer for subject {subject!r} has id {answer.id}: expected 4 bytes", subject=subject
        )
    return RegisteredSchema(answer.id, schema, _guid_of(answer), subject, answer.version)


def _guid_of(answer: _Answer) -> str | None:
    """Return the GUID of the schema; None for an invalid UUID. A header can hold a UUID only."""
    try:
        return str(UUID(answer.guid)) if answer.guid else None
    except ValueError:
        return None


def _schema_of(answer: _Answer) -> Schema:
    if answer.schema is None:
        raise SchemaRegistryError("schema registry: the answer has no schema")
    references = [SchemaReference(r.name, r.subject, r.version) for r in answer.references or ()]
    return Schema(answer.schema, answer.schema_type or AVRO, tuple(references))


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.schema_str}
    if schema.schema_type != AVRO:
        body["schemaType"] = schema.schema_type
    if schema.references:
        body["references"] = [{"name": r.name, "subject": r.subject, "version": r.version} for r in schema.references]
    return body
