"""TLS between a socket and the protocol on top of it, with the same backpressure as without TLS.

Bytes are encrypted in pieces, only while the socket accepts more; waiting buffers are not copied. ``TlsSocket`` is a
protocol for the socket's transport, and the transport for the protocol on top of TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from kohort.wire.codec import Buffer

RECORD_BYTES: Final = 16 << 10
"""Maximum size of a TLS record, in bytes."""
PIECE_BYTES: Final = 64 << 10
"""Maximum number of bytes to encrypt or decrypt in one call: OpenSSL's buffers grow to this size and never shrink."""
NOTHING: Final = memoryview(b"")
ALERT: Final = b"\x15\x03\x03\x00\x02"
FATAL_INTERNAL_ERROR: Final = ALERT + b"\x02\x50"
"""TLS alert for a client that connects without TLS. Java's TLS listeners send the same alert.

It is the only hint that a client without TLS can read (protocol/security.md#plaintext-at-a-tls-listener).
"""
HANDSHAKE_RECORD: Final = 0x16
ALERT_RECORD: Final = 0x15


class TlsFilter:
    """TLS of one connection, without a socket: ``feed`` takes received bytes, ``take`` returns bytes to send.

    A TLS failure raises ssl.SSLError; then ``take`` returns OpenSSL's alert for the peer, which asyncio's own TLS would
    drop (ADR 20). The caller can inspect the first bytes of a connection before OpenSSL gets them.
    """

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._unread = NOTHING
        self._failure: ssl.SSLError | None = None
        self.is_open = False
        self.has_ended = False
        """True after the peer has sent a close_notify alert or ended the stream."""

    def feed(self, data: Buffer) -> None:
        self._unread = memoryview(bytes(self._unread) + data if self._unread else data)

    def shake(self) -> bool:
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                if not self._pass_on():
                    return False
            else:
                self.is_open = True
                return True

    def read_into(self, room: memoryview) -> int:
        """Decrypt received bytes into ``room`` and return their number; 0 if none are available."""
        if self._failure is not None:
            raise self._failure
        read = 0
        while read < len(room) and not self.has_ended:
            if not (self._incoming.pending or self._object.pending() or self._pass_on()):
                break  # a read() without data would raise SSLWantReadError, which costs more than this check
            try:
                count = int(self._object.read(len(room) - read, room[read:]))
            except ssl.SSLWantReadError:
                if not self._pass_on():
                    break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                self.has_ended = True
            except ssl.SSLError as error:
                if not read:
                    raise
                self._failure = error  # the next call raises the error; this call returns the bytes before it
                break
            else:
                self.has_ended = not count
                read += count
        return read

    def write(self, data: Buffer) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]

    def take(self) -> bytes:
        return self._outgoing.read() if self._outgoing.pending else b""

    def close_notify(self) -> None:
        # unwrap() raises SSLError if the peer's close_notify is missing, and after a TLS failure: ignore it
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()

    def drop(self) -> None:
        self._unread = NOTHING

    def _pass_on(self) -> bool:
        if self._unread:
            self._incoming.write(self._unread[:PIECE_BYTES])
            rest = self._unread[PIECE_BYTES:]
            # do not keep an empty view: it would keep the whole buffer in memory
            self._unread = rest or NOTHING
            return True
        return False

    @property
    def certificate(self) -> bytes | None:
        return self._object.getpeercert(binary_form=True)


class PlainQueue:
    """Queue of bytes that wait for encryption.

    Each write to OpenSSL creates at least one TLS record, so small buffers are joined. Large buffers are encrypted in
    pieces, without a copy.
    """

    def __init__(self) -> None:
        self._buffers: deque[Buffer] = deque()
        self._taken = 0
        self.waiting_bytes = 0

    def add(self, buffers: Sequence[Buffer]) -> None:
        self._buffers.extend(buffers)
        self.waiting_bytes += sum(map(len, buffers))

    def take(self) -> Buffer:
        """Return the next bytes to encrypt, at most PIECE_BYTES; empty if no bytes wait."""
        small: list[Buffer] = []
        size = 0
        while self._buffers:
            buffer = self._buffers[0]
            left = len(buffer) - self._taken
            if left >= RECORD_BYTES and not small:
                return self._piece(buffer, min(left, PIECE_BYTES))
            if left >= RECORD_BYTES or size + left > PIECE_BYTES:
                break
            small.append(self._piece(buffer, left))
            size += left
        return small[0] if len(small) == 1 else b"".join(small)

    def clear(self) -> None:
        self._buffers.clear()
        self._taken = self.waiting_bytes = 0

    def _piece(self, buffer: Buffer, size: int) -> Buffer:
        piece = buffer if size == len(buffer) else memoryview(buffer)[self._taken : self._taken + size]
        self.waiting_bytes -= size
        self._taken += size
        if self._taken == len(buffer):
            self._buffers.popleft()
            self._taken = 0
        return piece


