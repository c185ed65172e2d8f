"""Handler functions in asyncio: a task per partition, or a task per record for the keys of a partition."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from kohort.aio.admin import AsyncAdmin
from kohort.aio.calls import Run, run_call_async
from kohort.aio.group.record_calls import Pause, RecordCalls, mark, read
from kohort.aio.group.session_state import Session
from kohort.aio.producing.async_producer import AsyncProducer
from kohort.aio.producing.delivery import Delivery
from kohort.aio.system import wall_ms
from kohort.client.handling.keyed_records import KeyedRecords
from kohort.client.reading.subscription import PartitionState
from kohort.model import Record
from kohort.schemas.serde import SchemaNeeded


class AsyncClients:
    now_ms = staticmethod(wall_ms)
    producer = AsyncProducer
    admin = AsyncAdmin

    def delivered(self, delivery: Delivery) -> Any:
        return delivery

    def fetch(self, needed: SchemaNeeded) -> Any:
        return needed.fetch_async()


async def run_work(wait: Run | Pause) -> Any:
    """Run the wait requests of a call outside of sessions, which has no pauses."""
    assert isinstance(wait, Run)
    found = wait.work()
    return await found if inspect.isawaitable(found) else found


class RecordTasks:
    """Handler of ``AsyncConsumerGroup.run`` that calls a function for each record."""

    def __init__(self, calls: RecordCalls) -> None:
        self._calls = calls

    async def setup(self, session: Session) -> None:
        self._calls.rules.check_topics({partition.topic for partition in session.partitions})

    async def consume_claim(self, session: Session, claim: Any) -> None:
        if self._calls.config.concurrency == 1:
            await run_call_async(self._calls.in_order(session, claim), Waiter(claim).wait_out)
        else:
            await TasksByKey(self._calls, session, claim).run()

    async def cleanup(self, session: Session) -> None:
        """Do nothing: the session commits the marked records."""


class Waiter:
    """Runs the wait requests of calls for the records of one claim."""

    def __init__(self, claim: Any) -> None:
        self._session = claim._session
        self._changed: asyncio.Event = claim._changed

    async def wait_out(self, wait: Run | Pause) -> Any:
        if isinstance(wait, Run):
            return await run_work(wait)
        deadline_ms = self._session.waits.now_ms() + wait.delay_ms
        while not self._session.ending and (left_ms := deadline_ms - self._session.waits.now_ms()) > 0:
            await self.change(left_ms)
        return not self._session.ending

    async def change(self, most_ms: int | None = None) -> None:
        """Wait until the claim gets records, a record is finished or the session ends."""
        self._changed.clear()
        try:
            async with asyncio.timeout(None if most_ms is None else most_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass


class TasksByKey:
    """Tasks that handle the records of one claim, those of a key in order."""

    def __init__(self, calls: RecordCalls, session: Session, claim: Any) -> None:
        self._calls = calls
        self._user_session = session
        self._claim = claim
        self._session = claim._session
        self._waiter = Waiter(claim)
        self._records = KeyedRecords(calls.config.concurrency, calls.config.max_unfinished)
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: PartitionState | None = None

    async def run(self) -> None:
        try:
            while (fetched := await self._claim._take()) is not None:
                records = read(self._claim, fetched)
                if fetched.state is not self._reading:
                    while self._records.count and not self._session.ending:
                        await self._waiter.change()
                    self._reading = fetched.state
                while records and not self._session.ending:
                    room = self._records.room
                    self._records.add(records[:room])
                    records = records[room:]
                    self._start()
                    if records:
                        await self._waiter.change()
                self._session.check_damage(self._claim._state, fetched)
        finally:
            await self._finish()

    def _start(self) -> None:
        while not self._session.ending and (record := self._records.next()) is not None:
            task = asyncio.create_task(self._handle(record), name=f"kohort-claim-{record.topic}-{record.partition}")
            self._tasks.add(task)
            self._session.helpers.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(self._session.helpers.discard)

    async def _handle(self, record: Record) -> None:
        try:
            if not await run_call_async(self._calls.attempts(record), self._waiter.wait_out):
                return
        except asyncio.CancelledError as error:
            if not self._session.ending:  # the user's code, not the session, cancelled the task
                self._session.fail(self._claim._state, error)
                self._session.end()
            raise
        except BaseException as error:  # noqa: BLE001  # raised in the task that runs the group
            self._session.fail(self._claim._state, error)
            self._session.end()
            return
        last = self._records.finish(record)
        if last is not None:
            mark(self._user_session, self._claim, self._reading, last)
        self._start()
        self._claim._changed.set()

    async def _finish(self) -> None:
        """Wait until the running handlers end. Cancel the handlers if the session cancels the claim's task."""
        tasks = [*self._tasks]
        if not tasks:
            return
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel("the session has ended")
            await asyncio.wait(tasks)
            raise
