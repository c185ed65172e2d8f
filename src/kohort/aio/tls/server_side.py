"""A listener with TLS: handshakes that fail are told in words and counted, and cost nobody else anything."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

from kohort.aio.tls.failures import of_client
from kohort.aio.tls.tls_socket import FATAL_INTERNAL_ERROR, HANDSHAKE_RECORD, Above, ReadInto, TlsFilter, TlsSocket
from kohort.errors import ProtocolError
from kohort.notes import Note, info, warning
from kohort.security.certificates import subject_name

HANDSHAKE_S: Final = 10.0
"""How long a handshake may take; what connects and says nothing may not stay either."""
READ_BYTES: Final = 256 << 10
OTHERS: Final = ((b"GET ", "HTTP"), (b"POST", "HTTP"), (b"HEAD", "HTTP"), (b"PUT ", "HTTP"), (b"SSH-", "SSH"))
"""How other protocols begin than Kafka's, which begins with a length."""


class Served(Protocol):
    def connection_made(self, transport: Any) -> None:
        """Hear of the connection, at once."""

    def secured(self, name: str | None) -> None:
        """Hear that the handshake is done, and the subject of the client's certificate, if it showed one."""

    def data_received(self, data: bytes) -> None:
        """Take plain bytes."""

    def pause_writing(self) -> None:
        """Hear that the client does not read."""

    def resume_writing(self) -> None:
        """Hear that it has read all."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the connection is gone."""


class TlsListener:
    """What the connections of one listener have in common."""

    def __init__(self, name: str, context: Callable[[], ssl.SSLContext], tell: Callable[[Note], None]) -> None:
        """``context`` is asked at each connection, as files may have changed; it may raise ConfigError."""
        self.name = name
        self._context = context
        self._tell = tell
        self.failed_handshakes = 0
        self.handshake_s = HANDSHAKE_S
        self._room = memoryview(bytearray(READ_BYTES))
        """Where plain bytes are written first, of all connections: one after the other is served."""

    def serve(self, served: Served) -> asyncio.Protocol:
        return _ServerSocket(self, served, self._context())

    def failed(self, host: str, why: str) -> None:
        self.failed_handshakes += 1
        self._tell(warning(f"{why} (listener {self.name})", ("tls", why)).about(host))

    def torn(self, host: str) -> None:
        self.failed_handshakes += 1
        self._tell(info(f"gone in the middle of the TLS handshake (listener {self.name})", "tls").about(host))

    def read(self, read_into: ReadInto) -> bytes:
        """Return plain bytes of one connection, a buffer full at most."""
        count = read_into(self._room)
        return bytes(self._room[:count])


class _Plain(Above):
    def __init__(self, listener: TlsListener, served: Served) -> None:
        self._listener = listener
        self._served = served
        self.begin = served.connection_made

    def secured(self, certificate: bytes | None) -> None:
        self._served.secured(None if certificate is None else subject_name(certificate))

    def pause_writing(self) -> None:
        self._served.pause_writing()

    def resume_writing(self) -> None:
        self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._served.connection_lost(exc)

    def plain_waits(self, read_into: ReadInto) -> None:
        while data := self._listener.read(read_into):
            self._served.data_received(data)


class _ServerSocket(TlsSocket):
    def __init__(self, listener: TlsListener, served: Served, context: ssl.SSLContext) -> None:
        above = _Plain(listener, served)
        super().__init__(TlsFilter(context, server_side=True), above)
        self._listener = listener
        self._begin = above.begin
        self._host = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._host = str(peer[0]) if isinstance(peer, tuple) else "localhost"
        self._timer = asyncio.get_running_loop().call_later(self._listener.handshake_s, self._too_slow)
        self._begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._arrived_bytes and not (self._tls.is_open or self._is_closing):
            self._listener.torn(self._host)
        self._end_timer()
        del self._begin
        super().connection_lost(exc)

    def _shake(self) -> bool:
        try:
            is_open = super()._shake()
        except ProtocolError as error:  # OpenSSL took a certificate that cannot be read here
            self._give_up(f"the client's {error}")
            return False
        if is_open:
            self._end_timer()
        return is_open

    def _refuse_beginning(self, data: bytes) -> bool:
        if data[0] == HANDSHAKE_RECORD:
            return False
        protocol = next((name for beginning, name in OTHERS if data.startswith(beginning)), "plaintext")
        advice = (
            "" if protocol != "plaintext" else ": set security.protocol=SSL or SASL_SSL there, or take another port"
        )
        self._give_up(f"speaks {protocol} to a TLS listener{advice}", FATAL_INTERNAL_ERROR)
        return True

    def _failed(self, error: ssl.SSLError) -> None:
        if self._tls.is_open:
            self._listener.failed(self._host, f"its TLS connection broke: {of_client(error)}")
            self.abort()
        else:
            self._give_up(of_client(error))

    def _too_much(self) -> None:
        self._give_up("sends much, and no TLS handshake")

    def _too_slow(self) -> None:
        self._timer = None
        if not (self._tls.is_open or self._is_closing):
            self._give_up(f"the TLS handshake was not done within {self._listener.handshake_s:g} s")

    def _give_up(self, why: str, last_words: bytes = b"") -> None:
        self._end_timer()
        self._listener.failed(self._host, why)
        self._refuse(last_words)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
