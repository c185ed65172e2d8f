"""Implement the waits of an asyncio consumer. ``waits.py`` implements those of a blocking consumer.

No lock is needed: no code awaits while it uses the consumer's state. One task at a time polls; during its poll other
tasks may seek, commit or query offsets.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol, TypeVar

from kohort.aio.calls import Call, PollUntil, Run, Wait, WaitFor, WaitLast, Waits, WaitUntil, run_call_async
from kohort.aio.driver import CONSUMER_LOG, Driver, log_notes
from kohort.aio.system import SystemClock
from kohort.aio.tls.contexts import tls_of
from kohort.client.consumer import CloseTimeout, ConsumerMachine
from kohort.client.group.membership import CallbackNeeded, RebalanceListener
from kohort.client.requests.source import Promise
from kohort.errors import ApiTimeout, UsageError
from kohort.model import TopicPartition

T = TypeVar("T")
WAIT_SLICE_MS: Final = 1000


class AsyncRebalanceListener(Protocol):
    """Rebalance listener of an ``AsyncConsumer``. Methods may be coroutines; the rebalance waits for their end."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Handle the revocation of ``partitions``. The member owns them, and may commit, until this method returns."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Prepare for newly assigned ``partitions`` before they are fetched. The method may seek."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Handle the loss of ``partitions``, which other members may own already. Commits are impossible."""


