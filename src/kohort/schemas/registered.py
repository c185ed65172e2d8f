"""The part that Avro, JSON Schema and Protobuf share: which schema a value has, and where its reference stands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypedDict

from kohort.errors import ConfigError, SchemaRegistryError, UndecodableValue
from kohort.model import Header
from kohort.nearest import did_you_mean
from kohort.schemas.framing import SchemaRef, read_frame, reference_bytes, schema_header
from kohort.schemas.http import Exchange
from kohort.schemas.registry import Bounded
from kohort.schemas.schema import RegisteredSchema, ResolvedSchema, Schema
from kohort.schemas.serde import AnySchemaRegistry, Deserializer, SchemaNeeded, SerializationContext, Serializer
from kohort.schemas.subjects import SubjectNameStrategy, subject_strategy

Convert = Callable[[Any, SerializationContext], Any]
CACHED: Final = 1000
"""Limit of codecs that a serializer or deserializer keeps."""
NOT_FOUND: Final = frozenset((40401, 40402, 40403))
LARGEST_ID: Final = 2**31 - 1
"""Largest id of a registry. The answer to a larger one is 404 without a code of its own."""


class Writer(NamedTuple):
    """Prefix or header of a schema, and the function that encodes values."""

    prefix: bytes
    header: Header | None
    encode: Callable[[Any], bytes]
    latest: ResolvedSchema | None


class Decoder(NamedTuple):
    """Function that decodes values of one schema, and the latest version that it reads them with."""

    decode: Callable[[bytes], Any]
    latest: ResolvedSchema | None


class SerializerOptions(TypedDict, total=False):
    """Options of all serializers with a registry: docs/guides/schemas.md."""

    auto_register: bool | None
    use_latest_version: bool
    use_schema_id: int | None
    normalize: bool
    subject_name_strategy: str | SubjectNameStrategy
    schema_id_in: Literal["prefix", "header"]


class DeserializerOptions(TypedDict, total=False):
    """Options of all deserializers with a registry."""

    use_latest_version: bool
    subject_name_strategy: str | SubjectNameStrategy


class RegistrySerializer(Serializer):
    """Base class of serializers with a registered schema.

    ``auto_register``: register the schema (default), or only look it up. ``use_latest_version`` and ``use_schema_id``:
    write with a schema of the registry. ``normalize``: let the registry normalize the schema.
    ``subject_name_strategy``: TOPIC, RECORD, TOPIC_RECORD or a function of context and record name.
    ``schema_id_in``: prefix or header. ``to_dict``: function of value and context that returns the value to encode.
    """

    path: tuple[int, ...] | None = None
    form = ""

    def __init__(
        self,
        registry: AnySchemaRegistry,
        schema: Schema | None,
        to_dict: Convert | None,
        options: SerializerOptions,
    ) -> None:
        check_options(self, options, SerializerOptions)
        auto_register = options.get("auto_register")
        use_latest_version = options.get("use_latest_version", False)
        use_schema_id = options.get("use_schema_id")
        schema_id_in = options.get("schema_id_in", "prefix")
        checked_registry(self, registry)
        uses_registered = use_latest_version or use_schema_id is not None
        if uses_registered and auto_register:
            other = "use_latest_version" if use_latest_version else "use_schema_id"
            raise ConfigError(f"auto_register=True and {other} exclude each other: leave one of them out")
        if schema is None and not uses_registered:
            raise ConfigError(f"{type(self).__name__} needs a schema, use_latest_version=True or use_schema_id=ID")
        if schema_id_in not in ("prefix", "header"):
            raise ConfigError(f"schema_id_in={schema_id_in!r}: expected prefix or header")
        self.schema = schema
        self._registry = registry
        self._register = not uses_registered and auto_register is not False
        self._latest = use_latest_version
        self._schema_id = use_schema_id
        self._normalize = options.get("normalize", False)
        self._strategy = subject_strategy(options.get("subject_name_strategy", "TOPIC"))
        self._in_header = schema_id_in == "header"
        self._to_dict = to_dict
        self._writers: Bounded[tuple[str, bool], Writer] = Bounded(CACHED)
        self.record_name: str | None = None

    @abstractmethod
    def _encoder(self, resolved: ResolvedSchema) -> Callable[[Any], bytes]:
        """Return the function that encodes values of a schema. Raises ConfigError for an invalid schema."""

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        """Encode a value. The reference to its schema becomes the prefix or a header."""
        subject = self._strategy(ctx, self.record_name) or ""
        writer = self._writers.get((subject, ctx.is_key))
        if writer is None or (self._latest and not self._is_fresh(subject, writer)):
            raise SchemaNeeded(self._registry, lambda: self._prepare(subject, ctx))
        if self._to_dict is not None:
            value = self._to_dict(value, ctx)
        payload = writer.encode(value)
        if writer.header is None:
            return writer.prefix + payload
        ctx.add_header(writer.header)
        return payload

    def _is_fresh(self, subject: str, writer: Writer) -> bool:
        return self._registry.calls.cached_latest(subject, self.form) is writer.latest

    def _prepare(self, subject: str, ctx: SerializationContext) -> Exchange[None]:
        """Find the schema in the registry, and keep its writer."""
        calls = self._registry.calls
        if self._schema_id is not None:
            resolved = yield from calls.resolve_schema(self._schema_id, self.form)
        elif self._latest:
            resolved = yield from calls.resolve_latest(subject, self.form)
        else:
            resolved = yield from self._own(subject)
        encode = self._encoder(resolved)
        ref: SchemaRef = resolved.registered.schema_id
        header = None
        if self._in_header:
            header = schema_header(resolved.registered.guid or ref, is_key=ctx.is_key, path=self.path)
        self._writers.put((subject, ctx.is_key), Writer(reference_bytes(ref, self.path), header, encode, resolved))

    def _own(self, subject: str) -> Exchange[ResolvedSchema]:
        """Register the serializer's own schema, or look it up."""
        assert self.schema is not None
        calls = self._registry.calls
        registered: RegisteredSchema = yield from calls.resolve_registered(
            subject, self.schema, register=self._register, normalize=self._normalize
        )
        return ResolvedSchema(registered, (yield from calls.resolve_references(self.schema)))


