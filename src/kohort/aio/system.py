"""The clocks, random numbers and threads of the operating system, which clients and brokers get as arguments."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

NS_PER_MS: Final = 1_000_000


class SystemClock:
    """Monotonic clock that starts at the time of the wall clock.

    A change of the wall clock, or a suspension of the machine, changes ``ahead_ms``, but moves no timer.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // NS_PER_MS

    def ahead_ms(self) -> int:
        return (time.time_ns() - time.monotonic_ns() - self._offset_ns) // NS_PER_MS


def wall_ms() -> int:
    """Return the time of the wall clock in ms since 1970. It may decrease."""
    return time.time_ns() // 1_000_000


def system_rng() -> random.Random:
    """Return the operating system's random number generator, because nonces of logins must be unpredictable."""
    return random.SystemRandom()


T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str = "kohort-credentials") -> T:
    """Run a function in a daemon thread; return its result or raise its error. The process exit does not wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        value: T | None = None
        failure: Exception | None = None
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001  # raised in the waiting task
            failure = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
        with contextlib.suppress(RuntimeError):  # the event loop that waits for the thread has ended
            loop.call_soon_threadsafe(_settle, future, failure, value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future


def _settle(future: asyncio.Future[T], error: Exception | None, value: T | None) -> None:
    if future.done():
        return  # the task that waits for the thread was cancelled
    if error is None:
        future.set_result(value)  # type: ignore[arg-type]  # one of both is set
    else:
        future.set_exception(error)


def run_soon(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]], tasks: set[asyncio.Task[None]]
) -> None:
    """Run ``work`` as a task of ``loop``; any thread may call this. Has no effect on a closed event loop.

    ``tasks`` has a reference to the task until its end, because an event loop has only weak references to tasks.
    """

    def begin() -> None:
        task = loop.create_task(work())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    with contextlib.suppress(RuntimeError):  # the event loop has ended, and its connections with it
        loop.call_soon_threadsafe(begin)
