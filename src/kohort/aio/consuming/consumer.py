"""The blocking consumer: Kafka's calls in Python's spelling, on the one I/O thread of the process.

The machine is shared with the I/O thread under one lock. What the user waits for is checked after every step of the
engine; listeners run, and records are decoded, in the caller's thread and outside of the lock.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kohort.aio.calls import Call, blocking
from kohort.aio.consuming.consumer_calls import ConsumerCalls, ImmediateCalls, checked_listener, poll_limits, topics_of
from kohort.aio.consuming.record_reader import RecordReader, layout_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import say_goodbye
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
"""How much ``poll_arrow`` takes at once, of what is buffered."""
T = TypeVar("T")
FOREVER_MS: Final = 3_600_000


class Consumer(ImmediateCalls):
    """``Consumer(bootstrap_servers="localhost:9092", group_id="g")``; options by Kafka's names, with underscores or in
    a mapping.

    One thread at a time may use it, but for ``wakeup``: a call that waits raises Wakeup then. Membership is kept up in
    the background; rebalances take effect, and listeners run, inside ``poll``. Raises ConfigError for an unknown option
    or a value out of bounds.

    Its guide is docs/guides/consumer.md; for Arrow, docs/guides/arrow.md.
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

    # What to read, and offsets

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
        """Read topics, or every topic whose whole name matches a pattern, as a member of the group: a compiled one is
        matched here, a ``SubscriptionPattern`` by the cluster (``group.protocol=consumer``).

        Replaces an earlier subscription; without topics it is ``unsubscribe``. The group assigns partitions while this
        consumer polls, and ``listener`` is told in these polls.

        Raises UsageError without a ``group.id``, after ``assign`` (until ``unsubscribe``), and for anything else than
        topics, a pattern of bytes, or a listener without the methods of one.
        """
        wanted = topics_of(topics)
        checked_listener(listener)
        if not wanted:
            self.unsubscribe()
            return
        with self._use() as machine, self._held:
            machine.subscribe(wanted)
            self._waits.listener = listener

    # Records

    def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        """Return records of the assigned partitions, at most ``max.poll.records``; none if the time passes without any.

        Waits for ``timeout_ms`` milliseconds. Must be called again within ``max.poll.interval.ms``, or the group goes
        on without this member.

        Raises UsageError if there is nothing to poll or another thread or task polls; CorruptRecord where nothing
        precedes the damage; NoOffsetForPartition and LogTruncated if ``auto.offset.reset`` is none; ApiError for what
        the cluster refuses for good; and the first error of a listener or of a callback of ``commit_async``.
        """
        limit_ms, most = poll_limits(self.config, timeout_ms, max_records)
        with self._waits.polling():
            self._commits.tell()
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
        """Return everything buffered as an Arrow table: whole fetched batches, decoded without an object per record.

        Waits for ``timeout_ms`` milliseconds; the table is empty if these pass without records. It holds about
        ``max_bytes`` as they were fetched, and all of it counts as read. The columns, all of them but the headers
        unless ``columns`` names others:

        - ``topic``: string; ``partition``: int32; ``offset``: int64
        - ``timestamp``: timestamp[ms, UTC], null where there is none; ``timestamp_type``: int32, 0 of the producer and
          1 of the broker
        - ``key``, ``value``: binary, null where there is none
        - ``headers``: list<struct<key: string, value: binary>>

        ``schema`` names them with other types: string, large_binary or large_string, a dictionary for the topic, int64
        or another unit for the time. ``json`` is the schema of values that are JSON objects: its fields become columns
        in place of ``value``. With ``json_errors`` a value that is not such an object is a row of nulls, and the
        column ``json_error`` has the reason.

        Raises as ``poll``; UsageError for an unknown column or type; UndecodableValue for a value that is
        not such an object, in the call after the one that returned what comes before it. Needs ``kohort[arrow]``, or
        raises MissingExtra.
        """
        with needs("arrow", "poll_arrow"):
            import pyarrow
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        with self._waits.polling():
            self._commits.tell()
            batches = self._waits.until(lambda: self._reader.batches(layout, most_bytes), limit_ms) or []
        return pyarrow.Table.from_batches(batches, schema=layout.schema)

    def __iter__(self) -> Iterator[Record]:
        """Yield records one by one until the consumer is closed; only these count as read. Raises as ``poll``."""
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.tell()
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
        """Yield Arrow batches as they were fetched, until the consumer is closed; columns, types and options of
        ``poll_arrow``.

        A batch counts as read when it is yielded. Where one fetched piece is so large that it comes in several batches,
        all of them count as read with the first. Raises as ``poll_arrow``.
        """
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.tell()
                batches = self._waits.until(lambda: self._reader.batches(layout, 1), FOREVER_MS)
            yield from batches or ()

    # The end

    def wakeup(self) -> None:
        """Make the call that waits, or the next one that would, raise Wakeup; not ``close``. Safe from any thread."""
        self._waits.wakeup()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and end the connections. A second call does nothing,
        nor does one in a child process that has it by a fork.

        Waits for the answers for ``timeout_ms`` milliseconds; by default for 30 s, but only for 2 s while no broker can
        be reached. What was not committed then is read again, without an error. Raises UsageError if another thread
        uses the consumer, and what the listener raised.
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

    def inherited(self) -> None:
        """Get along after a fork: see ``Closeable``."""
        self._waits.inherited()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Inside

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
            say_goodbye("a Consumer", self._machine, self._driver, self._lock, waits.io.finish)
