"""Protobuf messages with registered schemas: generated classes, or classes made from the registry's descriptors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Unpack

from kohort.errors import ConfigError, UndecodableValue
from kohort.extras import needs
from kohort.schemas.http import Exchange
from kohort.schemas.registered import (
    DeserializerOptions,
    RegistryDeserializer,
    RegistrySerializer,
    SerializerOptions,
    checked_registry,
)
from kohort.schemas.registry import SERIALIZED
from kohort.schemas.schema import PROTOBUF, ResolvedSchema, Schema, SchemaReference
from kohort.schemas.serde import AnySchemaRegistry

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

FEATURE: Final = "a Protobuf serializer"
KNOWN: Final = ("google/protobuf/", "google/type/", "confluent/")
"""Imports that every Protobuf compiler has: they are no references."""
WELL_KNOWN: Final = (
    "any", "source_context", "type", "api", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp",
    "wrappers",
)  # fmt: skip


class ProtobufSerializer(RegistrySerializer):
    """Serializer of Protobuf: ``ProtobufSerializer(User, registry)`` for a generated class. Needs ``kohort[schemas]``.

    The file of the class is registered, and the files that it imports as references, each under its path. Well-known
    imports (``google/protobuf/``) are not registered. The other options are those of all serializers with a registry:
    docs/guides/schemas.md. Raises ConfigError for an invalid option.
    """

    form = SERIALIZED

    def __init__(self, message_type: Any, registry: AnySchemaRegistry, **options: Unpack[SerializerOptions]) -> None:
        descriptor = _descriptor(message_type)
        super().__init__(registry, Schema(_as_text(descriptor.file), PROTOBUF), None, options)
        self._message_type = message_type
        self._file = descriptor.file
        self.path = message_path(descriptor)
        self.record_name = descriptor.full_name

    def _encoder(self, resolved: ResolvedSchema) -> Callable[[Any], bytes]:  # noqa: ARG002
        """Return the function that encodes messages."""
        message_type = self._message_type

        def encode(value: Any) -> bytes:
            if not isinstance(value, message_type):
                raise TypeError(f"expected a message of {message_type.__name__}, not {type(value).__name__}")
            data: bytes = value.SerializeToString()
            return data

        return encode

    def _own(self, subject: str) -> Exchange[ResolvedSchema]:
        references = yield from self._imports(self._file)
        assert self.schema is not None
        schema = Schema(self.schema.schema_str, PROTOBUF, references)
        registered = yield from self._registry.calls.resolve_registered(
            subject, schema, register=self._register, normalize=self._normalize
        )
        return ResolvedSchema(registered)

    def _imports(self, file: FileDescriptor) -> Exchange[tuple[SchemaReference, ...]]:
        """Register the imports of a file, depth first, and return the references to them."""
        calls, found = self._registry.calls, []
        for imported in file.dependencies:
            if imported.name.startswith(KNOWN):
                continue
            schema = Schema(_as_text(imported), PROTOBUF, (yield from self._imports(imported)))
            if self._register:
                yield from calls.resolve_registered(imported.name, schema, register=True, normalize=self._normalize)
            held = yield from calls.resolve_registered(imported.name, schema, register=False, normalize=self._normalize)
            found.append(SchemaReference(imported.name, imported.name, held.version or 1))
        return tuple(found)


class ProtobufDeserializer(RegistryDeserializer):
    """Deserializer of Protobuf: ``ProtobufDeserializer(User)``. Needs ``kohort[schemas]``.

    With a generated class, no registry is asked: fields have numbers. Without a class, ``registry`` returns the
    descriptor of the writer, and the messages have a class made from it; the registry must support
    ``format=serialized``.
    """

    has_path = True
    form = SERIALIZED

    def __init__(
        self,
        message_type: Any = None,
        registry: AnySchemaRegistry | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(None if message_type is not None else registry, None, None, options)
        if message_type is not None:
            _descriptor(message_type)
        else:
            checked_registry(self, registry)
        self._message_type = message_type

    def _decoder(
        self,
        writer: ResolvedSchema | None,
        reader: ResolvedSchema | None,  # noqa: ARG002
        path: tuple[int, ...],
    ) -> Callable[[bytes], Any]:
        """Return the function that decodes messages."""
        with needs("schemas", FEATURE):
            from google.protobuf.message import DecodeError
        message_type = self._message_type or _made_class(writer, path)

        def read(data: bytes) -> Any:
            message = message_type()
            try:
                message.ParseFromString(data)
            except DecodeError as error:
                raise UndecodableValue(f"Protobuf: {error}") from error
            return message

        return read


def message_path(descriptor: Descriptor) -> tuple[int, ...]:
    """Return the indexes of a message in its file, outermost first."""
    path: list[int] = []
    while descriptor.containing_type is not None:
        path.append(descriptor.containing_type.nested_types.index(descriptor))
        descriptor = descriptor.containing_type
    path.append(list(descriptor.file.message_types_by_name.values()).index(descriptor))
    return tuple(reversed(path))


def _descriptor(message_type: Any) -> Descriptor:
    with needs("schemas", FEATURE):
        from google.protobuf.descriptor import Descriptor
    found = getattr(message_type, "DESCRIPTOR", None)
    if not isinstance(message_type, type) or not isinstance(found, Descriptor):
        raise ConfigError(f"message_type={message_type!r:.200}: expected a generated Protobuf class")
    return found


def _as_text(file: FileDescriptor) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _made_class(writer: ResolvedSchema | None, path: tuple[int, ...]) -> Any:
    """Make the class of a message. Each schema has its own pool: versions of a file have the same names."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    assert writer is not None
    schema = writer.registered.schema
    if schema.schema_type != PROTOBUF:
        raise ConfigError(f"the schema has type {schema.schema_type}, not {PROTOBUF}")
    pool = DescriptorPool()
    for data in _well_known():
        pool.AddSerializedFile(data)
    try:
        for name, text in writer.named:
            _add(pool, name, text)
        file = pool.FindFileByName(_add(pool, "kohort/root.proto", schema.schema_str))
    except (TypeError, KeyError, ValueError) as error:
        raise ConfigError(f"invalid Protobuf schema: {error}") from None
    messages = list(file.message_types_by_name.values())
    found: Any = None
    for index in path:
        if index >= len(messages):
            raise ConfigError(f"the schema has no message at index path {'.'.join(map(str, path))}")
        found = messages[index]
        messages = list(found.nested_types)
    return GetMessageClass(found)


def _add(pool: Any, name: str, text: str) -> str:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    file = FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise ConfigError(
            "the registry returns Protobuf schemas as text only: give the generated class as message_type"
        ) from None
    file.name = name
    pool.Add(file)
    return name


def _well_known() -> Iterator[bytes]:
    from importlib import import_module

    for name in WELL_KNOWN:
        yield import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb
