"""Send the same bytes to listeners of two brokers in every state of a login; return comparable responses.

A case is a listener and the frames for it. Responses are plain data.
"""

from __future__ import annotations

import base64
import re
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.errors import ProtocolError
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import ScramClient
from kohort.wire.apis import APIS
from kohort.wire.headers import RequestHeader, build_request, parse_response
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kohort.wire.schema import Message
from support.differential.harness import Names, fitted

CLOSED = "closed"
SILENCE = "silence"
SILENCE_S = 10.0
NONCE = "fyko+d2lbbFgONRv9qkxdawL"

Frame = tuple[bytes, Callable[[bytes], Any]]
"""Bytes without their length, and the decoder of the response."""


def request(message: Message, version: int) -> Frame:
    """Return a request as a frame, without the fields that its version lacks."""
    fitted_message = fitted(message, version)
    header = RequestHeader(type(message).API_KEY, version, 1, "walker")
    frame = b"".join(build_request(header, fitted_message))[4:]
    return frame, lambda answer: _plain_response(answer, type(message).API_KEY, version)


def unknown(key: int, version: int, body: bytes = b"") -> Frame:
    """Return a frame of an unknown API or version."""
    return struct.pack(">hhih", key, version, 1, -1) + body, bytes.hex


def token(data: bytes) -> Frame:
    """Return a token as a frame, for use after SaslHandshake 0."""
    return data, lambda answer: {"token": _without_chance(answer)}


def handshake(version: int, mechanism: str) -> Frame:
    return request(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(data: bytes, version: int = 2) -> Frame:
    return request(SaslAuthenticateRequest(auth_bytes=data), version)


def api_versions(version: int = 3) -> Frame:
    return request(ApiVersionsRequest(client_software_name="walker", client_software_version="1"), version)


def _plain_response(answer: bytes, key: int, version: int) -> Any:
    """Return a response as plain data, without broker-specific values."""
    if key == ApiVersionsRequest.API_KEY:
        return {"error_code": struct.unpack_from(">h", answer, 4)[0], "apis": len(answer) > 32}
    try:
        correlation_id, message = parse_response(answer, APIS[key].response, version)
    except ProtocolError:
        return answer.hex()
    plain = Names("no mark").plain(message)
    if "auth_bytes" in plain:
        plain["auth_bytes"] = _without_chance(plain["auth_bytes"])
    if "mechanisms" in plain:
        plain["mechanisms"] = sorted(plain["mechanisms"])
    if "session_lifetime_ms" in plain:
        plain["session_lifetime_ms"] = plain["session_lifetime_ms"] > 0
    return {"correlation_id": correlation_id, **plain}


def _without_chance(data: bytes) -> str:
    """Return a token as text, without random values: the nonce, the salt, and values derived from them."""
    text = data.decode(errors="replace")
    text = re.sub(rf"^r={re.escape(NONCE)}[^,]+,s=[^,]+,", "r=NONCE,s=SALT,", text)
    return re.sub(r"^v=.*", "v=SIGNATURE", text)


class Wire:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=SILENCE_S)

    def close(self) -> None:
        self.socket.close()

    def say(self, frame: Frame) -> Any:
        """Send a frame; return the response as plain data, CLOSED or SILENCE."""
        answer = self.send(frame[0])
        return frame[1](answer) if isinstance(answer, bytes) else answer

    def send(self, frame: bytes) -> bytes | str:
        return self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> bytes | str:
        """Send raw bytes; return the next frame, CLOSED or SILENCE."""
        try:
            self.socket.sendall(data)
            (size,) = struct.unpack(">i", self._exactly(4))
            return self._exactly(size)
        except TimeoutError:
            return SILENCE
        except (EOFError, ConnectionError):
            return CLOSED

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.socket.recv(size - len(found))
            if not part:
                raise EOFError
            found += part
        return found


def unedited(final: bytes) -> bytes:
    return final


@dataclass(frozen=True)
class Case:
    """A scripted connection: listener, login state, frames."""

    name: str
    listener: str
    before: Sequence[Frame] = ()
    says: Sequence[Frame] = ()
    data: bytes = b""
    """Raw bytes instead of frames."""
    scram: tuple[str, str, str] | None = None
    """Mechanism, user and password of a previous login."""
    edits: Callable[[bytes], bytes] = unedited
    """Changes the last token."""


def play(case: Case, address: str) -> list[Any]:
    """Return a broker's responses to a case, and whether the connection is usable afterwards."""
    return resume(case, Wire(address))


def resume(case: Case, wire: Wire) -> list[Any]:
    """Run a case on an open connection, and close it."""
    try:
        found = [wire.say(frame) for frame in case.before]
        if case.scram is not None:
            found += _log_in_by_scram(wire, *case.scram, edits=case.edits)
        if case.data:
            answer = wire.send_bytes(case.data)
            found.append(answer if isinstance(answer, str) else "answered")
        found += [wire.say(frame) for frame in case.says]
        if CLOSED not in found and SILENCE not in found:
            found.append(wire.say(api_versions()))
        return found
    finally:
        wire.close()


def _log_in_by_scram(
    wire: Wire, mechanism: str, user: str, password: str, *, edits: Callable[[bytes], bytes]
) -> list[Any]:
    """Log in by SCRAM with SaslHandshake 1; ``edits`` changes the last token."""
    client = ScramClient(mechanism, user, Secret(password), NONCE)
    found = [wire.say(handshake(1, mechanism))]
    answer = wire.send(authenticate(client.first(), 1)[0])
    if isinstance(answer, str):
        return [*found, answer]
    message: Any = parse_response(answer, APIS[SaslAuthenticateRequest.API_KEY].response, 1)[1]
    found.append(_plain_response(answer, SaslAuthenticateRequest.API_KEY, 1))
    if message.error_code:
        return found
    derivation = client.next(message.auth_bytes)
    assert isinstance(derivation, Derivation)
    final = edits(client.derived(derivation.derive()))
    return [*found, wire.say(authenticate(final, 1))]


def flipped(final: bytes) -> bytes:
    """Return a client's last token with another proof of the same length."""
    head, _, proof = final.partition(b",p=")
    return head + b",p=" + base64.b64encode(bytes(255 - byte for byte in base64.b64decode(proof)))
