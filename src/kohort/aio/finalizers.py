"""Clean up clients that were garbage-collected without ``close()``: warn, and close them in the background.

A consumer leaves its group; otherwise its heartbeats would continue, and its partitions would stay assigned for
``max.poll.interval.ms``. It commits no offsets, because the user's progress is unknown. A producer aborts an open
transaction and delivers its buffered records.

Finalizers may run in any thread, so they only schedule work on the client's event loop.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Final

from kohort.aio.driver import Driver
from kohort.aio.system import run_soon
from kohort.client.consumer import ConsumerMachine
from kohort.client.producer import ProducerMachine

LEAVE_MS: Final = 5000
REASON: Final = "the consumer was dropped without close()"
Work = Callable[[], Coroutine[Any, Any, None]]
_running: Final[set[asyncio.Task[None]]] = set()


def leave_dropped(
    name: str,
    machine: ConsumerMachine,
    driver: Driver,
    guard: AbstractContextManager[Any],
    finish: Callable[[Work], None] | None = None,
) -> None:
    """Leave the group and close the connections of a garbage-collected consumer.

    ``finish`` schedules this work; default: on the driver's event loop.
    """

    async def leave() -> None:
        with guard:
            machine.prepare_leave()  # leave the group without calling the rebalance listener
            promise = machine.leave(REASON)
            machine.stop_fetching()
        await driver.until(lambda: True if promise.done else None, LEAVE_MS)
        await driver.close()

    _finish(name, driver, leave, finish)


def deliver_dropped(
    name: str,
    machine: ProducerMachine,
    driver: Driver,
    guard: AbstractContextManager[Any],
    finish: Callable[[Work], None] | None = None,
) -> None:
    """Deliver the buffered records of a garbage-collected producer within ``delivery.timeout.ms``, then close it."""

    async def deliver() -> None:
        with guard:
            machine.abort_open_transaction()
            machine.accumulator.flush()
        await driver.until(lambda: machine.is_idle or None)
        await driver.close()

    _finish(name, driver, deliver, finish)


def _finish(name: str, driver: Driver, work: Work, finish: Callable[[Work], None] | None) -> None:
    warnings.warn(f"{name} was dropped without close()", ResourceWarning, stacklevel=4)
    if finish is not None:
        finish(work)
    else:
        run_soon(driver.loop, work, _running)
