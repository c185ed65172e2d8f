"""Consumer groups by handlers, in tasks: what ``consumer_group.py`` is for threads, on the user's own loop.

The task that awaits ``run`` polls, rebalances and feeds; each claimed partition is handled in a task of its own. When a
session is over, handlers have ``max.poll.interval.ms`` to return; then they are cancelled.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Final

from kohort.aio.consuming.async_waits import AsyncConsumerWaits
from kohort.aio.consuming.immediate_calls import topics_of
from kohort.aio.finalizers import say_goodbye
from kohort.aio.group.group_session import MAX_PROCESSING_TIME_MS
from kohort.aio.group.group_tasks import AsyncGroupSession, AsyncHandler
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.requests.close_timeout import Parting
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.errors import ApiTimeout, ConfigError, KohortError, UsageError
from kohort.model import TopicPartition

IDLE_MS: Final = 60_000


class AsyncConsumerGroup:
    """``await AsyncConsumerGroup(bootstrap_servers="localhost:9092", group_id="g").run("t", handler)``.

    Options, sessions, marks and back-pressure as with ``ConsumerGroup``; the handler's methods are coroutines.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        max_processing_time_ms: int = MAX_PROCESSING_TIME_MS,
        **options: Any,
    ) -> None:
        if whole_number("max_processing_time_ms", max_processing_time_ms) < 0:
            raise ConfigError(f"max_processing_time_ms={max_processing_time_ms}: expected at least 0")
        self.config = client_config(ConsumerConfig, config, options)
        self._max_processing_time_ms = max_processing_time_ms
        by_hand = dataclasses.replace(self.config, enable_auto_commit=False)  # only what is marked is committed
        self._machine = ConsumerMachine(by_hand, system_rng())
        self._machine.group  # noqa: B018  # raises without a group.id
        self._waits = AsyncConsumerWaits(self._machine)
        self._session: AsyncGroupSession | None = None
        self._handler: AsyncHandler | None = None
        self._runner: asyncio.Task[object] | None = None
        self._idle = asyncio.Event()
        self._stopping = False

    async def run(self, topics: str | Iterable[str] | re.Pattern[str], handler: AsyncHandler) -> None:
        """Consume session after session, until ``stop`` or cancellation. Raises as ``consume``."""
        wanted = topics_of(topics)
        while not self._stopping:
            await self.consume(wanted, handler)

    async def consume(self, topics: str | Iterable[str] | re.Pattern[str], handler: AsyncHandler) -> None:
        """One session, from joining to its end.

        Raises HandlerFailed for what ``consume_claim`` raised, what ``setup`` and ``cleanup`` raise, and what no retry
        can mend. The member stays in the group until ``close``: call again within ``max.poll.interval.ms``.
        """
        self._waits.check_usable()
        if self._runner is not None:
            raise UsageError(f"the group is run by {self._runner.get_name()!r} already")
        self._runner, self._handler = asyncio.current_task(), handler
        self._idle.clear()
        self._waits.listener = _Listener(self)
        try:
            self._machine.subscribe(topics_of(topics))
            await self._one_session(handler)
        finally:
            try:
                await self.end_session(commit=True, is_last=True)
            finally:
                self._waits.listener = self._runner = None
                self._idle.set()

    async def _one_session(self, handler: AsyncHandler) -> None:
        while not self._stopping:
            with self._waits.polling():
                if await self._waits.until(self._is_assigned, IDLE_MS, has_work=lambda: self._stopping):
                    break
        if self._stopping:
            return
        session = self._session = AsyncGroupSession(self._waits, self.config, self._max_processing_time_ms)
        await handler.setup(session)
        session.start(handler)
        while not session.ending and not self._stopping:
            with self._waits.polling():
                wait_ms = session.wait_ms(self._waits.now_ms(), IDLE_MS)
                await self._waits.until(session.feed, wait_ms, has_work=session.has_work)
        await self.end_session(commit=True, is_last=self._stopping)
        if session.failure is not None:
            raise session.failure

    def _is_assigned(self) -> bool | None:
        """True when the group has agreed and every position is found, or the wait is over."""
        settled = self._machine.group.rebalance.is_settled
        known = all(s.has_position for s in self._machine.subscription.assigned.values())
        return True if self._stopping or (settled and known) else None

    async def end_session(self, *, commit: bool, is_last: bool = False) -> None:
        """Let the handlers return, clean up, commit, and stand where they left off. Nothing if there is no session.

        The commit of the last one does not wait for a broker that cannot be reached.
        """
        session, self._session = self._session, None
        if session is None:
            return
        assert self._handler is not None
        session.end()
        await session.join(self.config.max_poll_interval_ms)
        try:
            await self._handler.cleanup(session)
        finally:
            if commit and self.config.enable_auto_commit:
                try:
                    await (session.commit_last() if is_last else session.commit())
                except KohortError as error:
                    session.not_committed(error)
            session.claimed.put_back()
            self._waits.kick()

    def stop(self) -> None:
        """Let ``run`` return after the session's end. To be called on the loop, by handlers or signal handlers too."""
        self._stopping = True
        if self._session is not None:
            self._session.end()
        self._waits.kick()

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Stop, wait for the session to end, leave the group and end the connections. A second call does nothing.

        Waits for ``timeout_ms``; by default for 30 s, but for answers only 2 s while no broker can be reached.
        """
        if self._waits.closed:
            return
        me, session = asyncio.current_task(), self._session
        if me is self._runner or (session is not None and session.is_mine(me)):
            raise UsageError("close() would wait for its own handler: call stop() in handlers, close() outside of them")
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        parting = Parting(self._machine.engine, self._waits.now_ms(), limit_ms)
        self.stop()
        if self._runner is not None:
            try:
                await asyncio.wait_for(self._idle.wait(), parting.most_ms / 1000)
            except TimeoutError:
                text = f"the session has not ended after {parting.most_ms} ms: its handlers have not returned"
                raise ApiTimeout(text) from None
        self._waits.closing = True
        try:
            with suppress(KohortError):
                await self._waits.leave("the consumer group is being closed", parting)
            self._machine.stop_fetching()
            self._waits.kick()
            await asyncio.sleep(0)  # the engine writes its last requests
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


class _Listener:
    """Ends the session before its partitions go, and before others are added."""

    def __init__(self, group: AsyncConsumerGroup) -> None:
        self._group = group

    async def on_partitions_revoked(self, _partitions: list[TopicPartition]) -> None:
        await self._group.end_session(commit=True)

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            await self._group.end_session(commit=True)

    async def on_partitions_lost(self, _partitions: list[TopicPartition]) -> None:
        await self._group.end_session(commit=False)
