"""Handler functions in threads: a thread per partition, or threads for the keys of a partition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kohort.aio.admin import Admin
from kohort.aio.calls import Run, run_call
from kohort.aio.group.record_calls import Pause, RecordCalls, mark, read
from kohort.aio.group.session_state import WAIT_SLICE_S, Session
from kohort.aio.producing.delivery import Delivery
from kohort.aio.producing.producer import Producer
from kohort.aio.system import wall_ms
from kohort.client.handling.keyed_records import KeyedRecords
from kohort.client.reading.subscription import PartitionState
from kohort.model import Record
from kohort.schemas.serde import SchemaNeeded


class BlockingClients:
    now_ms = staticmethod(wall_ms)
    producer = Producer
    admin = Admin

    def delivered(self, delivery: Delivery) -> Any:
        return delivery.result()

    def fetch(self, needed: SchemaNeeded) -> None:
        needed.fetch()


def run_work(wait: Run | Pause) -> Any:
    """Run the wait requests of a call outside of sessions, which has no pauses."""
    assert isinstance(wait, Run)
    return wait.work()


class RecordThreads:
    """Handler of ``ConsumerGroup.run`` that calls a function for each record."""

    def __init__(self, calls: RecordCalls) -> None:
        self._calls = calls

    def setup(self, session: Session) -> None:
        self._calls.rules.check_topics({partition.topic for partition in session.partitions})

    def consume_claim(self, session: Session, claim: Any) -> None:
        if self._calls.config.concurrency == 1:
            run_call(self._calls.in_order(session, claim), partial(wait_out, claim))
        else:
            ThreadsByKey(self._calls, session, claim).run()

    def cleanup(self, session: Session) -> None:
        """Do nothing: the session commits the marked records."""


def wait_out(claim: Any, wait: Run | Pause) -> Any:
    return wait.work() if isinstance(wait, Run) else pause(claim, wait.delay_ms)


def pause(claim: Any, delay_ms: int) -> bool:
    """Wait ``delay_ms``. Return False if the session ends before."""
    session = claim._session
    deadline_ms = session.waits.now_ms() + delay_ms
    with claim._changed:
        while not session.ending and (left_ms := deadline_ms - session.waits.now_ms()) > 0:
            claim._changed.wait(min(left_ms / 1000, WAIT_SLICE_S))
        return not session.ending


class ThreadsByKey:
    """Threads that handle the records of one claim, those of a key in order."""

    def __init__(self, calls: RecordCalls, session: Session, claim: Any) -> None:
        self._calls = calls
        self._user_session = session
        self._claim = claim
        self._session = claim._session
        self._changed: threading.Condition = claim._changed
        self._ready = threading.Condition(claim._session.waits.guard)
        self._records = KeyedRecords(calls.config.concurrency, calls.config.max_unfinished)
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_over = False
        self._is_waiting = False
        self._reading: PartitionState | None = None

    def run(self) -> None:
        try:
            while (fetched := self._claim._take()) is not None:
                records = read(self._claim, fetched)
                if fetched.state is not self._reading:
                    self._wait_while(lambda: self._records.count > 0)
                    self._reading = fetched.state
                while records and not self._session.ending:
                    self._wait_while(lambda: not self._records.room)
                    records = self._add(records)
                self._session.check_damage(self._claim._state, fetched)
        finally:
            self._finish()

    def _wait_while(self, is_so: Callable[[], bool]) -> None:
        """Wait for finished records, or for the end of the session."""
        with self._changed:
            self._is_waiting = True
            while is_so() and not self._session.ending:
                self._changed.wait(WAIT_SLICE_S)
            self._is_waiting = False

    def _add(self, records: list[Record]) -> list[Record]:
        """Queue records up to ``max_unfinished``; return the remaining ones."""
        with self._changed:
            room = self._records.room
            self._records.add(records[:room])
            startable = self._records.startable
            self._ready.notify(startable)
            for _ in range(startable - self._idle):
                self._start_thread()
        return records[room:]

    def _start_thread(self) -> None:
        """Start another thread, up to ``concurrency`` threads."""
        if len(self._threads) == self._calls.config.concurrency:
            return
        name = f"{threading.current_thread().name}-{len(self._threads)}"
        thread = threading.Thread(target=self._handle, name=name, daemon=True)
        self._threads.append(thread)
        self._session.helpers.add(thread)
        thread.start()

    def _handle(self) -> None:
        try:
            record = self._next()
            while record is not None and run_call(self._calls.attempts(record), partial(wait_out, self._claim)):
                record = self._next(record)
        except BaseException as error:  # noqa: BLE001  # raised in the thread that runs the group
            self._session.fail(self._claim._state, error)
            self._session.end()

    def _next(self, finished: Record | None = None) -> Record | None:
        """Finish a record, and wait for the next one; None when the session ends."""
        with self._changed:
            if finished is not None:
                last = self._records.finish(finished)
                if last is not None:
                    mark(self._user_session, self._claim, self._reading, last)
                if self._is_waiting:
                    self._changed.notify_all()
            while not (self._session.ending or self._is_over):
                if (record := self._records.next()) is not None:
                    return record
                self._idle += 1
                self._ready.wait(WAIT_SLICE_S)
                self._idle -= 1
            return None

    def _finish(self) -> None:
        """Let the threads finish the records that they handle, but start no others."""
        with self._changed:
            self._is_over = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()
        self._session.helpers.difference_update(self._threads)