class AsyncConsumerWaits(Waits):
    blocks = False

    def __init__(self, machine: ConsumerMachine) -> None:
        self.listener: AsyncRebalanceListener | RebalanceListener | None = None
        self.closing = False
        """True after the start of ``close()``: polls raise UsageError, but the rebalance listener may still commit."""
        self.closed = False
        self.machine = machine
        self.guard: AbstractContextManager[Any] = nullcontext()
        self._clock = SystemClock()
        self._tls = tls_of(machine.config)
        self._driver: Driver | None = None
        self._poller: asyncio.Task[object] | None = None

    def now_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def driver(self) -> Driver:
        """Driver of the consumer's request engine, created on the running event loop at the first use."""
        if self._driver is None:
            self._driver = Driver(self.machine.engine, tls=self._tls, clock=self._clock)
            notes = self.machine.notes
            self._driver.on_progress(lambda: log_notes(notes, CONSUMER_LOG))
        return self._driver

    @property
    def running(self) -> Driver | None:
        return self._driver

    def kick(self) -> None:
        if self._driver is not None and not self._driver.loop.is_closed():
            self._driver.kick()

    wake_waiting = kick

    async def end(self) -> None:
        try:
            await asyncio.sleep(0)  # let the request engine write its last requests before the connections close
        finally:
            self.closed = True
            if self._driver is not None:
                await self._driver.close()

    def check_usable(self) -> None:
        """Raise UsageError if the consumer is closed, or if the caller is outside of the consumer's event loop."""
        if self.closed:
            raise UsageError("the consumer is closed")
        if self._driver is not None and _running_loop() is not self._driver.loop:
            raise UsageError(
                "an AsyncConsumer belongs to the event loop of its first call, and to that loop's thread; "
                "create one for each loop"
            )

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Count the member as polling while the ``with`` block runs. Raises UsageError if another task polls."""
        self.check_usable()
        if self.closing:
            raise UsageError("the consumer is being closed")
        me = asyncio.current_task()
        assert me is not None
        if self._poller is not None:
            raise UsageError(
                f"only one task may poll a consumer: {me.get_name()!r} polls while {self._poller.get_name()!r} polls; "
                "create a consumer for each task, or let one task poll and pass on the records"
            )
        self.machine.enter_poll(self.now_ms())
        self._poller = me
        try:
            yield
        finally:
            self._poller = None
            self.machine.leave_poll(self.now_ms())
            log_notes(self.machine.notes, CONSUMER_LOG)
            self.kick()

    async def stop_polling(self, timeout_ms: int) -> None:
        self.closing = True
        if self._poller is not None and self._poller is not asyncio.current_task():
            self.driver.kick()
            await self.driver.until(lambda: True if self._poller is None else None, timeout_ms)

    async def run(self, call: Call[T]) -> T:
        """Run a consumer call in the current task. Raises its errors, and UsageError if the consumer is closed."""
        self.check_usable()
        return await run_call_async(call, self._wait_out)

    async def run_anywhere(self, call: Call[T]) -> T:
        return await run_call_async(call, self._wait_out)

    async def _wait_out(self, wait: Wait) -> Any:
        match wait:
            case WaitFor(promise, timeout_ms, too_late, check):
                return await self.wait_for(promise, timeout_ms, too_late, check=check)
            case WaitUntil(ready, timeout_ms):
                return await self.wait(ready, timeout_ms)
            case WaitLast(promise, close_timeout):
                return await self.wait_last(promise, close_timeout)
            case PollUntil(ready, timeout_ms, has_work):
                with self.polling():
                    return await self.until(ready, timeout_ms, has_work)
            case Run(work):
                answer = work()
                return await answer if inspect.isawaitable(answer) else answer

    async def until(
        self, ready: Callable[[], T | None], timeout_ms: int, has_work: Callable[[], bool] | None = None
    ) -> T | None:
        """Poll until ``ready`` returns a value; rebalances continue. Return the value, or None after ``timeout_ms``.

        Also returns None if the consumer is closed during the wait. Calls ``ready`` each time that ``has_work``
        (default: records are buffered) returns True. Raises errors of background work.
        """
        has_work = has_work or (lambda: self.machine.has_data)

        def has_work_now() -> bool | None:
            return True if self.closing or has_work() or self.machine.needs_user else None

        driver = self.driver
        deadline_ms = self.now_ms() + timeout_ms
        await asyncio.sleep(
            0
        )  # polls that find buffered data never wait, so let other tasks and the request engine run
        while not self.closing:
            await self._rebalance()
            value = ready()
            if value is not None:
                return value
            now_ms = self.now_ms()
            left_ms = deadline_ms - now_ms
            self.machine.auto_commit(now_ms)
            driver.kick()
            if left_ms <= 0:
                return None
            await driver.until(has_work_now, min(left_ms, WAIT_SLICE_MS))
        return None

    async def wait(self, ready: Callable[[], T | None], timeout_ms: int) -> T | None:
        """Wait until ``ready`` returns a value, without polling: rebalances make no progress meanwhile."""

        def checked() -> T | None:
            value = ready()
            if value is None:
                self.machine.raise_failure()
            return value

        return await self.driver.until(checked, timeout_ms)

    async def wait_for(self, promise: Promise[T], timeout_ms: int, too_late: str, *, check: bool = True) -> T:
        """Wait for ``promise`` and return its result. Raises its error.

        Raises ApiTimeout with the message ``too_late`` after ``timeout_ms``. With ``check`` also raises errors of
        background work.
        """

        def done() -> bool | None:
            if promise.done:
                return True
            if check:
                self.machine.raise_failure()
            return None

        if not await self.driver.until(done, timeout_ms):
            raise ApiTimeout(too_late)
        return promise.result()

    async def _rebalance(self) -> None:
        while (callback := self.machine.advance(self.now_ms())) is not None:
            await self.run_listener(callback)
            self.machine.acknowledge(self.now_ms())
        self.raise_listener_error()

    async def run_listener(self, callback: CallbackNeeded) -> None:
        if self.listener is not None:
            with self._listening(callback) as method:
                self.kick()
                answer = method(list(callback.partitions))
                if inspect.isawaitable(answer):
                    await answer

    async def wait_last(self, promise: Promise[Any], close_timeout: CloseTimeout) -> None:
        while not promise.done and (left_ms := close_timeout.left_ms(self.now_ms())) > 0:
            await self.driver.until(lambda: promise.done or None, min(left_ms, WAIT_SLICE_MS))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
