"""Messages passed as objects instead of bytes, for faster campaigns.

Within ``unencoded`` the codec writes a number for a message and looks the message up by that number. Headers, frames,
record batches and records of internal topics stay bytes. A message that its version cannot carry fully is reduced as
the version would do it: without missing fields, and with its records joined. ApiVersions is always encoded, since its
response precedes the version negotiation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kohort.log.batches import LogSlice
from kohort.wire import codec
from kohort.wire.apis import API_VERSIONS, APIS
from kohort.wire.codec_text import Malformed, default_of
from kohort.wire.readers import Reader
from kohort.wire.schema import FieldSpec, Message
from kohort.wire.writers import Writer

Change = Callable[[Any], Any]
NUMBER: Final = struct.Struct(">q")


class UnencodedMessages:
    """Messages written in one run, by number."""

    def __init__(self) -> None:
        self._written: list[Message] = []

    def writer(self, message: type[Message], version: int) -> Writer:
        """Return the codec's replacement of the compiled writer."""
        change = change_of(message, version)

        def write(value: Any, extend: Callable[[Any], None]) -> None:
            extend((NUMBER.pack(len(self._written)),))
            self._written.append(value if change is None else change(value))

        return write

    def reader(self, message: type[Message], version: int) -> Reader:
        """Return the codec's replacement of the compiled reader."""
        del version

        def read(body: bytes | bytearray, at: int, stop: int) -> tuple[Any, int]:
            value = self._written[NUMBER.unpack_from(body, at)[0]]
            if type(value) is not message or at + NUMBER.size > stop:
                raise Malformed(f"wrong message: expected {type(value).__name__}")
            return value, at + NUMBER.size

        return read


@contextmanager
def unencoded() -> Iterator[None]:
    """Pass requests and responses as objects in the block, in this process."""
    messages = UnencodedMessages()
    bodies = [body for api in APIS.values() if api.key != API_VERSIONS for body in (api.request, api.response)]
    with codec.replaced(frozenset(bodies), messages.reader, messages.writer):
        yield


def change_of(message: type[Message], version: int) -> Change | None:
    """Return the change of a message by its version; None without change."""
    changes = {spec.name: _change_of_field(spec, version) for spec in message.FIELDS}
    if not any(changes.values()):
        return None

    def change(value: Message) -> Message:
        fields = {name: getattr(value, name) for name in changes}
        return message(**{name: f(fields[name]) if (f := changes[name]) else fields[name] for name in changes})

    return change


def _change_of_field(spec: FieldSpec, version: int) -> Change | None:
    if version not in spec.versions:
        return (lambda _: default_of(spec)) if spec.ignorable else None
    if spec.kind == "records":
        return _in_one_piece
    inner = change_of(spec.of, version) if isinstance(spec.of, type) else None
    if inner is None:
        return None
    if spec.kind == "array":
        return lambda values: None if values is None else [inner(value) for value in values]
    return lambda value: None if value is None else inner(value)


def _in_one_piece(records: codec.Records | None) -> memoryview | None:
    """Join record batches, as a reader returns them."""
    if records is None:
        return None
    if not isinstance(records, list):
        return memoryview(bytes(records))
    return memoryview(b"".join(part.load() if isinstance(part, LogSlice) else part for part in records))
