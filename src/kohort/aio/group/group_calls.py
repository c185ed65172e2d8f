"""Sessions of a consumer group with handlers, for threads and asyncio.

Each call is a generator of wait requests (``calls.py``). ``Workers`` are threads or tasks that handle the partitions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final, Protocol

from kohort.aio.calls import Call, PollUntil, Run, Waits, leave_group
from kohort.aio.consuming.consumer_calls import checked_topics
from kohort.aio.group.session_state import SessionState
from kohort.aio.schema_registry import registry_of
from kohort.aio.system import system_rng
from kohort.client.consumer import CloseTimeout, ConsumerMachine
from kohort.client.reading.deserializing import Deserializers
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig
from kohort.config.client_options import client_config
from kohort.errors import ApiTimeout, ConfigError, KohortError, UsageError
from kohort.model import SubscriptionPattern, TopicPartition

IDLE_MS: Final = 60_000


class Workers(Protocol):
    state: SessionState

    @property
    def session(self) -> Any: ...

    def start(self, handler: Any) -> None: ...

    def join(self, patience_ms: int) -> Any:
        """Wait until all claim handlers have returned. In asyncio, return an awaitable that waits."""

    def is_current(self) -> bool: ...


def group_config(
    config: Mapping[str, Any] | None, options: Mapping[str, Any], max_processing_time_ms: int
) -> ConsumerConfig:
    """Check the options of a consumer group with handlers. Raises ConfigError for an unknown or invalid option."""
    if whole_number("max_processing_time_ms", max_processing_time_ms) < 0:
        raise ConfigError(f"max_processing_time_ms={max_processing_time_ms}: expected 0 or more milliseconds")
    return client_config(ConsumerConfig, config, options)


def group_machine(config: ConsumerConfig) -> ConsumerMachine:
    """Create the consumer of a consumer group with handlers. Raises UsageError without a ``group.id``."""
    # no auto-commit in the consumer: the session commits the marked offsets
    machine = ConsumerMachine(dataclasses.replace(config, enable_auto_commit=False), system_rng())
    machine.group  # noqa: B018  # raises without a group.id
    return machine


class GroupCalls:
    """Runs a group member's sessions. Its rebalance callbacks end a session before the assignment changes."""

    def __init__(
        self,
        waits: Waits,
        config: ConsumerConfig,
        max_processing_time_ms: int,
        new_guard: Callable[[], AbstractContextManager[Any]],
        new_workers: Callable[[SessionState], Workers],
    ) -> None:
        self.stopping = False
        self._waits = waits
        self._machine = waits.machine
        self._config = config
        self._max_processing_time_ms = max_processing_time_ms
        self._new_guard = new_guard
        self._deserializers = Deserializers.of(config, registry_of(config), blocks=waits.blocks)
        self._new_workers = new_workers
        self._workers: Workers | None = None
        self._handler: Any = None

    def consume(self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: Any) -> Call[None]:
        """Join the group, or rejoin it, and run one session."""
        self._handler = handler
        self._waits.listener = self
        try:
            with self._waits.guard:
                self._machine.subscribe(checked_topics(topics))
            yield from self._one_session(handler)
        finally:
            try:
                yield from self.end_session(commit=True, is_last=True)
            finally:
                self._waits.listener = None

    def _one_session(self, handler: Any) -> Call[None]:
        while not self.stopping:
            if (yield PollUntil(self._is_assigned, IDLE_MS, lambda: self.stopping)):
                break
        if self.stopping:
            return
        with self._waits.guard:
            state = SessionState(
                self._waits, self._config, self._max_processing_time_ms, self._new_guard, self._deserializers
            )
            workers = self._workers = self._new_workers(state)
        yield Run(partial(handler.setup, workers.session))
        workers.start(handler)
        while not state.ending and not self.stopping:
            yield PollUntil(state.feed, state.wait_ms(IDLE_MS), state.has_work)
        yield from self.end_session(commit=True, is_last=self.stopping)
        if state.failure is not None:
            raise state.failure

    def _is_assigned(self) -> bool | None:
        """Return True if the group is stable and all positions are known, or if the group is stopping; else None."""
        with self._waits.guard:
            settled = self._machine.group.rebalance.is_stable
            known = all(s.has_position for s in self._machine.subscription.assigned.values())
        return True if self.stopping or (settled and known) else None

    def end_session(self, *, commit: bool, is_last: bool = False) -> Call[None]:
        """End the session: wait for handlers, call ``cleanup``, commit, and move positions back to the marked offsets.

        With ``is_last`` the commit does not wait for unreachable brokers.
        """
        workers, self._workers = self._workers, None
        if workers is None:
            return
        state = workers.state
        state.end()
        yield Run(partial(workers.join, self._config.max_poll_interval_ms))
        try:
            yield Run(partial(self._handler.cleanup, workers.session))
        finally:
            if commit and self._config.enable_auto_commit:
                try:
                    yield from (state.commit_last() if is_last else state.commit(before_revocation=True))
                except KohortError as error:
                    state.warn_of_uncommitted_marks(error)
            with self._waits.guard:
                state.claims.put_back()
            self._waits.kick()

    def stop(self) -> None:
        self.stopping = True
        if self._workers is not None:
            self._workers.state.end()
        self._waits.wake_waiting()

    def begin_close(self, timeout_ms: int | None, *, is_runner: bool) -> CloseTimeout:
        """Stop the group, and return the deadline of ``close()``. Raises UsageError if the caller is a handler."""
        if is_runner or (self._workers is not None and self._workers.is_current()):
            raise UsageError(
                "close() in a handler would wait for this handler: call stop() in handlers, close() elsewhere"
            )
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        close_timeout = CloseTimeout(self._machine.engine, self._waits.now_ms(), limit_ms)
        self.stop()
        return close_timeout

    def finish(self, close_timeout: CloseTimeout) -> Call[None]:
        with suppress(KohortError):
            yield from leave_group(self._waits, "the consumer group is being closed", close_timeout)
        with self._waits.guard:
            self._machine.stop_fetching()
        self._waits.kick()

    def on_partitions_revoked(self, _partitions: list[TopicPartition]) -> Any:
        return self._waits.run_anywhere(self.end_session(commit=True))

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        return self._waits.run_anywhere(self.end_session(commit=True)) if partitions else None

    def on_partitions_lost(self, _partitions: list[TopicPartition]) -> Any:
        return self._waits.run_anywhere(self.end_session(commit=False))


def handlers_running_error(close_timeout: CloseTimeout) -> ApiTimeout:
    return ApiTimeout(f"handlers of the session have not returned after {close_timeout.most_ms} ms")
