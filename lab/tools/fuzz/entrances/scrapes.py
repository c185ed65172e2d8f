"""HTTP requests to /metrics, valid and invalid, one per connection."""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from fuzz.entrance import Watch, Wrong
from fuzz.entrances.texts import TextEntrance
from kohort.errors import KohortError
from kohort.metrics.exposition import page_format
from kohort.metrics.serving import Pages, ScrapeHandler

PAGE = b"# TYPE a gauge\na 1\n" * 20
MOST = 1 << 16
"""Size limit of a request: the buffer of a socket pair."""


class Alone:
    """The server as seen by a connection."""

    server_name, server_port, any_host = "localhost", 0, True

    def __init__(self) -> None:
        self.pages = Pages(self.made, clock=lambda: math.inf)
        self.fails = False

    def made(self, accept: str) -> tuple[bytes, str]:
        if self.fails:
            raise KohortError("no broker answers\r\nX: y")
        return PAGE, page_format(accept)

    def extend(self, request: Any, until_s: float) -> None:
        """Accept any deadline."""


class Scrapes(TextEntrance):
    """Any client of the metrics port."""

    name = "scrapes"
    feeds = "requests to /metrics, mutated, cut, with headers made up"
    refusals = ()

    def good(self) -> Sequence[bytes]:
        return [
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,*/*\r\n"
            b"Accept-Encoding: gzip\r\n\r\n",
            b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
            b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            b"GET /metrics\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET http://h/metrics HTTP/1.1\r\nA: b\r\n c\r\nAccept: "
            + b"text/plain;version=0.0.4," * 20
            + b"\r\n\r\n",
        ]

    def generate(self, rng: random.Random) -> bytes:
        return bytes([rng.randrange(4)]) + super().generate(rng)

    def read(self, data: bytes) -> None:
        server = Alone()
        server.fails = data[:1] == b"\0"
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for one in (ours, theirs):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            theirs.sendall(data[1:MOST])
            theirs.shutdown(socket.SHUT_WR)
            ScrapeHandler(ours, ("h", 1), server)  # type: ignore[arg-type]
            ours.close()
            answer = b""
            with suppress(ConnectionResetError):  # the server resets a connection with unread data
                while some := theirs.recv(1 << 16):
                    answer += some
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"\nX:" in head:
            raise Wrong("an error message became a header")
        if b" 200 " in head[:20] and body and not body.startswith((b"# TYPE", b"\x1f\x8b")):
            raise Wrong(f"response of another page: {answer[:200]!r}")

    def run(self, data: bytes, watch: Watch) -> None:
        watch.step(lambda: self.read(data))
