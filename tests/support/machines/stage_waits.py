"""Waits for tests in one thread: the in-memory broker runs while a call waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from kohort.aio.calls import Call, PollUntil, Run, Wait, WaitFor, WaitLast, Waits, WaitUntil, run_call
from kohort.client.group.membership import CallbackNeeded
from kohort.errors import ApiTimeout
from support.machines.consumer_stage import User

R = TypeVar("R")
STEP_MS = 50


class StageWaits(Waits):
    """Runs the calls of one consumer; the in-memory broker runs while a call waits."""

    def __init__(self, user: User) -> None:
        self.machine = user.machine
        self.listener: Any = None
        self.guard: AbstractContextManager[Any] = nullcontext()
        self.kicks = 0
        self._stage = user.stage
        user.alive = False  # the calls themselves poll

    def now_ms(self) -> int:
        return int(self._stage.now_ms)

    def kick(self) -> None:
        self.kicks += 1

    def wake_waiting(self) -> None:
        """Do nothing: no other thread waits."""

    def run_anywhere(self, call: Call[R]) -> R:
        return run_call(call, self._wait_out)

    def run_listener(self, callback: CallbackNeeded) -> None:
        if self.listener is not None:
            try:
                getattr(self.listener, f"on_partitions_{callback.kind}")(list(callback.partitions))
            except Exception as error:  # noqa: BLE001  # raised once the rebalance allows
                self._listener_error = self._listener_error or error

    def _wait_out(self, wait: Wait) -> Any:
        match wait:
            case WaitFor(promise, timeout_ms, too_late):
                if not self._until(lambda: promise.done or None, timeout_ms):
                    raise ApiTimeout(too_late)
                return promise.result()
            case WaitUntil(ready, timeout_ms):
                return self._until(ready, timeout_ms)
            case WaitLast(promise, close_timeout):
                while not promise.done and close_timeout.left_ms(self.now_ms()) > 0:
                    self._go_on(STEP_MS)
            case PollUntil(ready, timeout_ms):
                return self._poll_until(ready, timeout_ms)
            case Run(work):
                return work()
        return None

    def _poll_until(self, ready: Callable[[], Any], timeout_ms: int) -> Any:
        self.machine.enter_poll(self.now_ms())
        try:
            return self._until(lambda: self._rebalanced(ready), timeout_ms)
        finally:
            self.machine.leave_poll(self.now_ms())

    def _rebalanced(self, ready: Callable[[], Any]) -> Any:
        while (callback := self.machine.advance(self.now_ms())) is not None:
            self.run_listener(callback)
            self.machine.acknowledge(self.now_ms())
        self.raise_listener_error()
        return ready()

    def _until(self, ready: Callable[[], Any], timeout_ms: int) -> Any:
        deadline_ms = self.now_ms() + timeout_ms
        while (found := ready()) is None and self.now_ms() < deadline_ms:
            self._go_on(min(STEP_MS, deadline_ms - self.now_ms()))
        return found

    def _go_on(self, for_ms: int) -> None:
        for user in [user for user in self._stage.users if user.alive]:
            user.poll()
        self._stage.loop.settle()  # run callbacks that are due now
        self._stage.loop.run(for_ms)
