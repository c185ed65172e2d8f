"""Consumer groups by handlers, in threads: the style of sarama's ConsumerGroup, over the same machine as ``Consumer``.

The thread that calls ``run`` polls, rebalances and feeds; each claimed partition is handled in a thread of its own.

    setup(session) ─▶ consume_claim(session, claim), a thread each ─▶ cleanup(session) ─▶ commit ─▶ the next

A session ends when the group rebalances partitions away from this member or to it, when the first ``consume_claim``
returns or raises, and on ``stop``. Rebalances that leave this member's partitions alone (cooperative) do not end it.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from kohort.aio.consuming.immediate_calls import topics_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import say_goodbye
from kohort.aio.group.group_session import MAX_PROCESSING_TIME_MS
from kohort.aio.group.group_threads import GroupSession, Handler
from kohort.aio.io_thread import EXIT_GRACE_S, io_thread
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.requests.close_timeout import Parting
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.errors import ApiTimeout, ConfigError, KohortError, UsageError
from kohort.model import TopicPartition

IDLE_MS: Final = 60_000


class ConsumerGroup:
    """``ConsumerGroup(bootstrap_servers="localhost:9092", group_id="g").run("t", handler)``; options as ``Consumer``'s.

    With ``enable.auto.commit`` (the default) what is marked is committed by the clock and at the end of each session.
    ``max_processing_time_ms``: a claim that takes nothing for so long is not fetched for until it does.
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
        self._lock = threading.RLock()
        self._io = io_thread()
        self._driver = self._io.call_now(lambda: Driver(self._machine.engine, guard=self._lock))
        self._waits = ConsumerWaits(self._machine, self._driver, self._lock, self._io)
        self._session: GroupSession | None = None
        self._handler: Handler | None = None
        self._runner: threading.Thread | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._stopping = False
        self._closed = False
        self._io.close_at_exit(self, timeout_ms=int(EXIT_GRACE_S * 1000))

    def run(self, topics: str | Iterable[str] | re.Pattern[str], handler: Handler) -> None:
        """Consume session after session, until ``stop``. Raises as ``consume``."""
        wanted = topics_of(topics)
        while not self._stopping:
            self.consume(wanted, handler)

    def consume(self, topics: str | Iterable[str] | re.Pattern[str], handler: Handler) -> None:
        """One session, from joining to its end.

        Raises HandlerFailed for what ``consume_claim`` raised, what ``setup`` and ``cleanup`` raise, and what no retry
        can mend. The member stays in the group until ``close``: call again within ``max.poll.interval.ms``.
        """
        with self._waits.using():
            if self._runner is not None:
                raise UsageError("consume() was called from within its own handler")
            self._runner, self._handler = threading.current_thread(), handler
            self._idle.clear()
            self._waits.listener = _Listener(self)
            try:
                with self._lock:
                    self._machine.subscribe(topics_of(topics))
                self._one_session(handler)
            finally:
                try:
                    self.end_session(commit=True, is_last=True)
                finally:
                    self._waits.listener = self._runner = None
                    self._idle.set()

    def _one_session(self, handler: Handler) -> None:
        while not self._stopping:
            with self._waits.polling():
                if self._waits.until(self._is_assigned, IDLE_MS, has_work=lambda: self._stopping):
                    break
        if self._stopping:
            return
        with self._lock:
            session = self._session = GroupSession(self._waits, self.config, self._max_processing_time_ms)
        handler.setup(session)
        session.start(handler)
        while not session.ending and not self._stopping:
            with self._waits.polling():
                wait_ms = session.wait_ms(self._waits.now_ms(), IDLE_MS)
                self._waits.until(session.feed, wait_ms, has_work=session.has_work)
        self.end_session(commit=True, is_last=self._stopping)
        if session.failure is not None:
            raise session.failure

    def _is_assigned(self) -> bool | None:
        """True when the group has agreed and every position is found, or the wait is over."""
        with self._lock:
            settled = self._machine.group.rebalance.is_settled
            known = all(s.has_position for s in self._machine.subscription.assigned.values())
        return True if self._stopping or (settled and known) else None

    def end_session(self, *, commit: bool, is_last: bool = False) -> None:
        """Let the handlers return, clean up, commit, and stand where they left off. Nothing if there is no session.

        The commit of the last one does not wait for a broker that cannot be reached.
        """
        session, self._session = self._session, None
        if session is None:
            return
        assert self._handler is not None
        session.end()
        session.join(self.config.max_poll_interval_ms)
        try:
            self._handler.cleanup(session)
        finally:
            if commit and self.config.enable_auto_commit:
                try:
                    if is_last:
                        session.commit_last()
                    else:
                        session.commit()
                except KohortError as error:
                    session.not_committed(error)
            with self._lock:
                session.claimed.put_back()
            self._driver.kick_soon()

    def stop(self) -> None:
        """Let ``run`` return after the session's end. Safe from any thread, handlers and signal handlers included."""
        self._stopping = True
        session = self._session
        if session is not None:
            session.end()
        self._waits.nudge()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Stop, wait for the session to end, leave the group and end the connections. A second call does nothing,
        nor does one in a child process that has it by a fork.

        Waits for ``timeout_ms``; by default for 30 s, but for answers only 2 s while no broker can be reached.
        """
        if self._closed or not self._io.is_here:
            return
        me, session = threading.current_thread(), self._session
        if me is self._runner or (session is not None and session.is_mine(me)):
            raise UsageError("close() would wait for its own handler: call stop() in handlers, close() outside of them")
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        parting = Parting(self._machine.engine, self._waits.now_ms(), limit_ms)
        self.stop()
        if not self._idle.wait(parting.most_ms / 1000):
            raise ApiTimeout(f"the session has not ended after {parting.most_ms} ms: its handlers have not returned")
        with self._waits.using():
            self._closed = True
            try:
                with suppress(KohortError):
                    self._waits.leave("the consumer group is being closed", parting)
                with self._lock:
                    self._machine.stop_fetching()
                self._driver.kick_soon()
            finally:
                self._waits.closed = True
                self._io.forget(self)
                self._io.call(self._driver.close)

    def inherited(self) -> None:
        """See ``Closeable``."""
        self._waits.inherited()

    def __enter__(self) -> ConsumerGroup:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._io.is_here:
            say_goodbye("a ConsumerGroup", self._machine, self._driver, self._lock, self._io.finish)


class _Listener:
    """Ends the session before its partitions go, and before others are added."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group

    def on_partitions_revoked(self, _partitions: list[TopicPartition]) -> None:
        self._group.end_session(commit=True)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._group.end_session(commit=True)

    def on_partitions_lost(self, _partitions: list[TopicPartition]) -> None:
        self._group.end_session(commit=False)
