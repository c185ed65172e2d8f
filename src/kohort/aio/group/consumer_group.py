"""Consumer groups with handlers in threads, in the style of sarama's ConsumerGroup.

The thread that calls ``run`` polls, rebalances and distributes records; each claimed partition has a handler thread.

    setup(session) ─▶ consume_claim(session, claim), a thread each ─▶ cleanup(session) ─▶ commit ─▶ next session

A session ends when a rebalance changes this member's partitions, when any ``consume_claim`` returns or raises, and on
``stop``. A cooperative rebalance that keeps this member's partitions does not end the session.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from kohort.aio.calls import run_call
from kohort.aio.consuming.consumer_calls import checked_topics
from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import leave_dropped
from kohort.aio.group.group_calls import GroupCalls, group_config, group_machine, handlers_running_error
from kohort.aio.group.record_calls import RecordCalls
from kohort.aio.group.record_threads import BlockingClients, RecordThreads, run_work
from kohort.aio.group.session_state import MAX_PROCESSING_TIME_MS, WAIT_SLICE_S, Session, SessionClaim, SessionState
from kohort.aio.io_thread import EXIT_GRACE_S, io_thread
from kohort.aio.tls.contexts import tls_of
from kohort.client.handling.rules import refuse_manual_commits
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.deserializing import refuse_arrow
from kohort.client.reading.fetched import Fetched
from kohort.errors import UsageError
from kohort.model import Record, SubscriptionPattern

if TYPE_CHECKING:
    import pyarrow

    from kohort.aio.option_types import ConsumerOptions, HandlerOptions
    from kohort.columns.avro_values.format import AvroFormat


log = logging.getLogger(__name__)


class GroupSession(Session):
    """Session of a group member: the time with one assignment, from ``setup`` to ``cleanup``.

    Any thread may call its methods. ``member_id`` and ``generation_id`` identify the member, ``partitions`` are its
    assigned partitions; ``claims`` has a claim for each partition, which yields the records.
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self.claims = tuple(Claim(state, claim) for claim in state.claims.by_partition.values())

    def commit(self, *, timeout_ms: int | None = None) -> None:
        """Commit the marked offsets and wait until the commit is persisted.

        Raises CommitFailed if the group has rebalanced without this member, ApiTimeout after ``timeout_ms``
        milliseconds (default: ``default.api.timeout.ms``), ApiError if the coordinator refuses.
        """
        self._state.waits.run_anywhere(self._state.commit(timeout_ms))


class Claim(SessionClaim):
    """Partition that is claimed by (assigned to) the member; iteration yields its records until the session ends.

    ``topic`` and ``partition`` identify it. ``initial_offset`` is the offset from which the session reads.
    """

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        super().__init__(session, state)
        self._changed = threading.Condition(session.waits.guard)  # type: ignore[arg-type]  # the lock of the waits
        session.wake_by(state, self._changed.notify_all)

    def __iter__(self) -> Iterator[Record]:
        """Yield the partition's records until the session ends. Raises CorruptRecord if the log is damaged."""
        for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    def batches(self) -> Iterator[list[Record]]:
        """Yield a list of records for each fetched batch, until the session ends. Raises the errors of ``__iter__``."""
        while (fetched := self._take()) is not None:
            records = self._session.decode(fetched)
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
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield fetched records as Arrow batches until the session ends.

        The arguments are those of ``Consumer.poll_arrow``. Mark the records as handled with ``mark_offset``. Raises
        CorruptRecord if the log is damaged, UndecodableValue for a value that does not match ``json`` or ``avro``,
        UsageError for an unknown column or type.
        """
        refuse_arrow(self._session.deserializers)
        layout = layout_of(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
        while (fetched := self._take()) is not None:
            batches = fetched.decode_arrow(check_crcs=self._session.check_crcs, layout=layout)
            self._session.count(fetched, sum(batch.num_rows for batch in batches))
            yield from batches
            self._session.check_damage(self._state, fetched)

    def _take(self) -> Fetched | None:
        with self._changed:
            while not (self._state.inbox or self._session.ending):
                self._changed.wait(WAIT_SLICE_S)
            if self._session.ending:
                return None
            fetched = self._state.inbox.popleft()
        self._session.waits.wake_waiting()
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
        except BaseException as error:  # noqa: BLE001  # raised in the thread that runs the group
            self.state.fail(state, error)
        finally:
            self.state.end()

    def is_current(self) -> bool:
        return threading.current_thread() in {*self._threads, *self.state.helpers}

    def join(self, patience_ms: int) -> None:
        """Wait until all claim handlers have returned. After ``patience_ms`` log a warning and continue to wait."""
        now_ms = self.state.waits.now_ms
        deadline_ms = now_ms() + patience_ms
        warned = False
        for thread in self._threads:
            while thread.is_alive():
                thread.join(WAIT_SLICE_S)
                if thread.is_alive() and not warned and now_ms() > deadline_ms:
                    warned = True
                    log.warning(
                        "the session ended %d ms ago, but handler %s has not returned", patience_ms, thread.name
                    )


class Handler(Protocol):
    """Handler of ``ConsumerGroup.run``; derive it from ``GroupHandler`` to omit ``setup`` and ``cleanup``."""

    def setup(self, session: GroupSession) -> None:  # noqa: ARG002
        """Prepare a session before its partitions are handled."""
        return  # subclasses may omit setup(), so it is not abstract

    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle the records of one partition; return when the iteration over ``claim`` ends."""

    def cleanup(self, session: GroupSession) -> None:  # noqa: ARG002
        """Clean up a session after all its partitions were handled, before the last commit."""
        return  # subclasses may omit cleanup(), so it is not abstract


