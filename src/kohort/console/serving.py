"""HTTP server of a console: uvicorn on its own thread and event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from kohort.console.app import ConsoleApp
from kohort.console.connections import AT_ONCE, HEAD_S, ConsoleConnection, cut_overdue
from kohort.console.sources import ConsoleSource
from kohort.errors import ConfigError, KohortError
from kohort.extras import needs

with needs("console", "the console"):
    import uvicorn

HEADERS: Final = 256 << 10
"""Maximum size of a request head in bytes. It suffices for the longest group name, percent-encoded."""
GRACE_S: Final = 1
FAREWELL_S: Final = 0.1
"""Maximum time in seconds to send a last event to open streams when the server stops."""
END_S: Final = 5.0
START_S: Final = 10.0
BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class ConsolePlace:
    host: str = "127.0.0.1"
    port: int = 0
    cert: Path | None = None
    key: Path | None = None


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers of uvicorn: the command ``kohort`` handles signals."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Twice a second, close the connections that exceed a time limit."""
        if counter % 5 == 0:
            cut_overdue(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server. After ``FAREWELL_S``, abort all connections, including those with open streams."""
        if self.server_state.tasks:
            await asyncio.wait(set(self.server_state.tasks), timeout=FAREWELL_S)
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await super().shutdown(sockets)


@contextmanager
def console_served(source: ConsoleSource, app: ConsoleApp, place: ConsolePlace) -> Iterator[str]:
    """Serve a console within the ``with`` block; yield its URL. Raises ConfigError if the address cannot be used."""
    listening = _listening(place)
    config = uvicorn.Config(
        app,
        http=cast("Any", partial(ConsoleConnection, log=app.log)),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="warning",  # omits uvicorn's log lines about its start and stop
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=AT_ONCE,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=HEADERS,
        ssl_certfile=place.cert,
        ssl_keyfile=place.key,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        listening.close()
        raise ConfigError(f"the certificate of the console is invalid: {error}") from error
    running = _Running(_Server(config), app, listening)
    source.begin()
    try:
        running.begin()
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        yield f"{'https' if config.is_ssl else 'http'}://{shown}:{port}/"
    finally:
        running.end()
        source.end()


class _Running:
    def __init__(self, server: _Server, app: ConsoleApp, listening: socket.socket) -> None:
        self._server, self._app, self._listening = server, app, listening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kohort-console", daemon=True)

    def begin(self) -> None:
        self._thread.start()
        if not self._is_ready.wait(START_S):
            raise KohortError(f"the server of the console did not start within {START_S:g} s")

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop: Any = asyncio.get_running_loop()
        self._loop = loop
        # asyncio limits TLS handshakes to a minute, and uvicorn has no option to change this limit
        if self._server.config.is_ssl:
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEAD_S)
        self._app.begin()
        self._is_ready.set()
        await self._server.serve(sockets=[self._listening])

    def end(self) -> None:
        self._server.should_exit = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._app.end)
        self._thread.join(END_S)
        self._listening.close()


def _listening(place: ConsolePlace) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol number
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((place.host, place.port))
        listening.listen(BACKLOG)  # clients can connect before the server has started; their requests wait until then
    except OSError as error:
        listening.close()
        raise ConfigError(f"the console cannot listen on {place.host}:{place.port}: {error.strerror}") from error
    return listening
