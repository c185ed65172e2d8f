"""Web server with canned API answers. It serves ``kohort/console/static`` under the real content policy.

To start it by hand, run ``.venv/bin/python tests/browser/canned.py [PORT]``. It prints its address, and runs until
Ctrl-C.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from browser.answers import Answer, answer
from kohort.console.page import ConsolePage

STATIC = Path(__file__).parents[2] / "src" / "kohort" / "console" / "static"
IMPORT_MAP = {
    "imports": {
        "preact": "/static/vendor/preact.mjs",
        "preact/hooks": "/static/vendor/hooks.mjs",
        "htm": "/static/vendor/htm.mjs",
        "uplot": "/static/vendor/uPlot.esm.js",
    }
}
POLICY = (
    "default-src 'none'; script-src 'self'{hashes}; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
INLINE = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
PING_S = 15
Page = str


class CannedConsole(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), CannedRequest)
        self.pages: dict[str, Page] = {}
        self.scripts: dict[str, Path] = {}
        self.answers: dict[str, Callable[[dict[str, str]], Answer | dict[str, Any]]] = {}
        self.paths: list[str] = []
        self.streams: list[queue.Queue[tuple[str, Any] | None]] = []
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def push(self, event: str, data: Any) -> None:
        for one in list(self.streams):
            one.put((event, data))

    def end_streams(self) -> None:
        for one in list(self.streams):
            one.put(None)

    def end(self) -> None:
        self.ended.set()
        self.end_streams()
        self.shutdown()
        self.server_close()


class CannedRequest(BaseHTTPRequestHandler):
    server: CannedConsole
    protocol_version = "HTTP/1.1"
    HEADERS: ClassVar = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}

    def do_GET(self) -> None:
        with suppress(OSError):  # the browser tab was closed
            self._handle("GET", None)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._handle("POST", json.loads(data or b"{}"))

    def _handle(self, method: str, body: dict[str, Any] | None) -> None:
        at = urlsplit(self.path)
        params = dict(parse_qsl(at.query))
        self.server.paths.append(self.path)
        if at.path == "/api/v1/stream":
            self._stream()
        elif at.path.startswith("/api/v1/"):
            made = self.server.answers.get(unquote(at.path))
            found = made(params) if made is not None else answer(method, at.path[len("/api/v1/") :], params, body)
            status, content = found if isinstance(found, Answer) else (200, found)
            self._send(status, json.dumps(content).encode(), "application/json", {"Cache-Control": "no-store"})
        elif at.path in self.server.pages:
            self._page(self.server.pages[at.path])
        elif at.path in self.server.scripts:
            script = self.server.scripts[at.path]
            self._send(200, script.read_bytes(), "text/css" if script.suffix == ".css" else "text/javascript")
        elif at.path.startswith("/static/") or at.path == "/favicon.ico":
            self._file(unquote(at.path).removeprefix("/static/").lstrip("/"))
        else:
            self._page(ConsolePage(STATIC).index)

    def _page(self, text: Page) -> None:
        digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in INLINE.findall(text)]
        hashes = "".join(f" 'sha256-{digest}'" for digest in digests)
        self._send(
            200, text.encode(), "text/html; charset=utf-8", {"Content-Security-Policy": POLICY.format(hashes=hashes)}
        )

    def _file(self, name: str) -> None:
        path = (STATIC / name).resolve()
        if path.is_relative_to(STATIC.resolve()) and path.is_file():
            kind = "text/javascript" if path.suffix in {".js", ".mjs"} else mimetypes.guess_type(name)[0]
            self._send(200, path.read_bytes(), kind or "application/octet-stream", {"Cache-Control": "no-cache"})
        elif name == "favicon.ico":
            self._send(204, b"", "image/x-icon")
        else:
            self._send(404, b"no such file", "text/plain")

    def _stream(self) -> None:
        mine: queue.Queue[tuple[str, Any] | None] = queue.Queue()
        self.server.streams.append(mine)
        self.send_response(200)
        for name, value in {**self.HEADERS, "Content-Type": "text/event-stream", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        number = int(self.headers.get("Last-Event-ID") or 0)
        try:
            self._write(b"retry: 300\n\n")
            while not self.server.ended.is_set():
                try:
                    event = mine.get(timeout=PING_S)
                except queue.Empty:
                    self._write(b": ping\n\n")
                    continue
                if event is None:
                    break
                number += 1
                self._write(f"id: {number}\nevent: {event[0]}\ndata: {json.dumps(event[1])}\n\n".encode())
        except OSError:
            pass  # the browser tab was closed
        finally:
            self.server.streams.remove(mine)

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _send(self, status: int, data: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**self.HEADERS, "Content-Type": kind, **(more or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def canned_console(port: int = 0) -> Iterator[CannedConsole]:
    server = CannedConsole(port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()


def import_map() -> str:
    """Return the script element of the page that contains the import map."""
    return f'<script type="importmap">{json.dumps(IMPORT_MAP)}</script>'


if __name__ == "__main__":
    with canned_console(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as console:
        print(console.address, flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
