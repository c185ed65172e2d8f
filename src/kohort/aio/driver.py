"""Run a client's request engine on asyncio sockets, with one timer on one event loop; user calls wake the engine.

The engine runs under the lock ``guard``, so that other threads of a blocking client can use the engine's state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from kohort.aio.addresses import connect_to
from kohort.aio.credentials.logins import Logins
from kohort.aio.system import SystemClock
from kohort.aio.tls.client_side import AboveClient, TlsClient
from kohort.aio.tls.failures import TlsRefusal
from kohort.aio.tls.tls_socket import ReadInto, TlsSocket
from kohort.client.requests.engine import Engine
from kohort.client.requests.io import (
    CLOSED_BY_BROKER,
    Close,
    Closed,
    ConnectionId,
    FramesArrived,
    Input,
    Open,
    Opened,
    Output,
    RequestToken,
    Send,
    Tick,
)
from kohort.client.requests.outages import Notes
from kohort.clock import Clock
from kohort.errors import KohortError
from kohort.notes import one_line

CONSUMER_LOG: Final = logging.getLogger("kohort.consumer")
PRODUCER_LOG: Final = logging.getLogger("kohort.producer")


def log_notes(notes: Notes, log: logging.Logger) -> None:
    """Write the unwritten log lines of a client to ``log``. Needs no lock."""
    if not notes:
        return
    for note in notes.take():
        log.log(note.level, "%s", one_line(note.text))


T = TypeVar("T")
CLOSE_GRACE_S: Final = 1.0


class _Link(asyncio.BufferedProtocol):
    transport: asyncio.Transport

    def __init__(self, driver: Driver, connection: ConnectionId) -> None:
        self._driver = driver
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport class does not inherit from asyncio's
        self.transport = cast("asyncio.Transport", transport)
        self._driver.linked(self._connection, self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # the protocol's signature
        return self._driver.engine.room(self._connection)

    def buffer_updated(self, nbytes: int) -> None:
        if self._driver.engine.arrived(self._connection, nbytes):
            self._driver.handle(FramesArrived(self._connection))

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.unlinked(self._connection, _reason_of_loss(exc))


class _TlsLink(AboveClient):
    """TLS connection of a client, which decrypts directly into the request engine's buffers.

    It never pauses writing: the engine limits the requests in flight.
    """

    transport: TlsSocket

    def __init__(self, driver: Driver, connection: ConnectionId) -> None:
        self._driver = driver
        self._connection = connection

    def opened(self, transport: TlsSocket) -> None:
        self.transport = transport

    def secured(self, certificate: bytes | None) -> None:  # noqa: ARG002  # OpenSSL has verified it
        self._driver.linked(self._connection, self)

    def plain_waits(self, read_into: ReadInto) -> None:
        engine = self._driver.engine
        while count := read_into(engine.room(self._connection)):
            if engine.arrived(self._connection, count):
                self._driver.handle(FramesArrived(self._connection))

    def refused(self, refusal: TlsRefusal) -> None:
        self._driver.unlinked(self._connection, refusal.message, is_refusal=refusal.is_lasting)

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.unlinked(self._connection, _reason_of_loss(exc))


class Driver:
    """Runs a client's request engine: opens its connections, passes bytes, and sets its timer.

    Call its methods on its event loop only; any thread may call ``kick_soon``.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tls: TlsClient | None = None,
        clock: Clock | None = None,
        guard: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        self.engine = engine
        self._tls = tls
        self.clock = clock or SystemClock()
        self.loop = asyncio.get_running_loop()
        self._guard = guard or contextlib.nullcontext()
        self._links: dict[ConnectionId, _Link | _TlsLink] = {}
        self._connecting: dict[ConnectionId, asyncio.Task[None]] = {}
        credentials = engine.credentials
        self._logins = None if credentials is None else Logins(engine.config, credentials, self.handle)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms: int | None = None
        self._kicked = False
        self._closed = False
        self._watchers: dict[asyncio.Future[Any], Callable[[], object]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._drained = asyncio.Event()
        self.failure: KohortError | None = None
        """Error that all calls raise after an unexpected exception in the request engine."""

    def on_progress(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def kick(self) -> None:
        if not self._kicked and not self._closed:
            self._kicked = True
            self.loop.call_soon(self._on_kick)

    def kick_soon(self) -> None:
        if self._kicked or self._closed:
            return
        try:
            self._kicked = True
            self.loop.call_soon_threadsafe(self._on_kick)
        except RuntimeError:  # the event loop is closed
            pass
        except BaseException:  # an interrupt (Ctrl-C) may occur before the call is scheduled
            self._kicked = False
            raise

    async def until(self, ready: Callable[[], T | None], timeout_ms: int | None = None) -> T | None:
        """Wait until ``ready`` returns a value, and return the value; None after ``timeout_ms``.

        Calls ``ready`` now and after each run of the request engine.
        """
        if self.failure is not None:
            raise self.failure
        try:
            value = ready()
        except Exception:
            self.kick()  # ready() may have created a request before it raised the error
            raise
        if value is not None or timeout_ms == 0:
            return value
        self.kick()
        future: asyncio.Future[T] = self.loop.create_future()
        self._watchers[future] = ready
        timer = None if timeout_ms is None else self.loop.call_later(timeout_ms / 1000, end_wait, future)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            self._watchers.pop(future, None)

    def handle(self, given: Input) -> None:
        if self._closed or self.failure is not None:
            return
        try:
            with self._guard:
                outputs = self.engine.handle(given, self.clock.now_ms())
            self._do(outputs)
            self._arm()
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._notify()

    async def close(self) -> None:
        if self._closed:
            return
        with self._guard:
            outputs = self.engine.close(self.clock.now_ms())
        self._do(outputs)
        self._notify()
        self._closed = True
        if self._logins is not None:
            self._logins.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._connecting.values()):
            task.cancel()
        for link in list(self._links.values()):
            link.transport.close()
        for future in self._watchers:
            end_wait(future)
        if self._links:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), CLOSE_GRACE_S)

    def linked(self, connection: ConnectionId, link: _Link | _TlsLink) -> None:
        if connection not in self._connecting:  # the engine has closed the connection while the driver was opening it
            link.transport.abort()
            return
        self._links[connection] = link
        self.handle(Opened(connection))

    def unlinked(self, connection: ConnectionId, reason: str, *, is_refusal: bool = False) -> None:
        if self._links.pop(connection, None) is not None:
            self._cancel_login(connection)
            self.handle(Closed(connection, reason, is_refusal))
        if self._closed and not self._links:
            self._drained.set()

    async def _connect(self, connection: ConnectionId, host: str, port: int) -> None:
        try:
            limit_s = self.engine.config.socket_connection_setup_timeout_ms / 1000
            if self._tls is None:
                found = await connect_to(host, port, limit_s)
                await self.loop.create_connection(lambda: _Link(self, connection), sock=found)
            else:
                await self._tls.connect(host, port, _TlsLink(self, connection), limit_s)
        except TlsRefusal as refusal:
            self._connecting.pop(connection, None)
            self.handle(Closed(connection, refusal.message, refusal.is_lasting))
        except OSError as error:
            self._connecting.pop(connection, None)
            self.handle(Closed(connection, _message_of(error)))
        finally:
            self._connecting.pop(connection, None)

    def _do(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            match output:
                case Send(connection, buffers):
                    link = self._links.get(connection)
                    if link is not None:
                        link.transport.writelines(buffers)
                case Open(connection, host, port):
                    self._connecting[connection] = self.loop.create_task(self._connect(connection, host, port))
                case RequestToken():
                    assert self._logins is not None, "no login without credentials"
                    self._logins.want(output)
                case Close(connection):
                    self._drop(connection)

    def _cancel_login(self, connection: ConnectionId) -> None:
        if self._logins is not None:
            self._logins.forget(connection)

    def _drop(self, connection: ConnectionId) -> None:
        self._cancel_login(connection)
        task = self._connecting.pop(connection, None)
        if task is not None and connection not in self._links:
            task.cancel()
        link = self._links.pop(connection, None)
        if link is not None:
            link.transport.close()

    def _on_kick(self) -> None:
        self._kicked = False
        self.handle(Tick())

    def _on_timer(self) -> None:
        self._timer = self._timer_at_ms = None
        self.handle(Tick())

    def _arm(self) -> None:
        at_ms = self.engine.wake_at_ms
        if self._timer is not None:
            if self._timer_at_ms == at_ms:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_at_ms = at_ms
        if at_ms is not None:
            self._timer = self.loop.call_later(max(0, at_ms - self.clock.now_ms()) / 1000, self._on_timer)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
        for future, ready in list(self._watchers.items()):
            if future.done():
                continue
            try:
                value = ready()
            except Exception as error:  # noqa: BLE001  # raised in the waiting call
                self.kick()  # ready() may have created a request before it raised the error
                future.set_exception(error)
            else:
                if value is not None:
                    future.set_result(value)

    def _fail(self, error: Exception) -> None:
        """Close the client after an unexpected exception in its request engine, and fail all waiting calls."""
        self.failure = KohortError(f"an internal error of kohort closed this client: {type(error).__name__}: {error}")
        for future in self._watchers:
            if not future.done():
                future.set_exception(self.failure)
        for link in list(self._links.values()):
            link.transport.abort()


def _reason_of_loss(error: Exception | None) -> str:
    return f"the connection failed: {error}" if error else CLOSED_BY_BROKER


def _message_of(error: OSError) -> str:
    """Return the operating system's message for an error, because asyncio replaces it with its own message."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def end_wait(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
