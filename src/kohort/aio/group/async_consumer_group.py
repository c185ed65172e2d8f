"""Consumer groups with handlers in asyncio tasks. ``consumer_group.py`` has consumer groups with handler threads.

The task that awaits ``run`` polls, rebalances and distributes records; each claimed partition has a handler task. At
the end of a session, handlers that do not return within ``max.poll.interval.ms`` are cancelled.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from kohort.aio.calls import documented_as, run_call_async
from kohort.aio.consuming.async_waits import AsyncConsumerWaits
from kohort.aio.consuming.consumer_calls import checked_topics
from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.finalizers import leave_dropped
from kohort.aio.group.consumer_group import Claim, ConsumerGroup, GroupSession
from kohort.aio.group.group_calls import GroupCalls, group_config, group_machine, handlers_running_error
from kohort.aio.group.record_calls import RecordCalls
from kohort.aio.group.record_tasks import AsyncClients, RecordTasks, run_work
from kohort.aio.group.session_state import MAX_PROCESSING_TIME_MS, Session, SessionClaim, SessionState
from kohort.client.handling.rules import refuse_manual_commits
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.deserializing import refuse_arrow
from kohort.client.reading.fetched import Fetched
from kohort.errors import UsageError
from kohort.model import Record, SubscriptionPattern
from kohort.schemas.serde import resolved_async

if TYPE_CHECKING:
    import pyarrow

    from kohort.aio.option_types import ConsumerOptions, HandlerOptions
    from kohort.columns.avro_values.format import AvroFormat


@documented_as(GroupSession)
class AsyncGroupSession(Session):
    """Session of a group member in asyncio: the time with one assignment, from ``setup`` to ``cleanup``.

    ``member_id`` and ``generation_id`` identify the member, ``partitions`` are its assigned partitions; ``claims`` has
    a claim for each partition, which yields the records.
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self.claims = tuple(AsyncClaim(state, claim) for claim in state.claims.by_partition.values())

    async def commit(self, *, timeout_ms: int | None = None) -> None:
        await self._state.waits.run_anywhere(self._state.commit(timeout_ms))


@documented_as(Claim)
class AsyncClaim(SessionClaim):
    """Partition that is claimed by (assigned to) the member; ``async for`` yields its records until the session ends.

    ``topic`` and ``partition`` identify it. ``initial_offset`` is the offset from which the session reads.
    """

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        super().__init__(session, state)
        self._changed = asyncio.Event()
        session.wake_by(state, self._changed.set)

    async def __aiter__(self) -> AsyncIterator[Record]:
        async for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    async def batches(self) -> AsyncIterator[list[Record]]:
        while (fetched := await self._take()) is not None:
            records = await resolved_async(partial(self._session.decode, fetched))
            if records:
                self._session.count(fetched, len(records))
                yield records
            self._session.check_damage(self._state, fetched)

    async def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        refuse_arrow(self._session.deserializers)
        layout = layout_of(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
        while (fetched := await self._take()) is not None:
            batches = fetched.decode_arrow(check_crcs=self._session.check_crcs, layout=layout)
            self._session.count(fetched, sum(batch.num_rows for batch in batches))
            for batch in batches:
                yield batch
            self._session.check_damage(self._state, fetched)

    async def _take(self) -> Fetched | None:
        await asyncio.sleep(0)  # let heartbeats and other tasks run even if a handler never awaits
        while not (self._state.inbox or self._session.ending):
            self._changed.clear()
            await self._changed.wait()
        if self._session.ending:
            return None
        fetched = self._state.inbox.popleft()
        self._session.waits.wake_waiting()
        return fetched


class HandlerTasks:
    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.session = AsyncGroupSession(state)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, handler: AsyncHandler) -> None:
        for claim, state in zip(self.session.claims, self.state.claims.by_partition.values(), strict=True):
            name = f"kohort-claim-{claim.topic}-{claim.partition}"
            self._tasks.append(asyncio.create_task(self._handle(handler, claim, state), name=name))

    async def _handle(self, handler: AsyncHandler, claim: AsyncClaim, state: ClaimState) -> None:
        try:
            await handler.consume_claim(self.session, claim)
        except asyncio.CancelledError as error:
            if not self.state.ending:  # the user's code, not the session, cancelled the handler task
                self.state.fail(state, error)
            raise
        except BaseException as error:  # noqa: BLE001  # raised in the task that runs the group
            self.state.fail(state, error)
        finally:
            self.state.end()

    def is_current(self) -> bool:
        return asyncio.current_task() in {*self._tasks, *self.state.helpers}

    async def join(self, patience_ms: int) -> None:
        """Wait until all claim handlers have returned. After ``patience_ms`` cancel the handlers that still run."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=patience_ms / 1000)
        for task in late:
            task.cancel(f"the session ended {patience_ms} ms ago")
        if late:
            await asyncio.wait(late)


class AsyncHandler(Protocol):
    """Handler of ``AsyncConsumerGroup.run``; derive it from ``AsyncGroupHandler`` to omit ``setup`` and ``cleanup``."""

    async def setup(self, session: AsyncGroupSession) -> None:  # noqa: ARG002
        """Prepare a session before its partitions are handled."""
        return  # subclasses may omit setup(), so it is not abstract

    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle the records of one partition; return when the iteration over ``claim`` ends."""

    async def cleanup(self, session: AsyncGroupSession) -> None:  # noqa: ARG002
        """Clean up a session after all its partitions were handled, before the last commit."""
        return  # subclasses may omit cleanup(), so it is not abstract


