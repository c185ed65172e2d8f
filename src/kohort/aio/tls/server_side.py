"""TLS listeners. A failed handshake is counted and logged with its cause; it does not affect other connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from kohort.aio.tls.failures import of_client
from kohort.aio.tls.tls_socket import FATAL_INTERNAL_ERROR, HANDSHAKE_RECORD, Above, ReadInto, TlsFilter, TlsSocket
from kohort.errors import ProtocolError
from kohort.notes import Note, info, warning
from kohort.security.certificates import subject_name

HANDSHAKE_S: Final = 10.0
"""Timeout of a TLS handshake in seconds. It includes the time before the client's first byte."""
READ_BYTES: Final = 256 << 10
OTHER_PROTOCOLS: Final = ((b"GET ", "HTTP"), (b"POST", "HTTP"), (b"HEAD", "HTTP"), (b"PUT ", "HTTP"), (b"SSH-", "SSH"))
"""First bytes of other protocols, and names of these protocols. A Kafka request starts with its length."""


class Served(asyncio.Protocol):
    """Protocol on top of a listener's TLS connection."""

    __slots__ = ()

    def secured(self, name: str | None) -> None:
        """Handle the end of the TLS handshake. ``name`` is the subject of the client's certificate, if it sent one."""


class TlsListener:
    def __init__(self, name: str, context: Callable[[], ssl.SSLContext], log_note: Callable[[Note], None]) -> None:
        """Create the object that accepts TLS connections of the listener ``name``.

        ``context`` is called for each new connection, because certificate files may change. It returns the SSLContext,
        and may raise ConfigError.
        """
        self.name = name
        self._context = context
        self._log_note = log_note
        self.failed_handshakes = 0
        self.handshake_s = HANDSHAKE_S
        self._room = memoryview(bytearray(READ_BYTES))
        """Buffer for decrypted bytes. All connections share it: the event loop reads from one connection at a time."""

    def serve(self, served: Served) -> asyncio.Protocol:
        return _ServerSocket(self, served, self._context())

    def failed(self, host: str, why: str) -> None:
        self.failed_handshakes += 1
        self._log_note(warning(f"{why} (listener {self.name})", ("tls", why)).about(host))

    def interrupted(self, host: str) -> None:
        self.failed_handshakes += 1
        self._log_note(info(f"connection closed during the TLS handshake (listener {self.name})", "tls").about(host))

    def read(self, read_into: ReadInto) -> bytes:
        return bytes(self._room[: read_into(self._room)])


class _Plain(Above):
    def __init__(self, listener: TlsListener, served: Served) -> None:
        self._listener = listener
        self._served = served
        self.begin: Callable[[Any], None] = served.connection_made

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
            self._listener.interrupted(self._host)
        self._end_timer()
        del self._begin
        super().connection_lost(exc)

    def _shake(self) -> bool:
        try:
            is_open = super()._shake()
        except ProtocolError as error:  # OpenSSL accepted a certificate that kohort cannot parse
            self._reject(f"the client's {error}")
            return False
        if is_open:
            self._end_timer()
        return is_open

    def _refuse_beginning(self, data: bytes) -> bool:
        if data[0] == HANDSHAKE_RECORD:
            return False
        protocol = next((name for beginning, name in OTHER_PROTOCOLS if data.startswith(beginning)), "plaintext")
        why = f"sends {protocol} to a TLS listener"
        if protocol == "plaintext":
            why += ": set security.protocol=SSL or SASL_SSL in the client, or use another port"
        self._reject(why, FATAL_INTERNAL_ERROR)
        return True

    def _failed(self, error: ssl.SSLError) -> None:
        if self._tls.is_open:
            self._listener.failed(self._host, f"its TLS connection failed: {of_client(error)}")
            self.abort()
        else:
            self._reject(of_client(error))

    def _too_much(self) -> None:
        self._reject("sends too much before the end of the TLS handshake")

    def _too_slow(self) -> None:
        self._timer = None
        if not (self._tls.is_open or self._is_closing):
            self._reject(f"the TLS handshake took longer than {self._listener.handshake_s:g} s")

    def _reject(self, why: str, alert: bytes = b"") -> None:
        self._end_timer()
        self._listener.failed(self._host, why)
        self._refuse(alert)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
