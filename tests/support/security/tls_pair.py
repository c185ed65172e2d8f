"""Both sides of a TLS connection in memory."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache

import trustme

from kohort.aio.tls.tls_socket import TlsFilter


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def _identity() -> trustme.LeafCert:
    return authority().issue_cert("localhost")


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _identity().configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context


class TlsPair:
    """A client and a server; ``on_the_way`` can change the bytes in both directions."""

    def __init__(
        self,
        client: ssl.SSLContext | None = None,
        server: ssl.SSLContext | None = None,
        host: str = "localhost",
        on_the_way: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.client = TlsFilter(client or client_context(), server_side=False, server_hostname=host)
        self.server = TlsFilter(server or server_context(), server_side=True)
        self.failures: dict[str, ssl.SSLError] = {}
        self._on_the_way = on_the_way

    def shake(self) -> TlsPair:
        """Exchange bytes until neither side has more."""
        sides = {"client": (self.client, self.server), "server": (self.server, self.client)}
        exchanged = True
        while exchanged:
            exchanged = False
            for name, (side, other) in sides.items():
                if name not in self.failures:
                    try:
                        if not side.is_open:
                            side.shake()
                    except ssl.SSLError as error:
                        self.failures[name] = error
                if data := side.take():
                    exchanged = True
                    other.feed(self._on_the_way(data))
        return self


def read_all(side: TlsFilter, room_bytes: int = 1 << 16) -> bytes:
    """Return all decrypted bytes; raises ssl.SSLError."""
    room = memoryview(bytearray(room_bytes))
    found = b""
    while count := side.read_into(room):
        found += room[:count]
    return found
