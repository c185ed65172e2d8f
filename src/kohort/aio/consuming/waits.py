"""Implement the waits of a blocking consumer. A lock protects the state shared by caller and I/O thread.

A waiting call sleeps on a ``threading.Condition`` of this lock. It wakes after each run of the request engine.
Listeners run in the caller's thread. A call from a second thread at the same time raises UsageError.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kohort.aio.calls import Call, PollUntil, Run, Wait, WaitFor, WaitLast, Waits, WaitUntil, run_call
from kohort.aio.driver import CONSUMER_LOG, Driver, log_notes
from kohort.aio.io_thread import Closeable, IoThread
from kohort.client.consumer import CloseTimeout, ConsumerMachine
from kohort.client.group.membership import CallbackNeeded, RebalanceListener
from kohort.client.requests.source import Promise
from kohort.errors import ApiTimeout, UsageError, Wakeup

T = TypeVar("T")
LONGEST_WAIT_S: Final = 1.0
"""Longest sleep of a waiting thread, in seconds, so that Ctrl-C works on every platform."""


class ConsumerWaits(Waits):
    def __init__(self, machine: ConsumerMachine, driver: Driver, guard: threading.RLock, io: IoThread) -> None:
        self.listener: RebalanceListener | None = None
        self.closing = False
        """True after the start of ``close()``: a second ``close()`` has no effect, but listeners may still commit."""
        self.machine = machine
        self.driver = driver
        self.guard = guard
        self.io = io
        self._closed = False
        self._step = threading.Condition(guard)
        """Condition on which waiting calls sleep. Its lock is ``guard``: acquire ``guard``, never the condition.

        An interrupt (Ctrl-C) can end ``Condition.__enter__`` with the lock taken; then the I/O thread would block
        forever.
        """
        self._waiting = 0
        self._woken = False
        self._user: threading.Thread | None = None
        self._depth = 0
        self.now_ms = driver.clock.now_ms  # type: ignore[method-assign]  # one call less in each poll
        driver.on_progress(self._on_progress)

    def _on_progress(self) -> None:
        log_notes(self.machine.notes, CONSUMER_LOG)
        if self._waiting:
            self.wake_waiting()

    def wake_waiting(self) -> None:
        with self.guard:
            self._step.notify_all()

    def kick(self) -> None:
        self.driver.kick_soon()

    def wakeup(self) -> None:
        """Interrupt the waiting call, which raises Wakeup. If no call waits, the next waiting call raises it."""
        with self.guard:
            self._woken = True
            self._step.notify_all()

    @property
    def is_usable_here(self) -> bool:
        """False after the start of ``close()``, and in a forked child process."""
        return not self.closing and self.io.is_here

    def after_fork(self) -> None:
        """Replace the lock after ``fork()``: a thread of the parent process may have locked it."""
        self.guard = threading.RLock()

    def end(self, client: Closeable) -> None:
        self._closed = True
        self.io.forget(client)
        self.io.call(self.driver.close)

    @contextmanager
    def using(self) -> Iterator[None]:
        """Exclude other threads from the consumer while the ``with`` block runs.

        Raises UsageError if the consumer is closed, or if another thread uses it; the message names both threads.
        """
        with self.guard:
            self._user = self._checked_thread()
            self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._user = None

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Exclude other threads, and count the member as polling, while the ``with`` block runs.

        Does not call ``using``: a second generator would noticeably slow down polls that return one record.
        """
        with self.guard:
            me = self._checked_thread()
            self.machine.enter_poll(self.now_ms())
            self._user = me
            self._depth += 1
        try:
            yield
        finally:
            try:
                with self.guard:
                    self.machine.leave_poll(self.now_ms())
                log_notes(self.machine.notes, CONSUMER_LOG)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._user = None

    def _checked_thread(self) -> threading.Thread:
        me = threading.current_thread()
        if self._closed:
            raise UsageError("the consumer is closed")
        if self._user is not None and self._user is not me:
            raise UsageError(
                f"only one thread may use a consumer: {me.name!r} called it while {self._user.name!r} uses it; "
                "create a consumer for each thread (only wakeup() is safe)"
            )
        self.io.check_thread()
        return me

    def run(self, call: Call[T]) -> T:
        """Run a client call in this thread. Raises its errors, and UsageError if another thread uses the consumer."""
        with self.using():
            return run_call(call, self._wait_out)

    def run_anywhere(self, call: Call[T]) -> T:
        return run_call(call, self._wait_out)

    def _wait_out(self, wait: Wait) -> Any:
        match wait:
            case WaitFor(promise, timeout_ms, too_late, check):
                return self.wait_for(promise, timeout_ms, too_late, check=check)
            case WaitUntil(ready, timeout_ms):
                return self.wait(ready, timeout_ms)
            case WaitLast(promise, close_timeout):
                return self.wait_last(promise, close_timeout)
            case PollUntil(ready, timeout_ms, has_work):
                with self.polling():
                    return self.until(ready, timeout_ms, has_work)
            case Run(work):
                return work()

    def until(
        self, ready: Callable[[], T | None], timeout_ms: int, has_work: Callable[[], bool] | None = None
    ) -> T | None:
        """Poll until ``ready`` returns a value; rebalances continue. Return the value, or None after ``timeout_ms``."""
        machine = self.machine
        has_work = has_work or (lambda: machine.has_data)
        deadline_ms = self.now_ms() + timeout_ms
        kicked, may_advance = False, True
        while True:
            self._raise_if_woken()
            try:
                if may_advance:
                    self._rebalance()
                value = ready()
            except Exception:
                self.driver.kick_soon()  # send retries and heartbeats while the user handles the error
                raise
            if value is not None:
                return value
            with self.guard:
                now_ms = self.now_ms()
                if machine.auto_commit(now_ms):
                    kicked = False
                if not (kicked or machine.is_quiet):
                    self.driver.kick_soon()
                    kicked = True
                if now_ms >= deadline_ms:
                    break
                if not (self._woken or has_work() or machine.needs_user):
                    self._sleep(deadline_ms - now_ms)
                is_due = machine.needs_user
                if is_due:
                    kicked = False  # the listener callback may have created new work for the request engine
                # a rebalance in flight has deadlines, so continue it after each run of the request engine
                may_advance = is_due or not machine.is_stable
        time.sleep(0)  # release the GIL: otherwise a loop of polls without a timeout would block the I/O thread
        return None

    def wait(self, ready: Callable[[], T | None], timeout_ms: int) -> T | None:
        """Wait until ``ready`` returns a value. A wait is no ``poll()``: rebalances make no progress during it.

        Calls ``ready`` under the lock.
        """
        deadline_ms = self.now_ms() + timeout_ms
        with self.guard:
            self.driver.kick_soon()
            while True:
                value = ready()
                if value is not None:
                    return value
                self._raise_if_woken()
                self._raise_failure()
                now_ms = self.now_ms()
                if now_ms >= deadline_ms:
                    return None
                self._sleep(deadline_ms - now_ms)

    def wait_for(self, promise: Promise[T], timeout_ms: int, too_late: str, *, check: bool = True) -> T:
        """Wait for ``promise`` and return its result. Raises its error.

        Raises ApiTimeout with the message ``too_late`` after ``timeout_ms``. With ``check`` also raises Wakeup, and
        errors of background work.
        """
        deadline_ms = self.now_ms() + timeout_ms
        with self.guard:
            self.driver.kick_soon()
            while not promise.done:
                if check:
                    self._raise_if_woken()
                    self._raise_failure()
                now_ms = self.now_ms()
                if now_ms >= deadline_ms:
                    raise ApiTimeout(too_late)
                self._sleep(deadline_ms - now_ms)
        return promise.result()

    def _raise_failure(self) -> None:
        try:
            self.machine.raise_failure()
        except Exception:
            self.driver.kick_soon()  # retry failed requests while the user handles the error
            raise

    def _sleep(self, most_ms: int) -> None:
        if self.driver.failure is not None:
            raise self.driver.failure
        self._waiting += 1
        try:
            self._step.wait(min(most_ms / 1000, LONGEST_WAIT_S))
        finally:
            self._waiting -= 1

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise Wakeup("the call was interrupted by wakeup()")

    def _rebalance(self) -> None:
        while True:
            with self.guard:
                callback = self.machine.advance(self.now_ms())
            if callback is None:
                break
            self.run_listener(callback)
            with self.guard:
                self.machine.acknowledge(self.now_ms())
        self.raise_listener_error()

    def run_listener(self, callback: CallbackNeeded) -> None:
        if self.listener is not None:
            with self._listening(callback) as method:
                method(list(callback.partitions))

    def wait_last(self, promise: Promise[Any], close_timeout: CloseTimeout) -> None:
        with self.guard:
            self.driver.kick_soon()
            while not promise.done and (left_ms := close_timeout.left_ms(self.now_ms())) > 0:
                self._sleep(left_ms)
