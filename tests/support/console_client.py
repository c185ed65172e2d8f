"""A console with a real broker, and an HTTP client that sends exactly the given request."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kohort import Admin, Broker, Consumer
from kohort.console.app import ConsoleApp, ConsoleOptions
from kohort.console.live import LiveSettings, LiveSource
from kohort.console.page import ConsolePage
from kohort.console.serving import ConsolePlace, console_served
from kohort.console.sources import ConsoleSource
from kohort.watch.opening import WatchClients

INDEX = """<!doctype html>
<html lang="en">
  <head>
    <title>a page</title>
    <link rel="icon" href="/static/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/static/style.css">
    <script type="importmap">{"imports": {"htm": "/static/vendor/htm.mjs"}}</script>
    <script type="module" src="/static/app.js"></script>
  </head>
  <body></body>
</html>
"""


def site(folder: Path) -> Path:
    """Create the files of a small page."""
    (folder / "vendor").mkdir(parents=True)
    (folder / "parts").mkdir()
    for name in ("preact.mjs", "hooks.mjs", "htm.mjs", "uPlot.esm.js", "uPlot.min.css"):
        (folder / "vendor" / name).write_text("export default 1;\n" if name.endswith("js") else "")
    (folder / "index.html").write_text(INDEX)
    (folder / "style.css").write_text("body { color: #111 }\n")
    (folder / "app.js").write_text('import { a } from "./parts/a.js";\nimport htm from "htm";\nconsole.log(a, htm);\n')
    (folder / "parts" / "a.js").write_text('import { b } from "../b.js";\nexport const a = b;\n')
    (folder / "b.js").write_text("export const b = 1;\n")
    return folder


@dataclass(frozen=True, slots=True)
class Response:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ConsoleClient:
    """An HTTP client of one console."""

    def __init__(self, url: str, app: ConsoleApp) -> None:
        self.url, self.app = url, app
        self.address = url.split("/")[2]
        self.headers: dict[str, str] = {}

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        wire = http.client.HTTPConnection(self.address, timeout=30)
        try:
            wire.request(method, path, body, {**self.headers, **(headers or {})})
            found = wire.getresponse()
            return Response(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        finally:
            wire.close()

    def get(self, path: str, **headers: str) -> Response:
        return self.ask("GET", f"/api/v1{path}", headers=headers)

    def token(self) -> str:
        return str(self.get("/cluster").json["token"])

    def post(self, path: str, body: Any, **headers: str | None) -> Response:
        all_headers: dict[str, str | None] = {
            "Content-Type": "application/json",
            "Origin": f"http://{self.address}",
            "X-Kohort-Token": self.token(),
            **headers,
        }
        sent = {name: value for name, value in all_headers.items() if value is not None}
        return self.ask("POST", f"/api/v1{path}", json.dumps(body).encode(), sent)


def in_path(name: str) -> str:
    """Percent-encode a name as a page puts it into a path."""
    return quote(name, safe="!'()*")


def live(broker: Broker, **settings: Any) -> LiveSource:
    """Return a broker as a source that takes samples continuously."""
    at = broker.bootstrap
    clients = WatchClients(
        lambda: Admin(bootstrap_servers=at), lambda options: Consumer({"bootstrap.servers": at, **options})
    )
    return LiveSource(clients, at, LiveSettings(**{"interval_s": 0.05, "watch": False, **settings}))


@contextmanager
def console(
    source: ConsoleSource,
    folder: Path,
    options: ConsoleOptions | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ConsoleClient]:
    app = ConsoleApp(source, options, ConsolePage(folder), clock)
    with console_served(source, app, ConsolePlace()) as url:
        yield ConsoleClient(url, app)
