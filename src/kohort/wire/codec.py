"""Encoding and decoding of messages: ``encode`` and ``decode``.

``encode`` compiles the writer of a message and version on first use, ``decode`` the reader. A reader checks every count
and length against the remaining bytes before it allocates memory. Every failure is a ``ProtocolError`` with the path of
the field. Large messages are read and written in steps (``decode_in_steps``, ``encode_framed_in_steps``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from kohort.errors import ProtocolError, UnsupportedVersion
from kohort.steps import Steps
from kohort.wire.codec_text import Malformed, field_error, holds_records
from kohort.wire.readers import Reader, StepReader, compile_reader, compile_step_reader
from kohort.wire.schema import Message
from kohort.wire.writers import StepWriter, Writer, compile_elements_writer, compile_step_writer, compile_writer

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview
Records = Buffer | list[Buffer]
"""Record batches: a view after decoding; one buffer, or several that are not joined, for encoding."""


_length = struct.Struct(">i")
_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], tuple[Writer, bool]] = {}
_step_readers: dict[tuple[type[Message], int], StepReader] = {}
_step_writers: dict[tuple[type[Message], int], StepWriter] = {}
_element_writers: dict[tuple[type[Message], int, tuple[str, ...]], StepWriter] = {}
_replaced: set[type[Message]] = set()
_UNREADABLE: Final = (struct.error, IndexError, Malformed, UnicodeDecodeError)
_UNWRITABLE: Final = (struct.error, TypeError, AttributeError, UnicodeEncodeError, Malformed)
COPIED_MOST = 1 << 20
"""Size limit in bytes of a message that is joined to one buffer; record batches are never joined."""
JOIN_LIMIT = 4096
"""Size limit in bytes of neighbouring buffers that are joined."""


def decode(
    message: type[M], version: int, body: bytes | bytearray, start: int = 0, stop: int | None = None
) -> tuple[M, int]:
    """Decode one message from ``body[start:stop]``; return the message and its end, possibly beyond ``stop``.

    Raises ProtocolError with the field's path for a malformed message, UnsupportedVersion for an unknown version.
    """
    read = _readers.get((message, version))
    if read is None:
        check_version(message, version)
        read = _readers[message, version] = compile_reader(message, version)
    try:
        value: tuple[M, int] = read(body, start, len(body) if stop is None else stop)
    except _UNREADABLE as error:
        raise _unreadable(message, error) from None
    return value


def decode_in_steps(message: type[M], version: int, body: bytes | bytearray, start: int = 0) -> Steps[tuple[M, int]]:
    """Decode ``body`` from ``start`` to its end in steps; the arrays have one limit of elements together."""
    if is_replaced(message):
        return decode(message, version, body, start)
    read = _step_readers.get((message, version))
    if read is None:
        check_version(message, version)
        read = _step_readers[message, version] = compile_step_reader(message, version)
    try:
        value: tuple[M, int] = yield from read(body, start, len(body))
    except _UNREADABLE as error:
        raise _unreadable(message, error) from None
    return value


def _unreadable(message: type[Message], error: Exception) -> ProtocolError:
    is_short = isinstance(error, (struct.error, IndexError))
    return field_error(message, error, "the bytes end before the field does" if is_short else str(error))


def encode(message: Message, version: int) -> list[Buffer]:
    """Encode ``message`` as buffers in order; record batches are not copied.

    Raises ProtocolError if a value does not fit, or if a field is set that this version lacks and that is not
    ignorable.
    """
    return _write(message, version, [])


def encode_framed(head: bytes, message: Message, version: int) -> list[Buffer]:
    """Return a frame: its length, ``head`` (an encoded header) and ``message``. Raises as ``encode``."""
    return _write(message, version, [b"", head])


def _write(message: Message, version: int, parts: list[Buffer]) -> list[Buffer]:
    """Append ``message`` to ``parts``; the first part, if any, becomes the frame's length."""
    cls = type(message)
    found = _writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _writers[cls, version] = compile_writer(cls, version), holds_records(cls)
    write, has_records = found
    is_framed = bool(parts)
    try:
        write(message, parts.extend)
        if is_framed:
            parts[0] = _length.pack(sum(map(len, parts)))
        return coalesce(parts) if has_records or sum(map(len, parts)) > COPIED_MOST else [b"".join(parts)]
    except _UNWRITABLE as error:
        raise _unwritable(cls, version, error) from error


