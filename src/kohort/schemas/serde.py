"""Base classes of serializers and deserializers, and of schemas that a registry has yet to return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from kohort.errors import UndecodableValue
from kohort.model import Header

R = TypeVar("R")
KEY: Final = "key"
VALUE: Final = "value"
Call = Generator[Any, Any, R]
"""AnySchemaRegistry call in progress: each ``yield`` is a request or a pause."""


class SerializationContext(msgspec.Struct):
    """Place of a value: topic, ``field`` (key or value), and the record's headers. A serializer may append headers."""

    topic: str
    field: str = VALUE
    headers: Any = ()

    @property
    def is_key(self) -> bool:
        """True for the key of a record."""
        return self.field == KEY

    def add_header(self, header: Header) -> None:
        """Add a header to the record, in place of earlier ones of the same name."""
        self.headers = [*(h for h in self.headers if h[0] != header[0]), header]


class AnySchemaRegistry(Protocol):
    """A SchemaRegistry or an AsyncSchemaRegistry: serializers of all clients take both."""

    calls: Any

    def run(self, call: Call[R]) -> R:
        """Run a call, and block."""

    def run_async(self, call: Call[R]) -> Coroutine[Any, Any, R]:
        """Run a call on the current event loop."""


class SchemaNeeded(Exception):  # a request, no failure
    """A schema that the cache lacks. The client runs ``call`` at the registry, then repeats its step."""

    def __init__(self, registry: AnySchemaRegistry, call: Callable[[], Call[Any]]) -> None:
        super().__init__("a schema is not cached yet")
        self.registry = registry
        self.call = call

    def fetch(self) -> None:
        """Get the schema, and block until it is cached. Raises SchemaRegistryError."""
        self.registry.run(self.call())

    async def fetch_async(self) -> None:
        """Get the schema, and wait until it is cached. Raises SchemaRegistryError."""
        await self.registry.run_async(self.call())


def resolved(step: Callable[[], R]) -> R:
    """Run ``step``, and block for each schema that it needs."""
    while True:
        try:
            return step()
        except SchemaNeeded as needed:
            needed.fetch()


async def resolved_async(step: Callable[[], R]) -> R:
    """Run ``step``, and await each schema that it needs."""
    while True:
        try:
            return step()
        except SchemaNeeded as needed:
            await needed.fetch_async()


class Serializer(ABC):
    """Base class of serializers: override ``serialize``. A null stays null, without a call."""

    @abstractmethod
    def serialize(self, value: Any, ctx: SerializationContext) -> bytes | str | None:
        """Convert a key or value for the wire. Raises any error for a value that does not fit."""

    def __call__(self, value: Any, ctx: SerializationContext) -> bytes | str | None:
        """Serialize outside of a producer, and block for the registry, as confluent-kafka's serializers do."""
        return None if value is None else resolved(lambda: self.serialize(value, ctx))


class Deserializer(ABC):
    """Base class of deserializers: override ``deserialize``. A null stays null, without a call."""

    @abstractmethod
    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Convert bytes from the wire. Raises any error for bytes that do not fit."""

    def __call__(self, data: bytes | None, ctx: SerializationContext) -> Any:
        """Deserialize outside of a consumer, and block for the registry, as confluent-kafka's deserializers do."""
        return None if data is None else resolved(lambda: self.deserialize(data, ctx))


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Key or value that a deserializer rejected, with ``on_decode_error="undecodable"``: its bytes and the error."""

    data: bytes | None
    error: UndecodableValue