class GroupHandler(Handler, ABC):
    """Base class for handlers of a ``ConsumerGroup``: only ``consume_claim`` is required."""

    @abstractmethod
    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle the records of one partition in its own thread; return when the iteration over ``claim`` ends."""


class ConsumerGroup:
    """``ConsumerGroup(bootstrap_servers="localhost:9092", group_id="g").run("t", handler)``.

    Options are those of ``Consumer``. With ``enable.auto.commit`` (default) the marked offsets are committed every
    ``auto.commit.interval.ms`` and at the end of each session. Fetching of a partition pauses while its handler takes
    no records for ``max_processing_time_ms`` milliseconds. Raises ConfigError for an unknown option or an invalid
    value, and UsageError without a ``group.id``.

    Guide: docs/guides/consumer-group.md.
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
        self._lock = threading.RLock()
        tls = tls_of(self.config)
        io = io_thread()
        self._driver = io.call_now(lambda: Driver(self._machine.engine, tls=tls, guard=self._lock))
        self._waits = ConsumerWaits(self._machine, self._driver, self._lock, io)
        self._calls = GroupCalls(self._waits, self.config, max_processing_time_ms, threading.Lock, HandlerThreads)
        self._runner: threading.Thread | None = None
        self._idle = threading.Event()
        self._idle.set()
        io.close_at_exit(self, timeout_ms=int(EXIT_GRACE_S * 1000))

    def run(self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: Handler) -> None:
        """Run sessions until ``stop``. Raises the errors of ``consume``."""
        checked = checked_topics(topics)
        while not self._calls.stopping:
            self.consume(checked, handler)

    def consume(self, topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern, handler: Handler) -> None:
        """Join the group, or rejoin it, and run one session.

        The member stays in the group afterwards: call ``consume`` again within ``max.poll.interval.ms``.

        Raises HandlerFailed for an error of ``consume_claim``, but errors of ``setup`` and ``cleanup`` unchanged.
        Raises UsageError if the group runs already, and for values that are no topics; and permanent errors of
        ``Consumer.poll``: NoOffsetForPartition, LogTruncated, ApiError.
        """
        with self._waits.using():
            if self._runner is not None:
                raise UsageError("consume() cannot run inside a handler of its own group")
            self._runner = threading.current_thread()
            self._idle.clear()
            try:
                self._waits.run(self._calls.consume(topics, handler))
            finally:
                self._runner = None
                self._idle.set()

    def handle(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        function: Callable[[Any], Any],
        **options: Unpack[HandlerOptions],
    ) -> None:
        """Run sessions that call ``function`` for each record, until ``stop``; a record is marked when it returns.

        A failed record is tried again up to ``attempts`` times, in place or through ``retry_topics``, and then sent to
        a dead-letter topic (``dead_letters=True``). Without one, its last error ends the session. ``batches=True``
        calls ``function`` with lists of records, ``concurrency`` handles different keys of a partition at the same
        time. Options: docs/reference/options.md. Delivery is at least once.

        Raises as ``consume``; ConfigError for an invalid option or combination; ApiError if a retry topic cannot be
        created. The cause of HandlerFailed is the last error of ``function``, or DeadLetterFailed.
        """
        refuse_manual_commits(self.config)
        calls = RecordCalls(self._machine, topics, function, options, BlockingClients())
        try:
            self.run(run_call(calls.prepare(), run_work), RecordThreads(calls))
        finally:
            run_call(calls.close(), run_work)

    def metrics(self) -> MetricsSnapshot:
        """Return the metrics of this member, under Kafka's names (docs/guides/client-metrics.md).

        Sends no request. May be called from any thread, also after ``close``.
        """
        with self._waits.guard:
            return consumer_metrics(self._machine, self._waits.now_ms())

    def stop(self) -> None:
        """End the session and let ``run`` return. Any thread, handlers and signal handlers may call it."""
        self._calls.stop()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Stop, wait for the session's end, leave the group and close the connections.

        Waits up to ``timeout_ms`` milliseconds (default 30 s); while no broker is reachable, it waits at most 2 s for
        responses. A second call, and a call in a child process after ``fork()``, has no effect. Raises ApiTimeout if a
        handler does not return in this time, and UsageError in a handler.
        """
        if not self._waits.is_usable_here:
            return
        close_timeout = self._calls.begin_close(timeout_ms, is_runner=threading.current_thread() is self._runner)
        if not self._idle.wait(close_timeout.most_ms / 1000):
            raise handlers_running_error(close_timeout)
        with self._waits.using():
            self._waits.closing = True
            try:
                self._waits.run(self._calls.finish(close_timeout))
            finally:
                self._waits.end(self)

    def after_fork(self) -> None:
        """Replace the lock in a child process after ``fork()``."""
        self._waits.after_fork()

    def __enter__(self) -> ConsumerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        waits: ConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.is_usable_here:
            leave_dropped("a ConsumerGroup", self._machine, self._driver, self._lock, waits.io.finish)
