"""What happens to a client that was dropped without being closed: a warning, and an orderly end in the background.

A consumer leaves its group: otherwise its heartbeats would go on in the background, and its partitions would wait for a
user who is gone, until ``max.poll.interval.ms`` is over. Nothing is committed, because it is not known how far the user
came. A producer delivers what it was given; a transaction that it left open is aborted.

These are called by finalizers, in any thread: they only schedule work on the client's loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from kohort.aio.driver import Driver
from kohort.client.consumer import ConsumerMachine
from kohort.client.producer import ProducerMachine

GOODBYE_MS: Final = 5000
REASON: Final = "the consumer was dropped without close()"
Work = Callable[[], Coroutine[Any, Any, None]]
_under_way: Final[set[object]] = set()
"""Tasks are only held weakly by their loop."""


def say_goodbye(
    name: str,
    machine: ConsumerMachine,
    driver: Driver,
    guard: AbstractContextManager[Any],
    finish: Callable[[Work], None] | None = None,
) -> None:
    """Leave the group and end the connections. ``finish``: how the loop is told; by default, as asyncio does."""

    async def leave() -> None:
        with guard:
            machine.prepare_leave()  # there is no listener any more
            promise = machine.leave(REASON)
            machine.stop_fetching()
        await driver.until(lambda: True if promise.done else None, GOODBYE_MS)
        await driver.close()

    _warn(name)
    if finish is not None:
        finish(leave)
    else:
        _on_loop(driver, leave)


def deliver_rest(
    name: str,
    machine: ProducerMachine,
    driver: Driver,
    guard: AbstractContextManager[Any],
    finish: Callable[[Work], None] | None = None,
) -> None:
    """Deliver what is buffered, until ``delivery.timeout.ms`` ends that, and end the connections."""

    async def deliver() -> None:
        with guard:
            machine.abort_open_transaction()
            machine.accumulator.flush()
        await driver.until(lambda: machine.is_idle or None)
        await driver.close()

    _warn(name)
    if finish is not None:
        finish(deliver)
    else:
        _on_loop(driver, deliver)


def _warn(name: str) -> None:
    warnings.warn(f"{name} was dropped without close()", ResourceWarning, stacklevel=4)


def _on_loop(driver: Driver, work: Work) -> None:
    def begin() -> None:
        task = driver.loop.create_task(work())
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)

    with suppress(RuntimeError):  # the loop has ended, and with it all of its connections
        driver.loop.call_soon_threadsafe(begin)