def encode_framed_in_steps(head: bytes, message: Message, version: int) -> Steps[list[Buffer]]:
    cls = type(message)
    if is_replaced(cls):
        return encode_framed(head, message, version)
    write = _step_writers.get((cls, version))
    if write is None:
        check_version(cls, version)
        write = _step_writers[cls, version] = compile_step_writer(cls, version)
    whole: list[Buffer] = [b""]
    yield from _written(write, message, [head], whole, cls, version)
    whole[0] = _length.pack(sum(map(len, whole)))
    return whole


def encode_elements_in_steps(
    message: type[Message], version: int, path: tuple[str, ...], elements: Sequence[Message]
) -> Steps[list[Buffer]]:
    """Encode elements of the array at ``path`` without its length, in steps. Raises as ``encode``."""
    write = _element_writers.get((message, version, path))
    if write is None:
        check_version(message, version)
        write = _element_writers[message, version, path] = compile_elements_writer(message, version, path)
    whole: list[Buffer] = []
    yield from _written(write, elements, [], whole, message, version)
    return whole


def _written(
    write: StepWriter, value: object, parts: list[Buffer], whole: list[Buffer], message: type[Message], version: int
) -> Steps[None]:
    """Append the buffers of ``parts``, and of ``value`` in ``message`` or its array, to ``whole``, in steps."""
    try:
        for _ in write(value, parts.extend):
            whole += coalesce(parts)
            parts.clear()
            yield
    except _UNWRITABLE as error:
        raise _unwritable(message, version, error) from error
    whole += coalesce(parts)


def _unwritable(message: type[Message], version: int, error: Exception) -> ProtocolError:
    why = "null, which it does not allow" if "NoneType" in str(error) else str(error)
    return field_error(message, error, f"cannot be written at version {version}: {why}")


def is_replaced(message: type[Message]) -> bool:
    return message in _replaced


@contextmanager
def replaced(
    messages: Collection[type[Message]],
    reader_of: Callable[[type[Message], int], Reader],
    writer_of: Callable[[type[Message], int], Writer],
) -> Iterator[None]:
    """Replace the readers and writers of ``messages`` within a block, for programs with both ends of a connection."""
    keys = [(m, version) for m in messages for version in range(m.VERSIONS.low, m.VERSIONS.high + 1)]
    compiled_readers = {key: _readers.pop(key) for key in keys if key in _readers}
    compiled_writers = {key: _writers.pop(key) for key in keys if key in _writers}
    for message, version in keys:
        _readers[message, version] = reader_of(message, version)
        _writers[message, version] = writer_of(message, version), False
    _replaced.update(messages)
    try:
        yield
    finally:
        _replaced.difference_update(messages)
        for key in keys:
            del _readers[key], _writers[key]
        _readers.update(compiled_readers)
        _writers.update(compiled_writers)


def encode_bytes(message: Message, version: int) -> bytes:
    buffers = encode(message, version)
    return buffers[0] if len(buffers) == 1 and type(buffers[0]) is bytes else b"".join(buffers)


def coalesce(parts: Sequence[Buffer]) -> list[Buffer]:
    """Join neighbouring small buffers."""
    if parts and max(map(len, parts)) <= JOIN_LIMIT:
        return [b"".join(parts)]
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) > JOIN_LIMIT:
            if small:
                joined.append(b"".join(small))
                small = []
            joined.append(part)
        else:
            small.append(part)
    if small:
        joined.append(b"".join(small))
    return joined


def check_version(message: type[Message], version: int) -> None:
    if version not in message.VERSIONS:
        low, high = message.VERSIONS
        raise UnsupportedVersion(f"{message.__name__} has versions {low} to {high}, not {version}")
