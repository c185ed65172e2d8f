"""Messages to bytes and back, with bounds: ``encode`` and ``decode``.

Both compile the writer or the reader of (message, version) on first use. A reader checks every count and length against
the bytes that remain before it allocates, and whatever is wrong comes out as one kind of error, ``ProtocolError``, with
the field's path.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

from kohort.errors import UnsupportedVersion
from kohort.wire.generate import Malformed, field_error, holds_records
from kohort.wire.readers import Reader, compile_reader
from kohort.wire.schema import Message
from kohort.wire.writers import Writer, compile_writer

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview
Records = Buffer | list[Buffer]
"""Record batches as they travel: a view when read; one buffer, or several that are never joined, when written."""

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], tuple[Writer, bool]] = {}
JOIN_LIMIT = 4096
"""Buffers up to this many bytes are joined with their neighbours; larger ones are sent as they are."""


def decode(
    message: type[M], version: int, body: bytes | bytearray, start: int = 0, stop: int | None = None
) -> tuple[M, int]:
    """Read one message from ``body[start:stop]``; returns it and where it ended, beyond ``stop`` if it does not fit.

    Raises ProtocolError, with the path of the field, for anything that is not such a message; UnsupportedVersion for
    a version that the message does not have.
    """
    read = _readers.get((message, version))
    if read is None:
        check_version(message, version)
        read = _readers[message, version] = compile_reader(message, version)
    try:
        value: tuple[M, int] = read(body, start, len(body) if stop is None else stop)
    except (struct.error, IndexError) as error:
        raise field_error(message, error, "the bytes end before the field does") from None
    except (Malformed, UnicodeDecodeError) as error:
        raise field_error(message, error, str(error)) from None
    return value


def encode(message: Message, version: int) -> list[Buffer]:
    """The bytes of ``message`` at ``version``, as buffers in order; record batches are passed through as they are.

    Raises ProtocolError where a field that this version lacks is set and may not be dropped, or does not fit.
    """
    cls = type(message)
    found = _writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _writers[cls, version] = compile_writer(cls, version), holds_records(cls)
    write, has_records = found
    parts: list[Buffer] = []
    try:
        write(message, parts.extend)
        return coalesce(parts) if has_records else [b"".join(parts)]
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError, Malformed) as error:
        why = "null, which it does not allow" if "NoneType" in str(error) else str(error)
        raise field_error(cls, error, f"cannot be written at version {version}: {why}") from error


def encode_bytes(message: Message, version: int) -> bytes:
    """``encode``, joined."""
    buffers = encode(message, version)
    return buffers[0] if len(buffers) == 1 and type(buffers[0]) is bytes else b"".join(buffers)


def coalesce(parts: Sequence[Buffer]) -> list[Buffer]:
    """Join neighbouring small buffers, leave large ones alone."""
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
    """Raises UnsupportedVersion for a version that the message does not have."""
    if version not in message.VERSIONS:
        low, high = message.VERSIONS
        raise UnsupportedVersion(f"{message.__name__} has versions {low} to {high}, not {version}")
