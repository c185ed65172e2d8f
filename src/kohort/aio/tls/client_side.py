"""A client's connections with TLS; one that fails says why, with what the broker's certificate says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from kohort.aio.addresses import connect_to
from kohort.aio.tls.failures import WANTS_CERTIFICATE, BrokerAsked, TlsRefusal, of_broker, speaks_no_tls
from kohort.aio.tls.tls_socket import ALERT_RECORD, HANDSHAKE_RECORD, Above, TlsFilter, TlsSocket

LOOK_S: Final = 3.0
"""How long it may take to look who is there, for the words."""
LIMIT_S: Final = 10.0
VERSIONS_REQUEST: Final = bytes.fromhex("0000000a 0012 0000 6b6f686f ffff")
"""ApiVersions 0, which whoever speaks Kafka's protocol answers."""
LENGTH_BYTES: Final = 4
CORRELATION_BYTES: Final = 4


class AboveClient(Above):
    """Protocol over a client's connection."""

    def opened(self, transport: TlsSocket) -> None:
        """Hear that the socket stands; the handshake is still to be done."""

    def refused(self, refusal: TlsRefusal) -> None:
        """Hear that TLS ended the connection after the handshake was done."""


class TlsClient:
    def __init__(self, context: Callable[[], ssl.SSLContext], authorities: str, *, has_certificate: bool) -> None:
        """``context`` is asked at each connection, as files may have changed; ``authorities`` says where they are
        from."""
        self._context = context
        self._authorities = authorities
        self._has_certificate = has_certificate

    async def connect(self, host: str, port: int, link: AboveClient, limit_s: float = LIMIT_S) -> None:
        """Connect ``link``; done when the handshake is. The host's addresses share ``limit_s`` seconds.

        Raises OSError, and TlsRefusal in words.
        """
        asked = BrokerAsked(host, port, self._authorities, self._has_certificate)
        try:
            await _connect(self._context(), asked, link, limit_s)
        except ssl.SSLCertVerificationError as error:
            raise of_broker(error, asked, await _certificate_at(asked)) from None
        except ssl.SSLError as error:
            raise of_broker(error, asked) from None
        except _SilentlyClosed:
            if await _answers_in_plaintext(asked):
                raise speaks_no_tls(", but Kafka's protocol in plaintext") from None
            raise speaks_no_tls(" (it closed the connection at the first bytes of TLS)", is_lasting=False) from None


async def _connect(context: ssl.SSLContext, asked: BrokerAsked, link: AboveClient, limit_s: float = LOOK_S) -> None:
    loop = asyncio.get_running_loop()
    try:
        tls = TlsFilter(context, server_side=False, server_hostname=asked.host)
    except ValueError as error:
        raise TlsRefusal(f"{asked.host!r} is no name that a certificate can be for: {error}", is_lasting=True) from None
    shaken: asyncio.Future[None] = loop.create_future()
    socket = _ClientSocket(tls, link, asked, shaken)
    connected = await connect_to(asked.host, asked.port, limit_s)
    await loop.create_connection(lambda: socket, sock=connected)
    try:
        await shaken
    except BaseException:
        socket.abort()
        raise


async def _certificate_at(asked: BrokerAsked) -> bytes | None:
    """Return the certificate that is shown there, from another handshake that believes everything and says nothing: of
    the one that it refuses OpenSSL tells no more than a number."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    look = _Look()
    with contextlib.suppress(OSError, TlsRefusal, TimeoutError):
        await asyncio.wait_for(_connect(context, asked, look), LOOK_S)
    if look.transport is not None:
        look.transport.abort()
    return look.certificate


async def _answers_in_plaintext(asked: BrokerAsked) -> bool:
    """Tell whether who closes a connection at the first bytes of TLS answers Kafka's first question without it: a
    broker that is about to end does not."""
    with contextlib.suppress(OSError, TimeoutError, EOFError):
        return await asyncio.wait_for(_ask_versions(asked), LOOK_S)
    return False


async def _ask_versions(asked: BrokerAsked) -> bool:
    reader, writer = await asyncio.open_connection(sock=await connect_to(asked.host, asked.port, LOOK_S))
    try:
        writer.write(VERSIONS_REQUEST)
        answer = await reader.readexactly(LENGTH_BYTES + CORRELATION_BYTES)
        return answer.endswith(VERSIONS_REQUEST[8:12]) and not answer[0]
    finally:
        writer.close()


class _SilentlyClosed(Exception):
    """The other side closed the connection at the first bytes of TLS, without a word."""


class _Look(AboveClient):
    """Looks at a certificate."""

    def __init__(self) -> None:
        self.certificate: bytes | None = None
        self.transport: TlsSocket | None = None

    def opened(self, transport: TlsSocket) -> None:
        self.transport = transport

    def secured(self, certificate: bytes | None) -> None:
        self.certificate = certificate


class _ClientSocket(TlsSocket):
    def __init__(self, tls: TlsFilter, link: AboveClient, asked: BrokerAsked, shaken: asyncio.Future[None]) -> None:
        super().__init__(tls, link)
        self._opened = link.opened
        self._refused = link.refused
        self._asked = asked
        self._shaken = shaken
        self._has_read = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opened(self)
        self._tls.shake()
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_closing:
            self._tell_loss()
        del self._opened, self._refused
        super().connection_lost(exc)
        if not self._shaken.done():
            self._shaken.set_exception(TlsRefusal("the connection was closed", is_lasting=False))

    def _shake(self) -> bool:
        is_open = super()._shake()
        if is_open and not self._shaken.done():
            self._shaken.set_result(None)
        return is_open

    def _read_into(self, room: memoryview) -> int:
        count = super()._read_into(room)
        self._has_read = self._has_read or bool(count)
        return count

    def _refuse_beginning(self, data: bytes) -> bool:
        if data[0] in (HANDSHAKE_RECORD, ALERT_RECORD):
            return False
        self._end(speaks_no_tls())
        return True

    def _failed(self, error: ssl.SSLError) -> None:
        self._end(error)

    def _too_much(self) -> None:
        self._end(TlsRefusal("the broker sends much, and no TLS handshake", is_lasting=False))

    def _end(self, error: ssl.SSLError | TlsRefusal) -> None:
        self._is_closing = True
        self._raw.close()
        if not self._shaken.done():
            self._shaken.set_exception(error)
        elif self._tls.is_open:
            self._refused(error if isinstance(error, TlsRefusal) else of_broker(error, self._asked))

    def _tell_loss(self) -> None:
        if not self._shaken.done():
            if self._arrived_bytes:
                why = "the broker closed the connection in the middle of the TLS handshake"
                self._shaken.set_exception(TlsRefusal(why, is_lasting=False))
            else:
                self._shaken.set_exception(_SilentlyClosed())
        elif not (self._has_read or self._asked.has_certificate):
            why = f"the broker closed the connection right after the TLS handshake; it may be that {WANTS_CERTIFICATE}"
            self._refused(TlsRefusal(why, is_lasting=False))