class RegistryDeserializer(Deserializer):
    """Base class of deserializers of framed values.

    ``schema``: the reader's schema; default: the writer's. ``use_latest_version``: read with the latest version of the
    subject. ``from_dict``: function of the decoded value and the context that returns the record's value.
    """

    has_path = False
    form = ""

    def __init__(
        self,
        registry: AnySchemaRegistry | None,
        schema: Schema | None,
        from_dict: Convert | None,
        options: DeserializerOptions,
    ) -> None:
        check_options(self, options, DeserializerOptions)
        use_latest_version = options.get("use_latest_version", False)
        if registry is not None or use_latest_version or (schema is not None and schema.references):
            checked_registry(self, registry)
        if schema is not None and use_latest_version:
            raise ConfigError("a reader schema and use_latest_version=True exclude each other: leave one of them out")
        self.schema = schema
        self._registry = registry
        self._latest = use_latest_version
        self._strategy = subject_strategy(options.get("subject_name_strategy", "TOPIC"))
        self._from_dict = from_dict
        self._decoders: Bounded[Any, Decoder] = Bounded(CACHED)
        self._unknown: Bounded[tuple[SchemaRef, bool], SchemaRegistryError] = Bounded(CACHED)
        self._reader: ResolvedSchema | None = None

    @abstractmethod
    def _decoder(
        self, writer: ResolvedSchema | None, reader: ResolvedSchema | None, path: tuple[int, ...]
    ) -> Callable[[bytes], Any]:
        """Return the function that decodes values of a schema. Raises ConfigError for an invalid schema.

        ``writer``: None without a registry.
        """

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Decode a value with the schema that its prefix or header refers to.

        Raises UndecodableValue for invalid bytes, and for an unknown schema id.
        """
        schema, payload, path = read_frame(data, ctx.headers, is_key=ctx.is_key, has_path=self.has_path)
        registry = self._registry
        if registry is None:
            found = self._without_registry(path)
        else:
            subject = self._strategy(ctx, None) if self._latest else None
            known = self._decoders.get((schema, subject, path))
            if known is None or (subject and registry.calls.cached_latest(subject, self.form) is not known.latest):
                if (error := self._unknown.pop((schema, ctx.is_key))) is not None:
                    raise UndecodableValue(f"schema {schema}: {error}") from error
                raise SchemaNeeded(registry, lambda: self._prepare(registry, schema, subject, path, ctx.is_key))
            found = known
        try:
            value = found.decode(payload)
        except UndecodableValue as error:
            raise UndecodableValue(f"schema {schema}: {error.problem}") from error.__cause__
        return value if self._from_dict is None else self._from_dict(value, ctx)

    def _without_registry(self, path: tuple[int, ...]) -> Decoder:
        found = self._decoders.get((0, None, path))
        if found is None:
            reader = None if self.schema is None else ResolvedSchema(RegisteredSchema(0, self.schema))
            found = Decoder(self._decoder(None, reader, path), None)
            self._decoders.put((0, None, path), found)
        return found

    def _prepare(
        self, registry: AnySchemaRegistry, ref: SchemaRef, subject: str | None, path: tuple[int, ...], is_key: bool
    ) -> Exchange[None]:
        """Get the writer's and the reader's schema, and keep their decoder."""
        calls = registry.calls
        try:
            writer = yield from calls.resolve_schema(ref, self.form)
        except SchemaRegistryError as error:
            if error.code not in NOT_FOUND and not (error.code == 404 and _is_odd(ref)):
                raise
            self._unknown.put((ref, is_key), error)  # for one key or value: the schema may be registered later
            return
        reader = None
        if subject is not None:
            reader = yield from calls.resolve_latest(subject, self.form)
        elif self.schema is not None:
            if self._reader is None:
                named = yield from calls.resolve_references(self.schema)
                self._reader = ResolvedSchema(RegisteredSchema(0, self.schema), named)
            reader = self._reader
        try:
            decode = self._decoder(writer, reader, path)
        except ConfigError as error:
            decode = _rejecting(str(error))
        self._decoders.put((ref, subject, path), Decoder(decode, reader))


def _is_odd(ref: SchemaRef) -> bool:
    """Return True for a reference that a healthy registry may have no path for: a large id, or a GUID."""
    return isinstance(ref, str) or ref > LARGEST_ID


def check_options(owner: object, given: Mapping[str, Any], known: type) -> None:
    """Raise ConfigError for an unknown option, with the nearest known one."""
    for name in given:
        if name not in known.__annotations__:
            nearest = did_you_mean(name, known.__annotations__)
            raise ConfigError(f"{type(owner).__name__}: unknown option {name!r}{nearest}")


def checked_registry(owner: object, registry: object) -> None:
    """Raise ConfigError unless the object is a schema registry of kohort."""
    if not hasattr(registry, "run_async"):
        raise ConfigError(
            f"{type(owner).__name__}: the first argument is a kohort.SchemaRegistry, not {type(registry).__name__}"
        )


def schema_argument(schema: str | Schema | None, schema_type: str) -> Schema | None:
    """Return the schema of a text or a Schema. Raises ConfigError for another type of schema."""
    if isinstance(schema, str):
        return Schema(schema, schema_type)
    if schema is not None and (not isinstance(schema, Schema) or schema.schema_type != schema_type):
        raise ConfigError(f"expected a schema of type {schema_type}, as text or kohort.Schema, not {schema!r:.200}")
    return schema


def _rejecting(problem: str) -> Callable[[bytes], Any]:
    def reject(_payload: bytes) -> Any:
        raise UndecodableValue(problem)

    return reject
