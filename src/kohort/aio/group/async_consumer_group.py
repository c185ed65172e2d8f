"""Consumer groups by handlers, in tasks: what ``consumer_group.py`` is for threads, on the user's own loop.

The task that awaits ``run`` polls, rebalances and feeds; each claimed partition is handled in a task of its own. When a
session is over, handlers have ``max.poll.interval.ms`` to return; then they are cancelled.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from kohort.aio.calls import documented_as
from kohort.aio.consuming.async_waits import AsyncConsumerWaits
from kohort.aio.consuming.consumer_calls import topics_of
from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.finalizers import say_goodbye
from kohort.aio.group.consumer_group import Claim, ConsumerGroup, GroupSession
from kohort.aio.group.group_calls import GroupCalls, GroupOptions, session_goes_on
from kohort.aio.group.session_state import MAX_PROCESSING_TIME_MS, Session, SessionClaim, SessionState
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.errors import UsageError
from kohort.model import Record, SubscriptionPattern

if TYPE_CHECKING:
    import pyarrow


@documented_as(GroupSession)
class AsyncGroupSession(Session):
    """One membership of one generation, from ``setup`` to ``cleanup``, of a group in tasks.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims, and ``claims``
    these partitions with their records.
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self.claims = tuple(AsyncClaim(state, claim) for claim in state.claims.by_partition.values())

    async def commit(self, *, timeout_ms: int | None = None) -> None:
        await self._state.waits.run_anywhere(self._state.commit(timeout_ms))


@documented_as(Claim)
class AsyncClaim(SessionClaim):
    """One partition during one session. ``async for`` gives its records until the session ends.

    ``topic`` and ``partition`` name it; ``initial_offset`` is where the session began to read it.
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
            records = fetched.decode_records(check_crcs=self._session.check_crcs)
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
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while (fetched := await self._take()) is not None:
            batches = fetched.decode_arrow(check_crcs=self._session.check_crcs, layout=layout)
            self._session.count(fetched, sum(batch.num_rows for batch in batches))
            for batch in batches:
                yield batch
            self._session.check_damage(self._state, fetched)

    async def _take(self) -> Fetched | None:
        await asyncio.sleep(0)  # a handler that never waits must let others run, the heartbeats too
        while not (self._state.inbox or self._session.ending):
            self._changed.clear()
            await self._changed.wait()
        if self._session.ending:
            return None
        fetched = self._state.inbox.popleft()
        self._session.waits.look_again()
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
            if not self.state.ending:  # by somebody else than this session, which would end for no known reason
                self.state.fail(state, error)
            raise
        except BaseException as error:  # noqa: BLE001  # the task that runs the group raises it
            self.state.fail(state, error)
        finally:
            self.state.end()

    def have_me(self) -> bool:
        return asyncio.current_task() in self._tasks

    async def join(self, patience_ms: int) -> None:
        """Wait until every handler has returned; those that have not in time are cancelled."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=patience_ms / 1000)
        for task in late:
            task.cancel(f"the session was over for {patience_ms} ms")
        if late:
            await asyncio.wait(late)


class AsyncHandler(Protocol):
    """What ``AsyncConsumerGroup.run`` takes; ``AsyncGroupHandler`` needs no ``setup`` and ``cleanup``."""

    async def setup(self, session: AsyncGroupSession) -> None:  # noqa: ARG002
        """Prepare for a session, before its claims are handled."""
        return  # a body: subclasses inherit the method, which is not abstract

    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle one partition; return when the claim's iteration ends."""

    async def cleanup(self, session: AsyncGroupSession) -> None:  # noqa: ARG002
        """Finish a session, after every claim was handled and before the last commit."""
        return  # a body: subclasses inherit the method, which is not abstract


class AsyncGroupHandler(ABC):
    """A handler of which only ``consume_claim`` has to be written."""

    async def setup(self, session: AsyncGroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """Prepare for a session, before its claims are handled."""

    async def cleanup(self, session: AsyncGroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """Finish a session, after every claim was handled and before the last commit."""

    @abstractmethod
    async def consume_claim(self, session: AsyncGroupSession, claim: AsyncClaim) -> None:
        """Handle one partition, in a task of its own; return when the claim's iteration ends."""


@documented_as(ConsumerGroup)
class AsyncConsumerGroup:
    """``await AsyncConsumerGroup(bootstrap_servers="localhost:9092", group_id="g").run("t", handler)``.

    Options, sessions, marks, back-pressure and errors as with ``ConsumerGroup``; the handler's methods are coroutines.
    Its guide is docs/guides/consumer-group.md.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        max_processing_time_ms: int = MAX_PROCESSING_TIME_MS,
        **options: Any,
    ) -> None:
        given = GroupOptions.of(config, options, max_processing_time_ms)
        self.config = given.config
        self._machine = given.new_machine()
        self._waits = AsyncConsumerWaits(self._machine)
        self._calls = GroupCalls(self._waits, given, nullcontext, HandlerTasks)
        self._runner: asyncio.Task[object] | None = None
        self._idle = asyncio.Event()

    async def run(
        self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: AsyncHandler
    ) -> None:
        """Consume session after session, until ``stop`` or cancellation. Raises as ``consume``."""
        wanted = topics_of(topics)
        while not self._calls.stopping:
            await self.consume(wanted, handler)

    async def consume(
        self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: AsyncHandler
    ) -> None:
        """Run one session, from joining to its end. The member stays in the group until ``close``: call again within
        ``max.poll.interval.ms``.

        Raises HandlerFailed for what ``consume_claim`` raised; what ``setup`` and ``cleanup`` raise, as it is;
        UsageError if another task runs the group and for anything else than topics, and what no retry can mend, as
        ``Consumer.poll`` does: NoOffsetForPartition, LogTruncated, ApiError.
        """
        self._waits.check_usable()
        if self._runner is not None:
            raise UsageError(f"the group is run by {self._runner.get_name()!r} already")
        self._runner = asyncio.current_task()
        self._idle.clear()
        try:
            await self._waits.run(self._calls.consume(topics, handler))
        finally:
            self._runner = None
            self._idle.set()

    def metrics(self) -> MetricsSnapshot:
        with self._waits.guard:
            return consumer_metrics(self._machine, self._waits.now_ms())

    def stop(self) -> None:
        """Let ``run`` return after the session's end. To be called on the loop, by handlers or signal handlers too."""
        self._calls.stop()

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Stop, wait for the session to end, leave the group and end the connections. A second call does nothing.

        Waits for ``timeout_ms`` milliseconds; by default for 30 s, but for answers only 2 s while no broker can be
        reached. Raises ApiTimeout if the handlers have not returned then, and UsageError in a handler.
        """
        if self._waits.closed:
            return
        close_timeout = self._calls.begin_close(timeout_ms, is_runner=asyncio.current_task() is self._runner)
        if self._runner is not None:
            try:
                await asyncio.wait_for(self._idle.wait(), close_timeout.most_ms / 1000)
            except TimeoutError:
                raise session_goes_on(close_timeout) from None
        self._waits.closing = True
        try:
            await self._waits.run_anywhere(self._calls.finish(close_timeout))
        finally:
            await self._waits.end()

    async def __aenter__(self) -> AsyncConsumerGroup:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        waits: AsyncConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.running is not None and not waits.closed:
            say_goodbye("an AsyncConsumerGroup", self._machine, waits.running, nullcontext())
