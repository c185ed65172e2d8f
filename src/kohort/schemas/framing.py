"""References to registered schemas in records: Confluent's wire format.

A reference is byte 00 and the id of the schema (4 bytes, big-endian), or byte 01 and its GUID (16 bytes). It stands
before the payload, or in a header, beside a bare payload. Protobuf appends the path of the message in its file: a
count, then an index for each nesting level, as zig-zag varints. Byte 00 abbreviates the path of the first message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kohort.errors import CorruptRecord, UndecodableValue
from kohort.model import Header
from kohort.wire.varints import read_varint, varint_bytes

SchemaRef = int | str
"""Id of a schema, or its GUID as text."""
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
ID, GUID = 0, 1
FIRST_MESSAGE: Final = (0,)
DEEPEST: Final = 100_000
"""Limit of nesting levels in a message path, as in confluent-kafka."""
_ID: Final = struct.Struct(">BI")
_GUID_END: Final = 17


class Frame(NamedTuple):
    """A framed key or value. ``path``: indexes of a Protobuf message in its file, empty for other formats."""

    schema: SchemaRef
    payload: bytes
    path: tuple[int, ...] = ()


def read_frame(data: bytes, headers: Iterable[Header] = (), *, is_key: bool = False, has_path: bool = False) -> Frame:
    """Parse a framed key or value. The last schema header wins over a prefix.

    ``has_path``: True for Protobuf. Raises UndecodableValue, without the place of the record, for bytes without a
    valid reference.
    """
    name = KEY_HEADER if is_key else VALUE_HEADER
    reference = None
    for header, value in headers:
        if header == name:
            reference = value
    if reference is None:
        schema, end = _reference(data, "")
        path, end = _path(data, end) if has_path else ((), end)
        return Frame(schema, data[end:], path)
    schema, end = _reference(reference, f"header {name}: ")
    path, end = _path(reference, end) if has_path else ((), end)
    return Frame(schema, data, path)


def reference_bytes(schema: SchemaRef, path: Sequence[int] | None = None) -> bytes:
    """Encode a reference: the prefix of a payload, or the value of a header. ``path``: of a Protobuf message."""
    encoded = _ID.pack(ID, schema) if isinstance(schema, int) else bytes((GUID,)) + UUID(schema).bytes
    if path is None:
        return encoded
    if tuple(path) == FIRST_MESSAGE:
        return encoded + b"\0"
    return encoded + varint_bytes(len(path)) + b"".join(map(varint_bytes, path))


def schema_header(schema: SchemaRef, *, is_key: bool, path: Sequence[int] | None = None) -> Header:
    """Return the header with the reference, for a bare payload."""
    return KEY_HEADER if is_key else VALUE_HEADER, reference_bytes(schema, path)


def _reference(data: bytes, where: str) -> tuple[SchemaRef, int]:
    if not data:
        raise UndecodableValue(f"{where}0 bytes, expected byte 00 and the id of a schema")
    if data[0] == ID:
        if len(data) < _ID.size:
            raise UndecodableValue(f"{where}{len(data)} bytes, expected byte 00 and a schema id of 4 bytes")
        return _ID.unpack_from(data)[1], _ID.size
    if data[0] == GUID:
        if len(data) < _GUID_END:
            raise UndecodableValue(f"{where}{len(data)} bytes, expected byte 01 and a schema GUID of 16 bytes")
        return str(UUID(bytes=bytes(data[1:_GUID_END]))), _GUID_END
    raise UndecodableValue(
        f"{where}the first byte is {data[0]:02x}, expected 00 (schema id) or 01 (GUID): no schema registry wrote it"
    )


def _path(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    try:
        count, at = read_varint(data, at)
        if count == 0:
            return FIRST_MESSAGE, at
        size = len(data) - at
        indexes = [0] * (count if 0 < count <= min(size, DEEPEST) else 0)
        for i in range(len(indexes)):
            indexes[i], at = read_varint(data, at)
    except IndexError:
        raise UndecodableValue("the message path ends within an index") from None
    except CorruptRecord as error:
        raise UndecodableValue(f"message path: {error.problem}") from None
    if not indexes:
        raise UndecodableValue(f"a message path of {count} indexes, but {size} bytes follow")
    if min(indexes) < 0:
        raise UndecodableValue(f"a message path with the negative index {min(indexes)}")
    return tuple(indexes), at
