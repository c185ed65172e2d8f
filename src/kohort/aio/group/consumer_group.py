"""Consumer groups by handlers, in threads: the style of sarama's ConsumerGroup, over the same machine as ``Consumer``.

The thread that calls ``run`` polls, rebalances and feeds; each claimed partition is handled in a thread of its own.

    setup(session) ─▶ consume_claim(session, claim), a thread each ─▶ cleanup(session) ─▶ commit ─▶ the next

A session ends when the group rebalances partitions away from this member or to it, when the first ``consume_claim``
returns or raises, and on ``stop``. Rebalances that leave this member's partitions alone (cooperative) do not end it.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.aio.consuming.consumer_calls import topics_of
from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import say_goodbye
from kohort.aio.group.group_calls import GroupCalls, GroupOptions, session_goes_on
from kohort.aio.group.session_state import MAX_PROCESSING_TIME_MS, Session, SessionClaim, SessionState
from kohort.aio.io_thread import EXIT_GRACE_S, io_thread
from kohort.aio.tls.contexts import tls_of
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.errors import UsageError
from kohort.model import Record, SubscriptionPattern

if TYPE_CHECKING:
    import pyarrow


LOOK_UP_S: Final = 1.0
log = logging.getLogger(__name__)


class GroupSession(Session):
    """One membership of one generation, from ``setup`` to ``cleanup``. Its methods may be called by any thread.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims, and ``claims``
    these partitions with their records.
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self.claims = tuple(Claim(state, claim) for claim in state.claims.by_partition.values())

    def commit(self, *, timeout_ms: int | None = None) -> None:
        """Commit what is marked, and wait until that is written: for ``timeout_ms`` milliseconds, by default
        ``default.api.timeout.ms``.

        Raises CommitFailed if the group has gone on without this member, ApiTimeout when the time is over, ApiError for
        what the coordinator refuses.
        """
        self._state.waits.run_anywhere(self._state.commit(timeout_ms))


class Claim(SessionClaim):
    """One partition during one session. Iterating gives its records until the session ends.

    ``topic`` and ``partition`` name it; ``initial_offset`` is where the session began to read it.
    """

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        super().__init__(session, state)
        self._changed = threading.Condition(session.waits.guard)  # type: ignore[arg-type]  # the lock of these waits
        session.wake_by(state, self._changed.notify_all)

    def __iter__(self) -> Iterator[Record]:
        """Yield records one by one, until the session ends. Raises CorruptRecord where the log is damaged."""
        for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    def batches(self) -> Iterator[list[Record]]:
        """Yield records as they were fetched, in lists, until the session ends. Raises as iterating does."""
        while (fetched := self._take()) is not None:
            records = fetched.decode_records(check_crcs=self._session.check_crcs)
            if records:
                self._session.count(fetched, len(records))
                yield records
            self._session.check_damage(self._state, fetched)

    def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield Arrow batches as they were fetched, until the session ends; columns, types and options of
        ``Consumer.poll_arrow``. Mark them with ``mark_offset``.

        Raises CorruptRecord where the log is damaged, UndecodableValue for a value that is not as ``json`` says,
        UsageError for an unknown column or type.
        """
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while (fetched := self._take()) is not None:
            batches = fetched.decode_arrow(check_crcs=self._session.check_crcs, layout=layout)
            self._session.count(fetched, sum(batch.num_rows for batch in batches))
            yield from batches
            self._session.check_damage(self._state, fetched)

    def _take(self) -> Fetched | None:
        with self._changed:
            while not (self._state.inbox or self._session.ending):
                self._changed.wait(LOOK_UP_S)
            if self._session.ending:
                return None
            fetched = self._state.inbox.popleft()
        self._session.waits.look_again()
        return fetched


class HandlerThreads:
    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.session = GroupSession(state)
        self._threads: list[threading.Thread] = []

    def start(self, handler: Handler) -> None:
        for claim, state in zip(self.session.claims, self.state.claims.by_partition.values(), strict=True):
            name = f"kohort-claim-{claim.topic}-{claim.partition}"
            thread = threading.Thread(target=self._handle, args=(handler, claim, state), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _handle(self, handler: Handler, claim: Claim, state: ClaimState) -> None:
        try:
            handler.consume_claim(self.session, claim)
        except BaseException as error:  # noqa: BLE001  # the thread that runs the group raises it
            self.state.fail(state, error)
        finally:
            self.state.end()

    def have_me(self) -> bool:
        return threading.current_thread() in self._threads

    def join(self, patience_ms: int) -> None:
        """Wait until every handler has returned, and say who makes the group wait for too long."""
        now_ms = self.state.waits.now_ms
        deadline_ms = now_ms() + patience_ms
        warned = False
        for thread in self._threads:
            while thread.is_alive():
                thread.join(LOOK_UP_S)
                if thread.is_alive() and not warned and now_ms() > deadline_ms:
                    warned = True
                    log.warning("the session is over for %d ms, but %s has not returned", patience_ms, thread.name)


class Handler(Protocol):
    """What ``ConsumerGroup.run`` takes; ``GroupHandler`` needs no ``setup`` and ``cleanup``."""

    def setup(self, session: GroupSession) -> None:  # noqa: ARG002
        """Prepare for a session, before its claims are handled."""
        return  # a body: subclasses inherit the method, which is not abstract

    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle one partition; return when the claim's iteration ends."""

    def cleanup(self, session: GroupSession) -> None:  # noqa: ARG002
        """Finish a session, after every claim was handled and before the last commit."""
        return  # a body: subclasses inherit the method, which is not abstract


class GroupHandler(ABC):
    """A handler of which only ``consume_claim`` has to be written."""

    def setup(self, session: GroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """Prepare for a session in the thread of ``run``, before its claims are handled."""

    def cleanup(self, session: GroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """Finish a session in the thread of ``run``, after every claim was handled and before the last commit."""

    @abstractmethod
    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle one partition, in a thread of its own; return when the claim's iteration ends."""


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