class AsyncGroupHandler(AsyncHandler, ABC):
    """Base class for handlers of an ``AsyncConsumerGroup``: only ``consume_claim`` is required."""

    @abstractmethod
    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle the records of one partition in its own task; return when the iteration over ``claim`` ends."""


@documented_as(ConsumerGroup)
class AsyncConsumerGroup:
    """``await AsyncConsumerGroup(bootstrap_servers="localhost:9092", group_id="g").run("t", handler)``.

    Options, sessions, marked offsets, backpressure and errors are those of ``ConsumerGroup``; handler methods are
    coroutines. Guide: docs/guides/consumer-group.md.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        max_processing_time_ms: int = MAX_PROCESSING_TIME_MS,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.config = group_config(config, options, max_processing_time_ms)
        self._machine = group_machine(self.config)
        self._waits = AsyncConsumerWaits(self._machine)
        self._calls = GroupCalls(self._waits, self.config, max_processing_time_ms, nullcontext, HandlerTasks)
        self._runner: asyncio.Task[object] | None = None
        self._idle = asyncio.Event()

    async def run(
        self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: AsyncHandler
    ) -> None:
        checked = checked_topics(topics)
        while not self._calls.stopping:
            await self.consume(checked, handler)

    async def consume(
        self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: AsyncHandler
    ) -> None:
        self._waits.check_usable()
        if self._runner is not None:
            raise UsageError(f"task {self._runner.get_name()!r} already runs the group")
        self._runner = asyncio.current_task()
        self._idle.clear()
        try:
            await self._waits.run(self._calls.consume(topics, handler))
        finally:
            self._runner = None
            self._idle.set()

    async def handle(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        function: Callable[[Any], Any],
        **options: Unpack[HandlerOptions],
    ) -> None:
        refuse_manual_commits(self.config)
        calls = RecordCalls(self._machine, topics, function, options, AsyncClients())
        try:
            await self.run(await run_call_async(calls.prepare(), run_work), RecordTasks(calls))
        finally:
            await run_call_async(calls.close(), run_work)

    def metrics(self) -> MetricsSnapshot:
        with self._waits.guard:
            return consumer_metrics(self._machine, self._waits.now_ms())

    def stop(self) -> None:
        """End the session and let ``run`` return. Handlers and signal handlers on the event loop may call it."""
        self._calls.stop()

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Stop, wait for the session's end, leave the group and close the connections. A second call has no effect.

        Waits up to ``timeout_ms`` milliseconds (default 30 s); while no broker is reachable, it waits at most 2 s for
        responses. Raises ApiTimeout if a handler does not return in this time, and UsageError in a handler.
        """
        if self._waits.closed:
            return
        close_timeout = self._calls.begin_close(timeout_ms, is_runner=asyncio.current_task() is self._runner)
        if self._runner is not None:
            try:
                await asyncio.wait_for(self._idle.wait(), close_timeout.most_ms / 1000)
            except TimeoutError:
                raise handlers_running_error(close_timeout) from None
        self._waits.closing = True
        try:
            await self._waits.run_anywhere(self._calls.finish(close_timeout))
        finally:
            await self._waits.end()

    async def __aenter__(self) -> AsyncConsumerGroup:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        waits: AsyncConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.running is not None and not waits.closed:
            leave_dropped("an AsyncConsumerGroup", self._machine, waits.running, nullcontext())
