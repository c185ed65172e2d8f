"""TLS connections of clients. Error messages name the cause and details of the broker's certificate."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from kohort.aio.addresses import connect_to
from kohort.aio.tls.failures import WANTS_CERTIFICATE, TlsRefusal, TlsTarget, no_tls_error, of_broker
from kohort.aio.tls.tls_socket import ALERT_RECORD, HANDSHAKE_RECORD, Above, TlsFilter, TlsSocket

PROBE_TIMEOUT_S: Final = 3.0
VERSIONS_REQUEST: Final = bytes.fromhex("0000000a 0012 0000 6b6f686f ffff")
"""Bytes of an ApiVersions request of version 0, which every Kafka broker answers."""
LENGTH_BYTES: Final = 4
CORRELATION_BYTES: Final = 4


class AboveClient(Above):
    """Protocol on top of a client's TLS connection."""

    def opened(self, transport: TlsSocket) -> None: ...

    def refused(self, refusal: TlsRefusal) -> None:
        """Handle a TLS error that occurs after the handshake."""


class TlsClient:
    def __init__(self, context: Callable[[], ssl.SSLContext], authorities: str, *, has_certificate: bool) -> None:
        """Prepare the TLS connections of a client. ``authorities`` names the source of its CAs in error messages."""
        self._context = context
        self._authorities = authorities
        self._has_certificate = has_certificate

    async def connect(self, host: str, port: int, link: AboveClient, limit_s: float) -> None:
        """Connect to a broker and complete the TLS handshake. ``connect_to`` gets ``limit_s``.

        Raises OSError if the connection fails, and TlsRefusal with the cause if TLS fails.
        """
        target = TlsTarget(host, port, self._authorities, self._has_certificate)
        try:
            await _connect(self._context(), target, link, limit_s)
        except ssl.SSLCertVerificationError as error:
            raise of_broker(error, target, await _certificate_at(target)) from None
        except ssl.SSLError as error:
            raise of_broker(error, target) from None
        except _SilentlyClosed:
            if await _answers_in_plaintext(target):
                raise no_tls_error("the server uses Kafka's protocol without TLS") from None
            raise no_tls_error("the server closed the connection at the first bytes of TLS", is_lasting=False) from None


async def _connect(
    context: ssl.SSLContext, target: TlsTarget, link: AboveClient, limit_s: float = PROBE_TIMEOUT_S
) -> None:
    loop = asyncio.get_running_loop()
    try:
        tls = TlsFilter(context, server_side=False, server_hostname=target.host)
    except ValueError as error:
        raise TlsRefusal(f"{target.host!r} is no valid host name for TLS: {error}", is_lasting=True) from None
    handshaken: asyncio.Future[None] = loop.create_future()
    socket = _ClientSocket(tls, link, target, handshaken)
    connected = await connect_to(target.host, target.port, limit_s)
    await loop.create_connection(lambda: socket, sock=connected)
    try:
        await handshaken
    except BaseException:
        socket.abort()
        raise


async def _certificate_at(target: TlsTarget) -> bytes | None:
    """Fetch the broker's certificate in a second, unverified handshake. OpenSSL returns only trusted certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    probe = _CertificateProbe()
    with contextlib.suppress(OSError, TlsRefusal, TimeoutError):
        await asyncio.wait_for(_connect(context, target, probe), PROBE_TIMEOUT_S)
    if probe.transport is not None:
        probe.transport.abort()
    return probe.certificate


async def _answers_in_plaintext(target: TlsTarget) -> bool:
    """Return True if a broker that has closed a TLS connection answers a plaintext Kafka request.

    A broker that does not answer may be shutting down.
    """
    with contextlib.suppress(OSError, EOFError):  # OSError includes TimeoutError
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            connected = await connect_to(target.host, target.port, PROBE_TIMEOUT_S)
            reader, writer = await asyncio.open_connection(sock=connected)
            try:
                writer.write(VERSIONS_REQUEST)
                answer = await reader.readexactly(LENGTH_BYTES + CORRELATION_BYTES)
                return answer.endswith(VERSIONS_REQUEST[8:12]) and not answer[0]
            finally:
                writer.close()
    return False


class _SilentlyClosed(Exception):
    """Error: the server closed the connection after the first bytes of TLS, without an alert."""


class _CertificateProbe(AboveClient):
    def __init__(self) -> None:
        self.certificate: bytes | None = None
        self.transport: TlsSocket | None = None

    def opened(self, transport: TlsSocket) -> None:
        self.transport = transport

    def secured(self, certificate: bytes | None) -> None:
        self.certificate = certificate


class _ClientSocket(TlsSocket):
    def __init__(self, tls: TlsFilter, link: AboveClient, target: TlsTarget, handshaken: asyncio.Future[None]) -> None:
        super().__init__(tls, link)
        self._opened = link.opened
        self._refused = link.refused
        self._target = target
        self._handshaken = handshaken
        self._has_read = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opened(self)
        self._tls.shake()
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_closing:
            self._report_loss()
        del self._opened, self._refused
        super().connection_lost(exc)
        if not self._handshaken.done():
            self._handshaken.set_exception(TlsRefusal("the connection was closed", is_lasting=False))

    def _shake(self) -> bool:
        is_open = super()._shake()
        if is_open and not self._handshaken.done():
            self._handshaken.set_result(None)
        return is_open

    def _read_into(self, room: memoryview) -> int:
        count = super()._read_into(room)
        self._has_read = self._has_read or bool(count)
        return count

    def _refuse_beginning(self, data: bytes) -> bool:
        if data[0] in (HANDSHAKE_RECORD, ALERT_RECORD):
            return False
        self._end(no_tls_error())
        return True

    def _failed(self, error: ssl.SSLError) -> None:
        self._end(error)

    def _too_much(self) -> None:
        self._end(TlsRefusal("the broker sends too much before the end of the TLS handshake", is_lasting=False))

    def _end(self, error: ssl.SSLError | TlsRefusal) -> None:
        self._is_closing = True
        self._raw.close()
        if not self._handshaken.done():
            self._handshaken.set_exception(error)
        elif self._tls.is_open:
            self._refused(error if isinstance(error, TlsRefusal) else of_broker(error, self._target))

    def _report_loss(self) -> None:
        if not self._handshaken.done():
            if self._arrived_bytes:
                why = "the broker closed the connection in the middle of the TLS handshake"
                self._handshaken.set_exception(TlsRefusal(why, is_lasting=False))
            else:
                self._handshaken.set_exception(_SilentlyClosed())
        elif not (self._has_read or self._target.has_certificate):
            why = f"the broker closed the connection right after the TLS handshake; perhaps {WANTS_CERTIFICATE}"
            self._refused(TlsRefusal(why, is_lasting=False))
