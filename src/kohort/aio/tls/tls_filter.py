"""One side of one TLS connection without a socket: bytes of the network go in and come out, plain ones likewise.

OpenSSL works on memory here, not on a socket: a failed handshake is an error in words that its caller sees, where the
event loops tell a server nothing of it; and the first bytes can be looked at before OpenSSL takes them.
"""

from __future__ import annotations

import contextlib
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Final

from kohort.wire.codec import Buffer

RECORD_BYTES: Final = 16 << 10
"""What one TLS record holds at most; and what OpenSSL returns at once."""
PIECE_BYTES: Final = 64 << 10
"""As much is encrypted or decrypted at once: OpenSSL's memory grows to what it was given once, and stays so."""
NOTHING: Final = memoryview(b"")
ALERT: Final = b"\x15\x03\x03\x00\x02"
FATAL_INTERNAL_ERROR: Final = ALERT + b"\x02\x50"
"""What Java answers to who speaks no TLS, and OpenSSL does not: the only hint that a plaintext client can read
(protocol/security.md#plaintext-at-a-tls-listener)."""
HANDSHAKE_RECORD: Final = 0x16
ALERT_RECORD: Final = 0x15


class TlsFilter:
    """A connection's TLS. ``feed`` it what the network brings, send what ``take`` returns.

    What OpenSSL finds wrong is raised as ssl.SSLError; what it has to say to the other side is there to be taken then.
    """

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._unread = NOTHING
        self._has_all = False
        self._told_end = False
        self._failure: ssl.SSLError | None = None
        self.is_open = False
        """Whether the handshake is done."""
        self.has_ended = False
        """Whether the other side has said, or shown, that nothing more comes."""

    def feed(self, data: Buffer) -> None:
        """Take bytes of the network. They are decrypted as they are read, and kept until then."""
        self._unread = memoryview(bytes(self._unread) + data if self._unread else data)

    def feed_end(self) -> None:
        """Note that the network brings no more."""
        self._has_all = True

    def shake(self) -> bool:
        """Go on with the handshake as far as what came allows; tell whether it is done."""
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
        """Write plain bytes into ``room``, as many as there are and fit; 0 if there are none now."""
        if self._failure is not None:
            raise self._failure
        read = 0
        while read < len(room) and not self.has_ended:
            if not (self._incoming.pending or self._object.pending() or self._told_end or self._pass_on()):
                break  # OpenSSL would say so by an error, which costs more
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
                self._failure = error  # told once what came before is taken
                break
            else:
                self.has_ended = not count
                read += count
        return read

    def write(self, data: Buffer) -> None:
        """Encrypt plain bytes, one piece after the other."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]

    def take(self) -> bytes:
        """Return what is to be sent."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def say_goodbye(self) -> None:
        """Tell the other side that nothing more comes (close_notify)."""
        with contextlib.suppress(ssl.SSLError):  # its own is not waited for; and after a failure there is no goodbye
            self._object.unwrap()

    def drop(self) -> None:
        """Forget what came and was not read."""
        self._unread = NOTHING

    def _pass_on(self) -> bool:
        """Give OpenSSL the next of what came; whether there was something."""
        if self._unread:
            self._incoming.write(self._unread[:PIECE_BYTES])
            rest = self._unread[PIECE_BYTES:]
            self._unread = rest or NOTHING  # an empty view would keep all of it in memory
            return True
        if self._has_all and not self._told_end:
            self._told_end = True
            self._incoming.write_eof()
            return True
        return False

    @property
    def certificate(self) -> bytes | None:
        """The other side's certificate in DER, if it showed one."""
        return self._object.getpeercert(binary_form=True)


class PlainQueue:
    """Plain bytes that wait to be encrypted, in order.

    Each write is a TLS record at least, so small buffers are joined; large ones are taken a piece at a time, as they
    are.
    """

    def __init__(self) -> None:
        self._buffers: deque[Buffer] = deque()
        self._taken = 0
        """How much of the first was taken."""
        self.waiting_bytes = 0

    def add(self, buffers: Sequence[Buffer]) -> None:
        """Let buffers wait; they are not copied."""
        self._buffers.extend(buffers)
        self.waiting_bytes += sum(map(len, buffers))

    def take(self) -> Buffer:
        """Return the next bytes for one write, PIECE_BYTES at most; none if there are none."""
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
        """Forget what waits."""
        self._buffers.clear()
        self._taken = self.waiting_bytes = 0

    def _piece(self, buffer: Buffer, size: int) -> Buffer:
        """Take so much of the first buffer, which is kept no longer than anything of it waits: it may be large."""
        piece = buffer if size == len(buffer) else memoryview(buffer)[self._taken : self._taken + size]
        self.waiting_bytes -= size
        self._taken += size
        if self._taken == len(buffer):
            self._buffers.popleft()
            self._taken = 0
        return piece
