"""The background thread with one event loop that all blocking clients of the process share.

The first client of a process starts the thread, also in a forked child process. When the process exits, the thread
closes all open clients and ends.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from kohort.aio.system import in_thread, run_soon
from kohort.errors import KohortError, UsageError

T = TypeVar("T")
EXIT_GRACE_S: Final = 5.0
"""Maximum time in seconds that the exit of the process waits for a client to close."""
log = logging.getLogger(__name__)


class Closeable(Protocol):
    """Blocking client that must be closed before the process ends."""

    @property
    def close(self) -> Callable[..., None]: ...

    def after_fork(self) -> None:
        """Replace the client's locks in a forked child process, so that calls raise UsageError instead of blocking."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed (half the CPU time), else an asyncio event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()

    class Loop(uvloop.Loop):  # type: ignore[misc]  # uvloop has no types here
        """uvloop event loop that survives a fork: it does not use libuv's thread pool to resolve host names.

        A forked child inherits that pool without its threads, and would crash at exit.
        """

        async def getaddrinfo(self, host: Any, port: Any, **hints: int) -> list[Any]:
            """Convert an IP address immediately; resolve a host name on a daemon thread."""
            numeric = hints.get("flags", 0) | socket.AI_NUMERICHOST
            with contextlib.suppress(socket.gaierror):
                return socket.getaddrinfo(host, port, **{**hints, "flags": numeric})
            return await in_thread(lambda: socket.getaddrinfo(host, port, **hints), "kohort-resolve")

    loop: asyncio.AbstractEventLoop = Loop()
    return loop


class IoThread:
    """Daemon thread that runs an event loop until the process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = new_loop()
        self._open: weakref.WeakKeyDictionary[Closeable, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._final_tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kohort-io", daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def is_here(self) -> bool:
        """True in the process that started the thread; False in a forked child process."""
        return self.pid == os.getpid()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the I/O thread and wait for its result; an interrupt (Ctrl-C) cancels it."""
        self.check_thread()
        future = asyncio.run_coroutine_threadsafe(work(), self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_now(self, work: Callable[[], T]) -> T:
        """Run a function (no coroutine) on the I/O thread and wait for its result; cheaper than ``call``."""
        self.check_thread()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # raised in the caller's thread
                future.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return future.result()

    def check_thread(self) -> None:
        """Raise UsageError if the caller is on the I/O thread (deadlock) or in a forked child process."""
        if threading.get_ident() == self._thread.ident:
            raise UsageError(
                "blocking calls are not allowed in a callback on kohort's I/O thread, which would wait for itself"
            )
        self.check_process()

    def check_process(self) -> None:
        """Raise UsageError if the caller is in a forked child process: the client's I/O thread does not run there."""
        if not self.is_here:
            raise UsageError("this client was created before fork(); create a new one in the child process")

    def close_at_exit(self, client: Closeable, **options: Any) -> None:
        """Call ``client.close(**options)`` when the process ends, if the client still exists."""
        self._open[client] = options

    def forget(self, client: Closeable) -> None:
        self._open.pop(client, None)

    def finish(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start ``work``, which closes a garbage-collected client. The process exit waits for its end."""
        run_soon(self.loop, work, self._final_tasks)

    def after_fork(self) -> None:
        """Replace, in a forked child process, the locks of the clients that were open in the parent process."""
        for client in list(self._open):
            client.after_fork()

    def stop(self) -> None:
        """Close the open clients, wait for the work that ``finish`` started, and end the event loop."""
        for client, options in list(self._open.items()):
            try:
                client.close(**options)
            except KohortError as error:
                log.warning("cannot close a %s that was left open: %s", type(client).__name__, error)
        asyncio.run_coroutine_threadsafe(self._finish_tasks(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(EXIT_GRACE_S)

    async def _finish_tasks(self) -> None:
        if self._final_tasks:
            await asyncio.wait(self._final_tasks, timeout=EXIT_GRACE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._started.set)
        try:
            self.loop.run_forever()
        finally:
            self._cancel_all()
            self.loop.close()

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


class _Process:
    """I/O thread of this process, and a lock for the thread's creation. A forked child creates its own thread."""

    lock = threading.Lock()
    current: IoThread | None = None


def io_thread() -> IoThread:
    with _Process.lock:
        if _Process.current is None:
            _Process.current = IoThread()
        return _Process.current


def _after_fork() -> None:
    inherited, _Process.current = _Process.current, None
    _Process.lock = threading.Lock()
    if inherited is not None:
        inherited.after_fork()


def _at_exit() -> None:
    if _Process.current is not None:
        _Process.current.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
