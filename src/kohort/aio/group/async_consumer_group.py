"""Consumer groups by handlers, in tasks: what ``consumer_group.py`` is for threads, on the user's own loop.

The task that awaits ``run`` polls, rebalances and feeds; each claimed partition is handled in a task of its own. When a
session is over, handlers have ``max.poll.interval.ms`` to return; then they are cancelled.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any

from kohort.aio.calls import documented_as
from kohort.aio.consuming.async_waits import AsyncConsumerWaits
from kohort.aio.consuming.immediate_calls import topics_of
from kohort.aio.finalizers import say_goodbye
from kohort.aio.group.consumer_group import ConsumerGroup
from kohort.aio.group.group_calls import GroupCalls, GroupOptions, session_goes_on
from kohort.aio.group.group_tasks import AsyncHandler, HandlerTasks
from kohort.aio.group.session_state import MAX_PROCESSING_TIME_MS
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.errors import UsageError
from kohort.model import SubscriptionPattern


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
