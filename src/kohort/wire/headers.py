"""Headers of requests and responses (protocol/requests.md#headers).

Flexible versions of a message have tagged fields in their header. Two exceptions: the client id is never compact, and
the response of ApiVersions always has the short header, because its client does not know the broker's versions yet.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from kohort.errors import ProtocolError
from kohort.steps import Steps
from kohort.wire.apis import API_VERSIONS
from kohort.wire.codec import Buffer, decode, encode_framed, encode_framed_in_steps
from kohort.wire.codec_text import Malformed, uvarint
from kohort.wire.readers import TAGS_MAX
from kohort.wire.schema import Message

M = TypeVar("M", bound=Message)

_fixed = struct.Struct(">hhih")
_size = struct.Struct(">h")
SIZE_AT: Final = _fixed.size - _size.size
_correlation = struct.Struct(">i")
NO_TAGS: Final = b"\x00"


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def client_id_of(request: bytes | bytearray) -> tuple[str | None, int]:
    """Return the client id of a request and its end; tagged fields follow in flexible versions."""
    try:
        (size,) = _size.unpack_from(request, SIZE_AT)
    except struct.error:
        raise ProtocolError(f"a request of {len(request)} bytes, too short for its header", "RequestHeader") from None
    at = _fixed.size
    if size == -1:
        return None, at
    if size < 0:
        raise ProtocolError(f"a length of {size}", "RequestHeader.client_id")
    end = at + size
    if end > len(request):
        raise ProtocolError(f"a length of {size} with {len(request) - at} bytes left", "RequestHeader.client_id")
    try:
        return request[at:end].decode(), end
    except UnicodeDecodeError as error:
        raise ProtocolError(str(error), "RequestHeader.client_id") from None


def build_request(header: RequestHeader, message: Message) -> list[Buffer]:
    client_id = b"" if header.client_id is None else header.client_id.encode()
    size = -1 if header.client_id is None else len(client_id)
    try:
        head = _fixed.pack(header.api_key, header.api_version, header.correlation_id, size) + client_id
    except struct.error as error:
        raise ProtocolError(f"cannot be written: {error}", "RequestHeader") from None
    if header.api_version in type(message).FLEXIBLE:
        head += NO_TAGS
    return encode_framed(head, message, header.api_version)


def build_response(correlation_id: int, message: Message, version: int) -> list[Buffer]:
    return encode_framed(_response_head(correlation_id, message, version), message, version)


def build_response_in_steps(correlation_id: int, message: Message, version: int) -> Steps[list[Buffer]]:
    return encode_framed_in_steps(_response_head(correlation_id, message, version), message, version)


def _response_head(correlation_id: int, message: Message, version: int) -> bytes:
    head = _correlation.pack(correlation_id)
    return head + NO_TAGS if _long_response_header(type(message), version) else head


def parse_response(response: Buffer, message: type[M], version: int) -> tuple[int, M]:
    """Return the correlation id and the body of a response. Raises ProtocolError, also for extra bytes.

    A view must start at its buffer's start. Fields of type bytes are bytearrays if the response is a bytearray or a
    view of one: pass ``bytes`` if the caller keeps them.
    """
    correlation_id = correlation_of(response)
    size = len(response)
    # Slices of views cannot be decoded as text, so decode the buffer; it may be longer than the response.
    buffer = cast("bytes | bytearray", response.obj if isinstance(response, memoryview) else response)
    at = _correlation.size
    if _long_response_header(message, version):
        at = skip_tags(buffer, at, "ResponseHeader")
    body, end = decode(message, version, buffer, at, size)
    if end != size:
        raise ProtocolError(f"{size - end} bytes beyond the end of version {version}", message.__name__)
    return correlation_id, body


def correlation_of(response: Buffer) -> int:
    try:
        return int(_correlation.unpack_from(response)[0])
    except struct.error:
        problem = f"a response of {len(response)} bytes, too short for its header"
        raise ProtocolError(problem, "ResponseHeader") from None


def skip_tags(body: bytes | bytearray, at: int, header: str) -> int:
    """Return the end of a header's tagged fields; Kafka defines no tag for headers."""
    try:
        if not body[at]:
            return at + 1
        count, at = uvarint(body, at)
        if count > TAGS_MAX:
            raise ProtocolError(f"{count} tagged fields, more than the {TAGS_MAX} accepted", f"{header}.tags")
        for _ in range(count):
            _, at = uvarint(body, at)
            size, at = uvarint(body, at)
            if size > len(body) - at:
                raise ProtocolError(f"a tag of {size} bytes with {len(body) - at} left", f"{header}.tags")
            at += size
    except (IndexError, Malformed) as error:
        raise ProtocolError(f"the tagged fields cannot be read: {error}", f"{header}.tags") from None
    return at


def _long_response_header(message: type[Message], version: int) -> bool:
    low, high = message.FLEXIBLE
    return low <= version <= high and message.API_KEY != API_VERSIONS
