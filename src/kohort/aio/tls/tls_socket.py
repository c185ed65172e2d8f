"""Between a socket and the protocol above it: TLS by a TlsFilter, with the same backpressure as without.

Plain bytes are encrypted a piece at a time and only as long as the socket takes them; what waits is kept as it was
given. To the socket this is a protocol, to the protocol above it is the transport.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from kohort.aio.tls.tls_filter import PlainQueue, TlsFilter
from kohort.wire.codec import Buffer

HANDSHAKE_MAX_BYTES: Final = 128 << 10
"""What may come before the handshake is done: OpenSSL takes 100 KiB of certificates."""
LINGER_S: Final = 1.0
"""How long what still comes is passed over after a refusal: a socket closed upon unread bytes resets the connection,
and the other side never reads why."""
LINGER_MAX_BYTES: Final = 1 << 20

ReadInto = Callable[[memoryview], int]
"""Writes plain bytes and says how many; 0: there are none now."""


class Above(Protocol):
    """What speaks over TLS."""

    def secured(self, certificate: bytes | None) -> None:
        """Hear that the handshake is done, and which certificate (DER) the other side showed."""

    def plain_waits(self, read_into: ReadInto) -> None:
        """Take the plain bytes that came."""

    def pause_writing(self) -> None:
        """Hear that the other side does not read."""

    def resume_writing(self) -> None:
        """Hear that it has read all."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the connection is gone."""


class _Nobody:
    """Above a connection that is gone."""

    def secured(self, certificate: bytes | None) -> None:
        pass

    def plain_waits(self, read_into: ReadInto) -> None:
        pass

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        pass


NOBODY: Final = _Nobody()


class TlsSocket(asyncio.Protocol):
    """One connection. What differs between the two sides is in the classes made of it."""

    def __init__(self, tls: TlsFilter, above: Above) -> None:
        self._tls = tls
        self._above = above
        self._raw: Any = None  # asyncio.Transport or uvloop's
        self._queue = PlainQueue()
        self._is_full = False
        """Whether the socket takes no more now."""
        self._told_full = False
        self._is_closing = False
        self._is_refused = False
        self._arrived_bytes = 0
        self._linger: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ what differs

    def _refuse_beginning(self, data: bytes) -> bool:
        """Look at the first bytes that come; tell whether it is no TLS, which is then dealt with."""
        raise NotImplementedError

    def _failed(self, error: ssl.SSLError) -> None:
        """Deal with what OpenSSL found wrong; what it has to say to the other side is sent."""
        raise NotImplementedError

    def _too_much(self) -> None:
        """Deal with who sends and sends, and no handshake comes of it."""
        raise NotImplementedError

    # ------------------------------------------------------------ from the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport

    def data_received(self, data: bytes) -> None:
        first, self._arrived_bytes = not self._arrived_bytes, self._arrived_bytes + len(data)
        if self._is_refused:
            if self._arrived_bytes > LINGER_MAX_BYTES:
                self._raw.abort()
            return
        if self._is_closing or (first and self._refuse_beginning(data)):
            return
        self._tls.feed(data)
        try:
            if self._tls.is_open or self._shake():
                self._above.plain_waits(self._read_into)
            self._send()  # a handshake's next step, or OpenSSL's answer to the other side's
        except ssl.SSLError as error:
            self._tls.drop()
            self._send()
            self._failed(error)
        else:
            if self._tls.has_ended:
                self.close()
            elif not self._tls.is_open and self._arrived_bytes > HANDSHAKE_MAX_BYTES:
                self._too_much()

    def eof_received(self) -> bool:
        return False  # the socket is closed

    def pause_writing(self) -> None:
        self._is_full = True
        if self._tls.is_open and not (self._told_full or self._is_closing):
            self._told_full = True
            self._above.pause_writing()

    def resume_writing(self) -> None:
        self._is_full = False
        self._write_on()
        if self._told_full and not (self._is_full or self._is_closing):
            self._told_full = False
            self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._tls.drop()
        self._queue.clear()
        if self._linger is not None:
            self._linger.cancel()
        above, self._above = self._above, NOBODY  # or both would be a cycle, and stay until the collector comes by
        above.connection_lost(exc)

    # ------------------------------------------------------------ from above

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the socket."""
        return self._raw.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say how much the socket may hold before ``pause_writing``."""
        self._raw.set_write_buffer_limits(high, low)

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        """Send plain bytes, once the handshake is done."""
        if not self.is_closing():
            self._queue.add(buffers)
            self._write_on()

    def pause_reading(self) -> None:
        """Read no more from the socket."""
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._raw.resume_reading()

    def is_closing(self) -> bool:
        """Tell whether nothing more is sent or read."""
        return self._is_closing or self._raw.is_closing()

    def close(self) -> None:
        """End the connection once what was given is sent."""
        if self._is_refused:
            self._raw.abort()
        if self.is_closing():
            return
        self._is_closing = True
        self._tls.drop()
        self._write_on()
        self._finish()

    def abort(self) -> None:
        """End the connection at once."""
        self._is_closing = True
        self._tls.drop()
        self._queue.clear()
        self._raw.abort()

    # ------------------------------------------------------------ between both

    def _shake(self) -> bool:
        """Go on with the handshake; tell whether it is done."""
        if not self._tls.shake():
            return False
        self._send()
        self._above.secured(self._tls.certificate)
        return True

    def _read_into(self, room: memoryview) -> int:
        return 0 if self._is_closing else self._tls.read_into(room)

    def _write_on(self) -> None:
        """Encrypt and send what waits, as long as the socket takes it."""
        try:
            while not self._is_full and (piece := self._queue.take()):
                self._tls.write(piece)
                self._send()
        except ssl.SSLError as error:
            self._failed(error)
            return
        if self._is_closing:
            self._finish()

    def _send(self) -> None:
        data = self._tls.take()
        if data and not (self._is_refused or self._raw.is_closing()):
            self._raw.write(data)

    def _finish(self) -> None:
        """Close the socket if all is sent."""
        if self._queue.waiting_bytes or self._raw.is_closing():
            return
        if self._tls.is_open:
            self._tls.say_goodbye()
            self._send()
        self._raw.close()

    def _refuse(self, last_words: bytes = b"") -> None:
        """End the connection so that the other side can read why."""
        if self._raw.is_closing():
            return
        self._is_closing = self._is_refused = True
        if last_words:
            self._raw.write(last_words)
        self._raw.resume_reading()
        self._raw.write_eof()
        self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._raw.abort)
