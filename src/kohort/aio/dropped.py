"""What happens to a consumer that nobody holds any more and nobody closed: a warning, and a goodbye to its group.

Without it the member would go on beating in the background, and its partitions would wait for a user who is gone, until
``max.poll.interval.ms`` is over. Nothing is committed: nobody knows how far the user came.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from kohort.aio.driver import Driver
from kohort.client.consumer import ConsumerMachine

GOODBYE_MS: Final = 5000
REASON: Final = "the consumer was dropped without close()"
_under_way: Final[set[object]] = set()
"""Tasks are only held weakly by their loop."""


def say_goodbye(name: str, machine: ConsumerMachine, driver: Driver, guard: AbstractContextManager[Any]) -> None:
    """Called by a finalizer, in whatever thread: it only leaves word on the loop of the consumer."""

    async def leave() -> None:
        with guard:
            machine.prepare_leave()  # there is no listener any more
            promise = machine.leave(REASON)
            machine.stop_fetching()
        await driver.until(lambda: True if promise.done else None, GOODBYE_MS)
        await driver.close()

    def begin() -> None:
        task = driver.loop.create_task(leave())
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)

    with suppress(RuntimeError):  # the loop has ended, and with it all of its connections
        driver.loop.call_soon_threadsafe(begin)
    warnings.warn(f"{name} was dropped without close()", ResourceWarning, stacklevel=3)
