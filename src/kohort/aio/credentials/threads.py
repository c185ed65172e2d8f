"""Slow work in a thread of its own, which nobody waits for when the process ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

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
