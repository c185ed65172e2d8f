"""Consumer groups by handlers, in threads: the style of sarama's ConsumerGroup, over the same machine as ``Consumer``.

The thread that calls ``run`` polls, rebalances and feeds; each claimed partition is handled in a thread of its own.

    setup(session) ─▶ consume_claim(session, claim), a thread each ─▶ cleanup(session) ─▶ commit ─▶ the next

A session ends when the group rebalances partitions away from this member or to it, when the first ``consume_claim``
returns or raises, and on ``stop``. Rebalances that leave this member's partitions alone (cooperative) do not end it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from kohort.aio.consuming.immediate_calls import topics_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import say_goodbye
from kohort.aio.group.group_calls import GroupCalls, GroupOptions, session_goes_on
from kohort.aio.group.group_threads import Handler, HandlerThreads
from kohort.aio.group.session_state import MAX_PROCESSING_TIME_MS
from kohort.aio.io_thread import EXIT_GRACE_S, io_thread
from kohort.aio.tls.contexts import tls_of
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.errors import UsageError
from kohort.model import SubscriptionPattern


class ConsumerGroup:
    """``ConsumerGroup(bootstrap_servers="localhost:9092", group_id="g").run("t", handler)``; options as ``Consumer``'s.

    With ``enable.auto.commit`` (the default) what is marked is committed by the clock and at the end of each session.
    ``max_processing_time_ms``: a claim that takes nothing for so many milliseconds is not fetched for until it does.
    Raises ConfigError for an unknown option or a value out of bounds, and UsageError without a ``group.id``.

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
        self._lock = threading.RLock()
        tls = tls_of(self.config)
        io = io_thread()
        self._driver = io.call_now(lambda: Driver(self._machine.engine, tls=tls, guard=self._lock))
        self._waits = ConsumerWaits(self._machine, self._driver, self._lock, io)
        self._calls = GroupCalls(self._waits, given, threading.Lock, HandlerThreads)
        self._runner: threading.Thread | None = None
        self._idle = threading.Event()
        self._idle.set()
        io.close_at_exit(self, timeout_ms=int(EXIT_GRACE_S * 1000))

    def run(self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: Handler) -> None:
        """Consume session after session, until ``stop``. Raises as ``consume``."""
        wanted = topics_of(topics)
        while not self._calls.stopping:
            self.consume(wanted, handler)

    def consume(self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: Handler) -> None:
        """Run one session, from joining to its end. The member stays in the group until ``close``: call again within
        ``max.poll.interval.ms``.

        Raises HandlerFailed for what ``consume_claim`` raised; what ``setup`` and ``cleanup`` raise, as it is;
        UsageError in a handler and for anything else than topics, and what no retry can mend, as ``Consumer.poll``
        does: NoOffsetForPartition, LogTruncated, ApiError.
        """
        with self._waits.using():
            if self._runner is not None:
                raise UsageError("consume() was called from within its own handler")
            self._runner = threading.current_thread()
            self._idle.clear()
            try:
                self._waits.run(self._calls.consume(topics, handler))
            finally:
                self._runner = None
                self._idle.set()

    def metrics(self) -> MetricsSnapshot:
        """Return what this group's member counts of itself, by Kafka's names (docs/guides/client-metrics.md).

        It takes no request, and may be called from any thread, also after ``close``.
        """
        with self._waits.guard:
            return consumer_metrics(self._machine, self._waits.now_ms())

    def stop(self) -> None:
        """Let ``run`` return after the session's end. Safe from any thread, handlers and signal handlers included."""
        self._calls.stop()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Stop, wait for the session to end, leave the group and end the connections. A second call does nothing,
        nor does one in a child process that has it by a fork.

        Waits for ``timeout_ms`` milliseconds; by default for 30 s, but for answers only 2 s while no broker can be
        reached. Raises ApiTimeout if the handlers have not returned then, and UsageError in a handler.
        """
        if not self._waits.is_usable_here:
            return
        close_timeout = self._calls.begin_close(timeout_ms, is_runner=threading.current_thread() is self._runner)
        if not self._idle.wait(close_timeout.most_ms / 1000):
            raise session_goes_on(close_timeout)
        with self._waits.using():
            self._waits.closing = True
            try:
                self._waits.run(self._calls.finish(close_timeout))
            finally:
                self._waits.end(self)

    def inherited(self) -> None:
        """Get along after a fork: see ``Closeable``."""
        self._waits.inherited()

    def __enter__(self) -> ConsumerGroup:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        waits: ConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.is_usable_here:
            say_goodbye("a ConsumerGroup", self._machine, self._driver, self._lock, waits.io.finish)
