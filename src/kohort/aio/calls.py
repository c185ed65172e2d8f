"""Runs calls: verbs of a client, written once for both faces as generators of what they wait for.

The blocking face waits for that in its caller's thread, the one for asyncio awaits it. In between, a call reads from
top to bottom like blocking code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar, cast

R = TypeVar("R")
W = TypeVar("W")


def run_call(call: Generator[W, Any, R], wait_out: Callable[[W], Any]) -> R:
    """Run ``call`` to its end, with a function that blocks for each of its waits. Return its result.

    What a wait raises, an interrupt too, is raised at the ``yield``: the ``finally`` clauses of a call may wait.
    """
    failed: BaseException | None = None
    while True:
        try:
            wait = next(call) if failed is None else call.throw(failed)
            while True:
                wait = call.send(wait_out(wait))
        except BaseException as error:
            if getgeneratorstate(call) == GEN_CLOSED:
                if isinstance(error, StopIteration):
                    return cast("R", error.value)
                raise
            failed = error


async def run_call_async(call: Generator[W, Any, R], wait_out: Callable[[W], Awaitable[Any]]) -> R:
    """Run ``call`` to its end, with a coroutine for each of its waits. Return its result; errors as of ``run_call``."""
    failed: BaseException | None = None
    while True:
        try:
            wait = next(call) if failed is None else call.throw(failed)
            while True:
                wait = call.send(await wait_out(wait))
        except BaseException as error:
            if getgeneratorstate(call) == GEN_CLOSED:
                if isinstance(error, StopIteration):
                    return cast("R", error.value)
                raise
            failed = error
