"""How the user's thread and the I/O thread share one consumer, by turns.

The user's thread waits on the machine's lock and is woken after each step of the engine; it runs what only it may run
(listeners), and no second thread gets in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kohort.aio.driver import Driver
from kohort.aio.io_thread import IoThread
from kohort.aio.notes import CONSUMER_LOG, log_notes
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.rebalance import CallbackNeeded, RebalanceListener
from kohort.client.requests.close_timeout import Parting
from kohort.client.requests.promise import Promise
from kohort.errors import ApiTimeout, UsageError, Wakeup

T = TypeVar("T")
LONGEST_WAIT_S: Final = 1.0
"""A waiting thread looks up this often even if nothing happens, so that Ctrl-C is heard on every platform."""


class ConsumerWaits:
    """The waiting, the callbacks and the guard of one blocking consumer."""

    def __init__(self, machine: ConsumerMachine, driver: Driver, lock: threading.RLock, io: IoThread) -> None:
        self.listener: RebalanceListener | None = None
        self.closed = False
        self.machine = machine
        self.driver = driver
        self.lock = lock
        self._io = io
        self._step = threading.Condition(lock)
        """Always entered as ``lock``: an interrupt (Ctrl-C) can end ``Condition.__enter__`` with the lock taken, which
        nobody would give back then, and the I/O thread would stand still for ever."""
        self._waiting = 0
        self._woken = False
        self._user: threading.Thread | None = None
        self._depth = 0
        self._listener_error: Exception | None = None
        self.now_ms = driver.clock.now_ms
        driver.on_progress(self._on_progress)

    def _on_progress(self) -> None:
        log_notes(self.machine.notes, CONSUMER_LOG)
        if self._waiting:
            self.nudge()

    def nudge(self) -> None:
        """Whoever waits looks again."""
        with self.lock:
            self._step.notify_all()

    def wakeup(self) -> None:
        with self.lock:
            self._woken = True
            self._step.notify_all()

    def inherited(self) -> None:
        """By a fork: the lock may have been taken by a thread that is not there."""
        self.lock = threading.RLock()

    # One thread at a time

    @contextmanager
    def using(self) -> Iterator[None]:
        """Raises UsageError if another thread is in here, naming both."""
        with self.lock:
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
        """As ``using``, and the member counts as alive for as long. Not made of it: two generators cost much of a poll
        that finds one record."""
        with self.lock:
            me = self._checked_thread()
            self.machine.enter_poll(self.now_ms())
            self._user = me
            self._depth += 1
        try:
            yield
        finally:
            try:
                with self.lock:
                    self.machine.leave_poll(self.now_ms())
                log_notes(self.machine.notes, CONSUMER_LOG)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._user = None

    def _checked_thread(self) -> threading.Thread:
        """This thread, if it may use the consumer now."""
        me = threading.current_thread()
        if self.closed:
            raise UsageError("the consumer is closed")
        if self._user is not None and self._user is not me:
            raise UsageError(
                f"a consumer is for one thread at a time: {me.name!r} called it while {self._user.name!r} uses it; "
                "give each thread a consumer of its own (only wakeup() is safe)"
            )
        self._io.check_thread()
        return me

    # Waiting

    def until(
        self, ready: Callable[[], T | None], timeout_ms: int, has_work: Callable[[], bool] | None = None
    ) -> T | None:
        """What ``ready`` returns as soon as it is not None, with rebalances going on meanwhile; None when time is up.

        ``ready`` is called without the lock, again when ``has_work`` (by default: whether there is data) says so under
        the lock. Raises Wakeup, and whatever went wrong in the background.
        """
        machine = self.machine
        has_work = has_work or (lambda: machine.has_data)
        deadline_ms = self.now_ms() + timeout_ms
        kicked, may_advance = False, True
        while True:
            self._raise_if_woken()
            if may_advance:
                self._rebalance()
            value = ready()
            if value is not None:
                return value
            with self.lock:
                now_ms = self.now_ms()
                if not (kicked or machine.is_quiet):
                    self.driver.kick_soon()
                    kicked = True
                if now_ms >= deadline_ms:
                    break
                if not (self._woken or has_work() or machine.needs_user):
                    self._sleep(deadline_ms - now_ms)
                is_due = machine.needs_user
                if is_due:
                    kicked = False  # the engine may have to hear of what it does next
                may_advance = is_due or not machine.is_settled  # what is under way goes on by the clock, too
        time.sleep(0)  # lets go of the GIL: a user who asks without waiting, again and again, would keep the I/O out
        return None

    def wait(self, ready: Callable[[], T | None], timeout_ms: int) -> T | None:
        """As ``until``, without going on with rebalances: for calls that are not polls, and inside listeners."""
        deadline_ms = self.now_ms() + timeout_ms
        with self.lock:
            self.driver.kick_soon()
            while True:
                value = ready()
                if value is not None:
                    return value
                self._raise_if_woken()
                self.machine.raise_failure()
                now_ms = self.now_ms()
                if now_ms >= deadline_ms:
                    return None
                self._sleep(deadline_ms - now_ms)

    def wait_for(self, promise: Promise[T], timeout_ms: int, too_late: str, *, check: bool = True) -> T:
        """The result of ``promise``. Raises ApiTimeout with ``too_late``; ``check``: and what failed meanwhile."""
        deadline_ms = self.now_ms() + timeout_ms
        with self.lock:
            self.driver.kick_soon()
            while not promise.done:
                if check:
                    self._raise_if_woken()
                    self.machine.raise_failure()
                now_ms = self.now_ms()
                if now_ms >= deadline_ms:
                    raise ApiTimeout(too_late)
                self._sleep(deadline_ms - now_ms)
        return promise.result()

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

    # Listeners

    def _rebalance(self) -> None:
        """Go on with the rebalance until it waits for the broker, telling the listener what it must hear."""
        while True:
            with self.lock:
                callback = self.machine.advance(self.now_ms())
            if callback is None:
                break
            self.tell(callback)
            with self.lock:
                self.machine.acknowledge(self.now_ms())
        self.raise_listener_error()

    def tell(self, callback: CallbackNeeded) -> None:
        """Run the listener. Its first error is kept, for the rebalance has to go on."""
        listener = self.listener
        if listener is None:
            return
        partitions = list(callback.partitions)
        method = {
            "revoked": listener.on_partitions_revoked,
            "assigned": listener.on_partitions_assigned,
            "lost": listener.on_partitions_lost,
        }[callback.kind]
        with self.lock:
            self.machine.leave_poll(self.now_ms())  # a listener that hangs must not keep the member alive
        try:
            method(partitions)
        except Exception as error:  # noqa: BLE001  # raised once the rebalance allows
            self._listener_error = self._listener_error or error
        finally:
            with self.lock:
                self.machine.stay_in_poll()

    def wait_last(self, promise: Promise[Any], parting: Parting) -> None:
        """Wait for ``promise``, whatever becomes of it, for as long as the end of the consumer may take."""
        with self.lock:
            self.driver.kick_soon()
            while not promise.done and (left_ms := parting.left_ms(self.now_ms())) > 0:
                self._sleep(left_ms)

    def leave(self, reason: str, parting: Parting) -> None:
        """Tell the listener, leave the group, and wait for the answer, but not for longer than ``parting``."""
        with self.lock:
            callback = self.machine.prepare_leave()
        if callback is not None:
            self.tell(callback)
        with self.lock:
            promise = self.machine.leave(reason)
        self.wait_last(promise, parting)
        self.raise_listener_error()

    def raise_listener_error(self) -> None:
        if self._listener_error is not None:
            error, self._listener_error = self._listener_error, None
            raise error
