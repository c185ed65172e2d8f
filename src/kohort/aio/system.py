"""The real clock and real random numbers: what every machine is given outside of tests."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

NS_PER_MS: Final = 1_000_000


class SystemClock:
    """The monotonic clock, counted from the wall clock at the start.

    A wall clock that is set, or a machine that was suspended, moves no timer: only ``ahead_ms`` changes.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // NS_PER_MS

    def ahead_ms(self) -> int:
        return (time.time_ns() - time.monotonic_ns() - self._offset_ns) // NS_PER_MS


def wall_ms() -> int:
    """Return the machine's clock in milliseconds since the epoch: the time of a record. It may go back."""
    return time.time_ns() // 1_000_000


def system_rng() -> random.Random:
    """Chance from the operating system: what was drawn tells nobody what will be, as nonces of logins need it."""
    return random.SystemRandom()


T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str = "kohort-credentials") -> T:
    """Return what ``work`` does, or raise what it raises; the loop goes on meanwhile.

    The thread is a daemon: an identity provider that does not answer keeps no process from its end.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits
            told = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            _call(loop, _settle, future, told, None)
        else:
            _call(loop, _settle, future, None, value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future


def _settle(future: asyncio.Future[T], error: Exception | None, value: T | None) -> None:
    if future.done():
        return  # nobody waits any more
    if error is None:
        future.set_result(value)  # type: ignore[arg-type]  # one of the two is given
    else:
        future.set_exception(error)


def _call(loop: asyncio.AbstractEventLoop, *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(*args)  # type: ignore[arg-type]
