"""``/metrics`` over HTTP, on threads of its own.

A page is made once for all who ask within a moment, by one thread at a time; who asks meanwhile waits for that one.
Only so many are answered at once, each for only so long: the others are told 503, and whoever reads too slowly is cut
off. Where no page can be made, the answer is 503 and says why.
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
from kohort.metrics.exposition import form_of
from kohort.notes import one_line

LONGEST = 300


def host_of(header: str) -> str | None:
    """Return the name or address in a Host header, in lower case; None for a malformed header."""
    if len(header) > LONGEST or any(char in header for char in "/@?#\\ "):
        return None
    try:
        parts = urlsplit(f"//{header}")
        parts.port  # noqa: B018 - raises for a malformed port
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".") or None


def is_own_name(header: str | None, names: Collection[str] = ("localhost",)) -> bool:
    """Tell whether a Host header is absent, one of ``names``, or an address in figures, which no site can rebind."""
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
ASKERS_MOST: Final = 16
"""How many are answered at once."""
ANSWER_S = 20.0
"""How long one may take to ask, and for each piece of the answer. The time in which a page is made is not theirs."""
ANSWER_MOST_S = 120.0
"""How long one may take to read all of it."""
PIECE: Final = 1 << 16
FRESH_S: Final = 1.0
"""For how long a page is given to others, too."""
NO_HANDLE_S: Final = 0.2
"""How long to wait for a file handle before the next try."""
HELP: Final = b"kohort: what is here is at /metrics\n"
UNKNOWN_HOST: Final = (
    b"kohort: the Host header has to be an address or localhost; "
    b"to be reached by another name, say --metrics-allow-anyone (kohort.metrics.allow.anyone=true)\n"
)


Make = Callable[[str], tuple[bytes, str]]
"""Finds out everything, and returns a page in one of its forms with its content type. May raise KohortError."""


@dataclass(slots=True)
class Made:
    """A page in one of its forms."""

    text: bytes
    content_type: str
    until_s: float
    packed: bytes | None = None


class Pages:
    """The pages of a moment, in the forms that were asked for."""

    def __init__(self, make: Make, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, Made] = {}
        self._failed: KohortError | None = None
        self._failed_until_s = 0.0

    def page(self, accept: str, *, packed: bool) -> tuple[bytes, str]:
        """Return the page and its content type. Raises KohortError where nothing can be found out."""
        form = form_of(accept)
        with self._lock:
            made = self._made.get(form)
            if made is None or self._clock() >= made.until_s:
                self._made.pop(form, None)
                made = self._made[form] = self._look(form)
            if not packed:
                return made.text, made.content_type
            if made.packed is None:
                made.packed = gzip.compress(made.text, 1)
            return made.packed, made.content_type

    def _look(self, form: str) -> Made:
        # an error is kept as long as a page: else each waiting scrape would try again
        if self._failed is not None and self._clock() < self._failed_until_s:
            raise self._failed.with_traceback(None)
        try:
            text, content_type = self._make(form)
        except Exception as error:
            if not isinstance(error, KohortError):
                LOGGER.exception("a page of metrics could not be made: an error in kohort")
                error = KohortError(f"an error in kohort ({type(error).__name__}); its log has more")
            self._failed, self._failed_until_s = error, self._clock() + FRESH_S
            raise error from None
        self._failed = None
        return Made(text, content_type, self._clock() + FRESH_S)


class MetricsServer(ThreadingHTTPServer):
    """Answers at ``/metrics``."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, pages: Pages, *, any_host: bool = False) -> None:
        """``any_host`` answers whatever Host header comes, as an address that other computers reach always does.

        Raises ConfigError for an address that cannot be listened on.
        """
        self.pages = pages
        self.any_host = any_host or not is_loopback(host)
        self._open: dict[Any, float] = {}
        """Who is being answered, and until when."""
        self._guard = threading.Lock()
        super().__init__((host, port), Scraper, bind_and_activate=False)
        self.socket.close()
        self.socket = listen_on(host, port)
        self.server_address = self.socket.getsockname()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection, unless the handle it takes is one of those that the logs need."""
        try:
            request, address = super().get_request()
        except OSError:
            time.sleep(NO_HANDLE_S)  # without a handle accepting fails at once, again and again
            raise
        if is_reserved(request.fileno()):
            request.close()
            time.sleep(NO_HANDLE_S)
            raise OSError("no file handle is left for who asks for /metrics")
        return request, address

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - socketserver's signature
        """Tell whether one more can be answered; who cannot be is told so, and gone."""
        with self._guard:
            if len(self._open) < ASKERS_MOST:
                self._open[request] = time.monotonic() + ANSWER_S
                return True
        with suppress(OSError):
            request.setblocking(False)
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
        return False

    def extend(self, request: Any, until_s: float) -> None:
        """Let a connection take until then."""
        with self._guard:
            if request in self._open:
                self._open[request] = until_s

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut off who takes too long; called twice a second."""
        now_s = time.monotonic()
        with self._guard:
            late = [request for request, until_s in self._open.items() if until_s < now_s]
        for request in late:
            with suppress(OSError):  # it may have gone by itself
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Say nothing of peers that are gone: a scrape that ends early is no fault of ours."""
        is_theirs = isinstance(sys.exception(), OSError)
        LOGGER.log(logging.DEBUG if is_theirs else logging.ERROR, "a scrape was not answered to its end", exc_info=True)


class Scraper(BaseHTTPRequestHandler):
    """One connection: one request, one answer."""

    server: MetricsServer
    server_version = "kohort"
    sys_version = ""
    timeout = ANSWER_S

    def do_GET(self) -> None:
        """Answer with the page."""
        if not (self.server.any_host or is_own_name(self.headers.get("Host"))):
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
            LOGGER.warning("a scrape could not be answered: %s", one_line(str(error)))
            self._answer(503, f"{one_line(str(error))}\n".encode(errors="replace"), "text/plain; charset=utf-8")
            return
        self._answer(200, page, content_type, packed=packed)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the page."""
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
        """Log no scrapes."""


def checked_address(text: str, option: str, *, allow_anyone: bool) -> tuple[str, int]:
    """Return host and port of where a page is to be served. Raises ConfigError for what is no address, and for one that
    other computers reach unless that is said: there are no logins."""
    host, port = parse_listener(text, option)
    if not allow_anyone and not is_loopback(host):
        raise ConfigError(
            f"{option}={text} may be reached from other computers, and there are no logins: whoever reaches it reads "
            "the names of groups, topics and clients. Listen on 127.0.0.1; or say --metrics-allow-anyone "
            "(kohort.metrics.allow.anyone=true)"
        )
    return host, port


@contextmanager
def serving(pages: Pages, address: tuple[str, int], *, any_host: bool = False) -> Iterator[str]:
    """Serve pages on an address while the block runs, and yield the URL. Raises ConfigError for one that cannot be
    listened on."""
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