HANDSHAKE_MAX_BYTES: Final = 128 << 10
"""Maximum number of received bytes in a TLS handshake: OpenSSL accepts 100 KiB of certificates."""
LINGER_S: Final = 1.0
"""Time in seconds for which received bytes are discarded after a failed handshake, before the socket is closed.

The close of a socket with unread bytes resets the connection, and the peer would never read the alert.
"""
LINGER_MAX_BYTES: Final = 1 << 20

ReadInto = Callable[[memoryview], int]
"""Function that decrypts bytes into a buffer and returns their number; 0 if none are available."""


class Above:
    """Protocol on top of TLS. Subclasses override the methods for the events that they handle."""

    def secured(self, certificate: bytes | None) -> None:
        """Handle the end of the TLS handshake. ``certificate`` is the peer's certificate as DER, if it sent one."""

    def plain_waits(self, read_into: ReadInto) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


NO_PROTOCOL: Final = Above()


class TlsSocket(asyncio.Protocol):
    def __init__(self, tls: TlsFilter, above: Above) -> None:
        self._tls = tls
        self._above = above
        self._raw: Any = None  # asyncio's or uvloop's transport: uvloop's class does not inherit from asyncio's
        self._queue = PlainQueue()
        self._is_full = False
        self._reported_full = False
        self._is_closing = False
        self._is_refused = False
        self._arrived_bytes = 0
        self._linger: asyncio.TimerHandle | None = None

    def _refuse_beginning(self, data: bytes) -> bool:
        """Inspect the first bytes of a connection. If they are not TLS, end the connection and return True."""
        raise NotImplementedError

    def _failed(self, error: ssl.SSLError) -> None:
        """Handle a TLS error. OpenSSL's alert was sent to the peer before this call."""
        raise NotImplementedError

    def _too_much(self) -> None:
        """Handle a peer whose handshake exceeds HANDSHAKE_MAX_BYTES."""
        raise NotImplementedError

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
            self._send()  # send the output of OpenSSL, such as the next message of the handshake
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
        return False  # a return value of False makes asyncio close the socket

    def pause_writing(self) -> None:
        self._is_full = True
        if self._tls.is_open and not (self._reported_full or self._is_closing):
            self._reported_full = True
            self._above.pause_writing()

    def resume_writing(self) -> None:
        self._is_full = False
        self._write_on()
        if self._reported_full and not (self._is_full or self._is_closing):
            self._reported_full = False
            self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._tls.drop()
        self._queue.clear()
        if self._linger is not None:
            self._linger.cancel()
        above, self._above = self._above, NO_PROTOCOL  # break the reference cycle between TlsSocket and protocol
        above.connection_lost(exc)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        if not self.is_closing():
            self._queue.add(buffers)
            self._write_on()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def is_closing(self) -> bool:
        return self._is_closing or self._raw.is_closing()

    def close(self) -> None:
        """Send the buffered bytes, then close the connection."""
        if self._is_refused:
            self._raw.abort()
        if self.is_closing():
            return
        self._is_closing = True
        self._tls.drop()
        self._write_on()
        self._finish()

    def abort(self) -> None:
        self._is_closing = True
        self._tls.drop()
        self._queue.clear()
        self._raw.abort()

    def _shake(self) -> bool:
        if not self._tls.shake():
            return False
        self._send()
        self._above.secured(self._tls.certificate)
        return True

    def _read_into(self, room: memoryview) -> int:
        return 0 if self._is_closing else self._tls.read_into(room)

    def _write_on(self) -> None:
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
        if self._queue.waiting_bytes or self._raw.is_closing():
            return
        if self._tls.is_open:
            self._tls.close_notify()
            self._send()
        self._raw.close()

    def _refuse(self, alert: bytes = b"") -> None:
        if self._raw.is_closing():
            return
        self._is_closing = self._is_refused = True
        if alert:
            self._raw.write(alert)
        self._raw.resume_reading()
        self._raw.write_eof()
        self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._raw.abort)
