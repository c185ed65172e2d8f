"""What a recording may hold of the bytes that come in: everything but passwords and tokens.

Frames with secrets are held until they are whole, and written down with each secret overwritten by as many bytes of
nothing: in SaslAuthenticate and AlterUserScramCredentials, and what AlterConfigs and IncrementalAlterConfigs set that
is not known to be no secret. Of a frame that comes before a login is complete, or cannot be read, the length is left.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kohort.broker.dispatch import HEADER
from kohort.config.broker import BrokerConfig
from kohort.config.options import options_of
from kohort.config.topic import TopicConfig
from kohort.errors import ProtocolError
from kohort.secret import Secret
from kohort.wire.apis import API_VERSIONS, APIS
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.headers import client_id_of, skip_tags

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
ALTER_CONFIGS: Final = frozenset({33, 44})
ALTER_SCRAM_USERS: Final = 51
WITH_SECRETS: Final = frozenset({SASL_AUTHENTICATE, *ALTER_CONFIGS, ALTER_SCRAM_USERS})
BEFORE_A_LOGIN: Final = frozenset({SASL_HANDSHAKE, API_VERSIONS})
HELD_MOST: Final = 1 << 20
"""A larger frame with secrets is not held: nothing of it is written."""
LENGTH_BYTES: Final = 4
START_BYTES: Final = 6
"""The length of a frame and the key of its API."""
OPEN_OPTIONS: Final = frozenset(
    o.name for table in (BrokerConfig, TopicConfig) for o in options_of(table) if o.type is not Secret
)

_length = struct.Struct(">i")
_key = struct.Struct(">h")


class Piece(NamedTuple):
    """Some bytes that came in, and as many that are written of them."""

    given: bytes
    written: bytes
    is_exact: bool = True
    """Whether a broker that is given what is written does the same."""


class Concealer:
    """The bytes of one connection, in order."""

    def __init__(self, max_frame_bytes: int, is_logging_in: Callable[[], bool]) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._is_logging_in = is_logging_in
        self._held = b""
        self._plain_left = 0
        self._unwritten_left = 0
        self._is_lost = False

    def take_held(self) -> bytes:
        """Return what is held back; it is not any more."""
        held, self._held = self._held, b""
        return held

    def pieces(self, data: bytes) -> Iterator[Piece]:
        """Yield what is to be given on. Each piece is to be handled before the next is asked for: it may be what
        completes a login."""
        data, at = self.take_held() + data, 0
        while at < len(data):
            left = len(data) - at
            if self._is_lost:
                yield Piece(data[at:], bytes(left))
                return
            if self._plain_left or self._unwritten_left:
                size = min(left, self._plain_left or self._unwritten_left)
                part = data[at : at + size]
                if self._plain_left:
                    self._plain_left -= size
                    yield Piece(part, part)
                else:
                    self._unwritten_left -= size
                    yield Piece(part, bytes(size), is_exact=False)
                at += size
                continue
            size = LENGTH_BYTES + (_length.unpack_from(data, at)[0] if left >= LENGTH_BYTES else START_BYTES)
            if left < min(size, START_BYTES):
                break
            if not LENGTH_BYTES <= size <= LENGTH_BYTES + self._max_frame_bytes:
                self._is_lost = True  # the connection ends here
            elif size < START_BYTES or not self._hides(data, at):
                self._plain_left = size
            elif size > HELD_MOST:
                self._unwritten_left = size - LENGTH_BYTES
            elif left < size:
                break
            else:
                yield _concealed(data[at : at + size], is_logging_in=self._is_logging_in())
                at += size
            if self._is_lost or self._unwritten_left:
                yield Piece(data[at : at + LENGTH_BYTES], data[at : at + LENGTH_BYTES])
                at += LENGTH_BYTES
        self._held = data[at:]

    def _hides(self, data: bytes, at: int) -> bool:
        key = _key.unpack_from(data, at + LENGTH_BYTES)[0]
        return key in WITH_SECRETS or (self._is_logging_in() and key not in BEFORE_A_LOGIN)


def _concealed(frame: bytes, *, is_logging_in: bool) -> Piece:
    """Return a whole frame, its length included, without its secrets."""
    try:
        written = frame[:LENGTH_BYTES] + _without_secrets(frame[LENGTH_BYTES:])
    except (ProtocolError, KeyError, struct.error):
        written = b""
    if len(written) == len(frame):
        return Piece(frame, written)
    # What a login makes of a frame is written down beside it, whatever the frame holds.
    return Piece(frame, frame[:LENGTH_BYTES] + bytes(len(frame) - LENGTH_BYTES), is_exact=is_logging_in)


def _without_secrets(request: bytes) -> bytes:
    key, version, _ = HEADER.unpack_from(request)
    api = APIS[key]
    if key not in WITH_SECRETS:
        return b""
    _, at = client_id_of(request)
    if version >= api.flexible_from:
        at = skip_tags(request, at, "RequestHeader")
    message: Any
    message, end = decode(api.request, version, request, at)
    if key == SASL_AUTHENTICATE:
        message.auth_bytes = bytes(len(message.auth_bytes))
    elif key == ALTER_SCRAM_USERS:
        for one in message.upsertions:
            one.salt, one.salted_password = bytes(len(one.salt)), bytes(len(one.salted_password))
    else:
        for resource in message.resources:
            for config in resource.configs:
                if config.value is not None and config.name not in OPEN_OPTIONS:
                    config.value = "*" * len(config.value.encode())
    return request[:at] + encode_bytes(message, version) + bytes(len(request) - end)
