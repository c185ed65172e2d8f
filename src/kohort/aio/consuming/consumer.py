"""The blocking consumer: Kafka's calls with Python's names, on the I/O thread of the process.

The consumer shares its state with the I/O thread under a lock. Waiting calls check their condition each time that the
request engine has run. Listeners run, and records are decoded, in the caller's thread without the lock.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kohort.aio.calls import Call, blocking
from kohort.aio.consuming.consumer_calls import (
    ConsumerCalls,
    ImmediateCalls,
    checked_listener,
    checked_topics,
    poll_limits,
)
from kohort.aio.consuming.record_reader import RecordReader, layout_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import leave_dropped
from kohort.aio.io_thread import io_thread
from kohort.aio.system import system_rng
from kohort.aio.tls.contexts import tls_of
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.membership import RebalanceListener
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.extras import needs
from kohort.model import Record, SubscriptionPattern

if TYPE_CHECKING:
    import pyarrow

ARROW_BYTES: Final = 64 << 20
"""Maximum size of a ``poll_arrow`` table, in bytes as fetched."""
T = TypeVar("T")
FOREVER_MS: Final = 3_600_000


class Consumer(ImmediateCalls):
    """Kafka consumer, blocking: ``Consumer(bootstrap_servers="localhost:9092", group_id="g")``.

    Options have Kafka's names, with underscores, or with dots in a mapping. One thread at a time may use the consumer,
    except ``wakeup``, which makes a waiting call raise Wakeup. Heartbeats are sent in the background; rebalances take
    effect, and listeners run, inside ``poll``. Raises ConfigError for an unknown option or an invalid value.

    Guides: docs/guides/consumer.md; for Arrow, docs/guides/arrow.md.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self._lock = threading.RLock()
        super().__init__(self._lock)
        self.config = client_config(ConsumerConfig, config, options)
        self._machine = ConsumerMachine(self.config, system_rng())
        tls = tls_of(self.config)
        io = io_thread()
        self._driver = io.call_now(lambda: Driver(self._machine.engine, tls=tls, guard=self._lock))
        self._waits: ConsumerWaits = ConsumerWaits(self._machine, self._driver, self._lock, io)
        self._calls = ConsumerCalls(self._waits, self._commits)
        self._reader = RecordReader(self._machine, self._lock, self._driver.kick_soon)
        io.close_at_exit(self)

    unsubscribe = blocking(ConsumerCalls.unsubscribe)
    partitions_for = blocking(ConsumerCalls.partitions_for)
    position = blocking(ConsumerCalls.position)
    commit = blocking(ConsumerCalls.commit)
    committed = blocking(ConsumerCalls.committed)
    beginning_offsets = blocking(ConsumerCalls.beginning_offsets)
    end_offsets = blocking(ConsumerCalls.end_offsets)
    offsets_for_times = blocking(ConsumerCalls.offsets_for_times)

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics whose whole name matches a pattern, as a member of the group.

        The client matches a compiled pattern, the cluster a ``SubscriptionPattern`` (``group.protocol=consumer``).
        Replaces an earlier subscription; without topics it is ``unsubscribe``. The group assigns partitions while this
        consumer polls; the polls call ``listener``.

        Raises UsageError without a ``group.id``, after ``assign`` (until ``unsubscribe``), for a pattern of bytes or
        other values, and for a listener with missing methods.
        """
        topics_or_pattern = checked_topics(topics)
        checked_listener(listener)
        if not topics_or_pattern:
            self.unsubscribe()
            return
        with self._use() as machine, self._held:
            machine.subscribe(topics_or_pattern)
            self._waits.listener = listener

    def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        """Return up to ``max.poll.records`` records of the assigned partitions; an empty list after ``timeout_ms`` ms.

        Call it again within ``max.poll.interval.ms``, or the group rebalances without this member.

        Raises UsageError without a subscription or assignment, or if another thread or task polls; CorruptRecord if the
        next record is damaged; NoOffsetForPartition and LogTruncated if ``auto.offset.reset`` is none; ApiError if the
        cluster refuses permanently; and the first error of a listener or of a ``commit_async`` callback.
        """
        limit_ms, most = poll_limits(self.config, timeout_ms, max_records)
        with self._waits.polling():
            self._commits.run_due()
            return self._waits.until(partial(self._reader.records, most), limit_ms) or []

    def poll_arrow(
        self,
        timeout_ms: int = 0,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
        max_bytes: int = ARROW_BYTES,
    ) -> pyarrow.Table:
        """Return all buffered records as an Arrow table, decoded without an object per record.

        Waits up to ``timeout_ms`` milliseconds for data; then the table is empty. It has whole fetched batches of about
        ``max_bytes`` bytes as fetched, and all its records count as consumed. Columns (all but headers, or those in
        ``columns``):

        - ``topic``: string; ``partition``: int32; ``offset``: int64
        - ``timestamp``: timestamp[ms, UTC] or null; ``timestamp_type``: int32, 0 of the producer and 1 of the broker
        - ``key``, ``value``: binary or null
        - ``headers``: list<struct<key: string, value: binary>>

        ``schema`` names columns with other types: string, large_binary or large_string, a dictionary for the topic,
        int64 or another unit for the time. ``json`` is the schema of values that are JSON objects: its fields become
        columns in place of ``value``. With ``json_errors`` an invalid value is a row of nulls, with the reason in the
        column ``json_error``.

        Raises as ``poll``; UsageError for an unknown column or type; UndecodableValue for an invalid JSON value, after
        a call that returns the records before it. Needs ``kohort[arrow]``, else raises MissingExtra.
        """
        with needs("arrow", "poll_arrow"):
            import pyarrow
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        with self._waits.polling():
            self._commits.run_due()
            batches = self._waits.until(lambda: self._reader.batches(layout, most_bytes), limit_ms) or []
        return pyarrow.Table.from_batches(batches, schema=layout.schema)

    def __iter__(self) -> Iterator[Record]:
        """Yield each record, which then counts as consumed, until the consumer is closed. Raises as ``poll``."""
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.run_due()
                fetched = self._waits.until(self._reader.next_fetched, FOREVER_MS)
            if fetched is not None:
                yield from self._reader.one_by_one(fetched, self.config.max_poll_records)

    def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield fetched Arrow batches until the consumer is closed; columns, types and options as in ``poll_arrow``.

        A batch counts as consumed when it is yielded. Large fetched data becomes several batches, which all count as
        consumed with the first. Raises as ``poll_arrow``.
        """
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.run_due()
                batches = self._waits.until(lambda: self._reader.batches(layout, 1), FOREVER_MS)
            yield from batches or ()

    def wakeup(self) -> None:
        """Make the waiting call, or the next call that waits, raise Wakeup, except ``close``. Safe from any thread."""
        self._waits.wakeup()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and close the connections.

        Waits up to ``timeout_ms`` milliseconds for responses; default 30 s, but 2 s while no broker is reachable.
        Uncommitted records are read again later, without an error. A second call, and a call in a child process after
        ``fork()``, has no effect. Raises UsageError if another thread uses the consumer, and the listener's error.
        """
        if not self._waits.is_usable_here:
            return
        close_timeout = self._calls.close_timeout(timeout_ms)
        with self._waits.using():
            self._waits.closing = True
            try:
                self._waits.run(self._calls.finish(close_timeout))
            finally:
                self._waits.end(self)

    def after_fork(self) -> None:
        """Replace the lock in a child process after ``fork()``."""
        self._waits.after_fork()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        return self._waits.run(call)

    @contextmanager
    def _use(self) -> Iterator[ConsumerMachine]:
        with self._waits.using():
            yield self._machine
        self._driver.kick_soon()

    def __del__(self) -> None:
        waits: ConsumerWaits | None = getattr(self, "_waits", None)
        if waits is not None and waits.is_usable_here:
            leave_dropped("a Consumer", self._machine, self._driver, self._lock, waits.io.finish)
