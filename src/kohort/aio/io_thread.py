"""One background thread with one loop for the whole process: the home of every client that has a blocking face.

It is made on first use, again after a fork (threads do not cross one), and ends at exit after the clients still open
have been closed, so that what they hold is not lost with the process.
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

from kohort.errors import KohortError, UsageError

T = TypeVar("T")
EXIT_GRACE_S: Final = 5.0
"""How long the end of the process waits for each thing that was left open."""
log = logging.getLogger(__name__)


class Closeable(Protocol):
    """A blocking face that must end before the process does."""

    @property
    def close(self) -> Callable[..., None]: ...

    def inherited(self) -> None:
        """Get along after a fork, with locks as they were at that moment: let every use be an error, and none wait."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop where it is installed (half the cost of asyncio's), asyncio's elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()

    class Loop(uvloop.Loop):  # type: ignore[misc]  # uvloop has no types here
        """uvloop's loop that survives a fork.

        uvloop resolves names on the thread pool of libuv, which ends with the process: a child that inherits the pool
        has none of its threads, and crashes at its end.
        """

        async def getaddrinfo(self, host: Any, port: Any, **hints: int) -> list[Any]:
            return await resolved(self, host, port, **hints)

    loop: asyncio.AbstractEventLoop = Loop()
    return loop


async def resolved(loop: asyncio.AbstractEventLoop, host: Any, port: Any, **hints: int) -> list[Any]:
    """Resolve a literal address at once, and a name on a daemon thread, which no end of a process waits for.

    Raises OSError, or UnicodeError for what can be no name.
    """
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, **{**hints, "flags": hints.get("flags", 0) | socket.AI_NUMERICHOST})
    found: asyncio.Future[list[Any]] = loop.create_future()

    def finish(result: list[Any], error: Exception | None) -> None:
        if found.done():
            return
        if error is None:
            found.set_result(result)
        else:
            found.set_exception(error)

    def resolve() -> None:
        result, failure = [], None
        try:
            result = socket.getaddrinfo(host, port, **hints)
        except (OSError, UnicodeError) as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, result, failure)

    threading.Thread(target=resolve, name="kohort-resolve", daemon=True).start()
    return await found


class IoThread:
    """A daemon thread that runs a loop until the process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = new_loop()
        self._open: weakref.WeakKeyDictionary[Closeable, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._last_words: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kohort-io", daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def is_here(self) -> bool:
        """Whether this is the process that made it: what was inherited by a fork belongs to the parent."""
        return self.pid == os.getpid()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` on the loop and wait for it; an interrupt (Ctrl-C) cancels it."""
        self.check_thread()
        future = asyncio.run_coroutine_threadsafe(work(), self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_now(self, work: Callable[[], T]) -> T:
        """Run a plain function on the loop and wait for it: cheaper than ``call`` where nothing is awaited."""
        self.check_thread()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # it belongs to the caller
                future.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return future.result()

    def check_thread(self) -> None:
        """Raise UsageError where waiting would never end."""
        if threading.get_ident() == self._thread.ident:
            raise UsageError("a blocking call from a callback on kohort's I/O thread would wait for itself")
        self.check_process()

    def check_process(self) -> None:
        """Raise UsageError in a child of the process that this is of: what is given to it there goes nowhere."""
        if not self.is_here:
            raise UsageError("this client was made before a fork; make a new one in the child process")

    def close_at_exit(self, client: Closeable, **options: Any) -> None:
        """Call ``client.close(**options)`` when the process ends, unless it is gone before."""
        self._open[client] = options

    def forget(self, client: Closeable) -> None:
        self._open.pop(client, None)

    def finish(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``work`` some time soon, and before the process ends: last words of a client that is gone.

        Safe in finalizers, whatever thread they run in: it only leaves word.
        """

        def begin() -> None:
            task = self.loop.create_task(work())
            self._last_words.add(task)
            task.add_done_callback(self._last_words.discard)

        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(begin)

    def disown(self) -> None:
        """Tell the clients that were open in the parent of this process, from which it has them by a fork."""
        for client in list(self._open):
            client.inherited()

    def stop(self) -> None:
        """End the loop after the clients still open, and the last words of those that were dropped."""
        for client, options in list(self._open.items()):
            try:
                client.close(**options)
            except KohortError as error:
                log.warning("a %s that was left open could not be closed: %s", type(client).__name__, error)
        asyncio.run_coroutine_threadsafe(self._spoken(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(EXIT_GRACE_S)

    async def _spoken(self) -> None:
        if self._last_words:
            await asyncio.wait(self._last_words, timeout=EXIT_GRACE_S)

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
    """What belongs to this process and to no child of it."""

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
        inherited.disown()


def _at_exit() -> None:
    if _Process.current is not None:
        _Process.current.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
