"""HTTP server of ``/metrics``, on threads of its own.

Only one thread at a time builds a page. All requests within ``FRESH_S`` get the same page. The server handles at most
16 requests at a time; further requests get status 503. Slow clients are disconnected. If a page cannot be built, the
response has status 503 and the reason.
"""

from __future__ import annotations

import gzip
import ipaddress
import logging
import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from kohort.aio.serving.listening import is_loopback, is_reserved, listen_on
from kohort.config.listeners import address_text, parse_listener
from kohort.errors import ConfigError, KohortError
from kohort.metrics.exposition import page_format
from kohort.notes import one_line

LONGEST = 300


def host_of(header: str) -> str | None:
    """Return the host name or address in a Host header, in lower case; None if malformed."""
    if len(header) > LONGEST or any(char in header for char in "/@?#\\ "):
        return None
    try:
        parts = urlsplit(f"//{header}")
        parts.port  # noqa: B018 - raises for a malformed port
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".") or None


def is_trusted_host(header: str | None, names: Collection[str] = ("localhost",)) -> bool:
    """Return True if a Host header rules out DNS rebinding: it is absent, in ``names``, or an IP address."""
    if header is None:
        return True
    name = host_of(header)
    if name is None or name in names:
        return name is not None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


LOGGER: Final = logging.getLogger("kohort.metrics")
PATH: Final = "/metrics"
REQUESTS_MOST: Final = 16
ANSWER_S = 20.0
"""Timeout for reading an HTTP request, and for sending each piece of the response, in seconds."""
ANSWER_MOST_S = 120.0
"""Timeout for sending a whole response, in seconds."""
PIECE: Final = 1 << 16
FRESH_S: Final = 1.0
"""Time in seconds during which further requests get the same page."""
NO_HANDLE_S: Final = 0.2
"""Delay in seconds before the next accept, if no file descriptor is free."""
HELP: Final = b"kohort: the metrics page is at /metrics\n"
UNKNOWN_HOST: Final = (
    b"kohort: the Host header must be an IP address or localhost; "
    b"to allow other names, set --metrics-allow-anyone (kohort.metrics.allow.anyone=true)\n"
)


Make = Callable[[str], tuple[bytes, str]]


@dataclass(slots=True)
class CachedPage:
    text: bytes
    content_type: str
    until_s: float
    packed: bytes | None = None


class Pages:
    def __init__(self, make: Make, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, CachedPage] = {}
        self._failed: KohortError | None = None
        self._failed_until_s = 0.0

    def page(self, accept: str, *, packed: bool) -> tuple[bytes, str]:
        form = page_format(accept)
        with self._lock:
            made = self._made.get(form)
            if made is None or self._clock() >= made.until_s:
                self._made.pop(form, None)
                made = self._made[form] = self._build(form)
            if not packed:
                return made.text, made.content_type
            if made.packed is None:
                made.packed = gzip.compress(made.text, 1)
            return made.packed, made.content_type

    def _build(self, form: str) -> CachedPage:
        # a failed build is cached as long as a page; otherwise each waiting scrape would start another failing build
        if self._failed is not None and self._clock() < self._failed_until_s:
            raise self._failed.with_traceback(None)
        try:
            text, content_type = self._make(form)
        except Exception as error:
            if not isinstance(error, KohortError):
                LOGGER.exception("building the metrics page failed because of a bug in kohort")
                error = KohortError(
                    f"building the metrics page failed because of a bug in kohort ({type(error).__name__}): see its log"
                )
            self._failed, self._failed_until_s = error, self._clock() + FRESH_S
            raise error from None
        self._failed = None
        return CachedPage(text, content_type, self._clock() + FRESH_S)


class MetricsServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, pages: Pages, *, any_host: bool = False) -> None:
        """Listen at an address.

        Every Host header is accepted with ``any_host``, or if the address is not loopback. Raises ConfigError if the
        address is unusable.
        """
        self.pages = pages
        self.any_host = any_host or not is_loopback(host)
        self._open: dict[Any, float] = {}
        """Deadline of each HTTP request in flight, in seconds."""
        self._guard = threading.Lock()
        super().__init__((host, port), ScrapeHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listen_on(host, port)
        self.server_address = self.socket.getsockname()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. Close it if its file descriptor is reserved for the broker's logs."""
        try:
            request, address = super().get_request()
        except OSError:
            time.sleep(NO_HANDLE_S)  # without a free file handle, accept fails at once; the delay prevents a busy loop
            raise
        if is_reserved(request.fileno()):
            request.close()
            time.sleep(NO_HANDLE_S)
            raise OSError("cannot serve /metrics: no file handle is free")
        return request, address

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - socketserver's signature
        """Send a 503 response and return False if too many requests are in flight."""
        with self._guard:
            if len(self._open) < REQUESTS_MOST:
                self._open[request] = time.monotonic() + ANSWER_S
                return True
        with suppress(OSError):
            request.setblocking(False)
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
        return False

    def extend(self, request: Any, until_s: float) -> None:
        with self._guard:
            if request in self._open:
                self._open[request] = until_s

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections of requests past their deadline; the server calls this method twice a second."""
        now_s = time.monotonic()
        with self._guard:
            late = [request for request, until_s in self._open.items() if until_s < now_s]
        for request in late:
            with suppress(OSError):  # shutdown fails if the client has already closed the connection
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Log a failed response, at debug level if the client disconnected."""
        is_theirs = isinstance(sys.exception(), OSError)
        LOGGER.log(logging.DEBUG if is_theirs else logging.ERROR, "sending the metrics page failed", exc_info=True)


class ScrapeHandler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version = "kohort"
    sys_version = ""
    timeout = ANSWER_S

    def do_GET(self) -> None:
        if not (self.server.any_host or is_trusted_host(self.headers.get("Host"))):
            self._answer(421, UNKNOWN_HOST, "text/plain; charset=utf-8")
            return
        if self.path.partition("?")[0] != PATH:
            self._answer(404, HELP, "text/plain; charset=utf-8")
            return
        self.server.extend(self.request, math.inf)
        packed = "gzip" in self.headers.get("Accept-Encoding", "")
        try:
            page, content_type = self.server.pages.page(self.headers.get("Accept", ""), packed=packed)
        except KohortError as error:
            LOGGER.warning("cannot build the metrics page: %s", one_line(str(error)))
            self._answer(503, f"{one_line(str(error))}\n".encode(errors="replace"), "text/plain; charset=utf-8")
            return
        self._answer(200, page, content_type, packed=packed)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: bytes, content_type: str, *, packed: bool = False) -> None:
        end_s = time.monotonic() + ANSWER_MOST_S
        self.server.extend(self.request, time.monotonic() + ANSWER_S)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            for at in range(0, len(body), PIECE):
                self.wfile.write(body[at : at + PIECE])
                self.server.extend(self.request, min(end_s, time.monotonic() + ANSWER_S))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        ...


def parse_page_address(text: str, option: str, *, allow_anyone: bool) -> tuple[str, int]:
    """Parse HOST:PORT of a metrics page.

    Raises ConfigError if the text is malformed, or if the address is not loopback and ``allow_anyone`` is False.
    """
    host, port = parse_listener(text, option)
    if not allow_anyone and not is_loopback(host):
        raise ConfigError(
            f"{option}={text} is reachable from other computers without a login: the page shows the names of groups, "
            "topics and clients. Use 127.0.0.1, or allow it with --metrics-allow-anyone "
            "(kohort.metrics.allow.anyone=true)"
        )
    return host, port


@contextmanager
def serving(pages: Pages, address: tuple[str, int], *, any_host: bool = False) -> Iterator[str]:
    """Serve metrics pages at an address inside the ``with`` block; yield the URL.

    Raises ConfigError if the address is unusable.
    """
    server = MetricsServer(*address, pages, any_host=any_host)
    thread = threading.Thread(target=server.serve_forever, name="kohort-metrics", daemon=True)
    thread.start()
    host, port = server.socket.getsockname()[:2]
    try:
        yield f"http://{address_text(host, port)}{PATH}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
