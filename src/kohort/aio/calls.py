"""Public calls written once for both faces: a generator does the work, and yields whatever it has to wait for.

The blocking face waits for that in its caller's thread, the one for asyncio awaits it. In between, a call reads from
top to bottom like blocking code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")


class Wait(NamedTuple):
    """Until ``ready`` returns something other than None, or ``timeout_ms`` is over (None: no limit)."""

    ready: Callable[[], Any]
    timeout_ms: int | None


Call = Generator[Wait, Any, R]
"""A public call under way. It is sent what ``ready`` returned, or None after ``timeout_ms``."""


def run_call(call: Call[R], wait: Callable[[Wait], Any]) -> R:
    """Carry out a call of a blocking face and return its result; ``wait`` blocks. Raises what the call raises."""
    try:
        wanted = next(call)
        while True:
            try:
                found = wait(wanted)
            except BaseException as error:  # noqa: BLE001  # the call decides what becomes of it
                wanted = call.throw(error)
            else:
                wanted = call.send(found)
    except StopIteration as end:
        result: R = end.value
        return result


async def run_call_async(call: Call[R], wait: Callable[[Wait], Awaitable[Any]]) -> R:
    """Carry out a call of a face for asyncio, as ``run_call``; ``wait`` is awaited."""
    try:
        wanted = next(call)
        while True:
            try:
                found = await wait(wanted)
            except BaseException as error:  # noqa: BLE001  # the call decides what becomes of it
                wanted = call.throw(error)
            else:
                wanted = call.send(found)
    except StopIteration as end:
        result: R = end.value
        return result
