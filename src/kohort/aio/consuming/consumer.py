"""The blocking consumer: the methods of Kafka's consumer under Python names. The I/O thread sends its requests.

The caller's thread and the I/O thread share the consumer's state under a lock. Waiting calls check their condition
after each run of the request engine. Listeners run, and records are decoded, in the caller's thread without the lock.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from kohort.aio.calls import Call, blocking
from kohort.aio.consuming.consumer_calls import (
    ConsumerCalls,
    ImmediateCalls,
    checked_listener,
    checked_topics,
    poll_limits,
)
from kohort.aio.consuming.record_reader import layout_of, reader_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import leave_dropped
from kohort.aio.io_thread import io_thread
from kohort.aio.system import system_rng
from kohort.aio.tls.contexts import tls_of
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.membership import RebalanceListener
from kohort.client.user_input import checked_ms, whole_number
from kohort.config.client import ConsumerConfig
from kohort.config.client_options import client_config
from kohort.extras import needs
from kohort.model import Record, SubscriptionPattern

if TYPE_CHECKING:
    import pyarrow

    from kohort.aio.option_types import ConsumerOptions
    from kohort.columns.avro_values.format import AvroFormat

ARROW_BYTES: Final = 64 << 20
"""Default limit of fetched bytes for one ``poll_arrow`` table."""
T = TypeVar("T")
FOREVER_MS: Final = 3_600_000


class Consumer(ImmediateCalls):
    """Kafka consumer, blocking: ``Consumer(bootstrap_servers="localhost:9092", group_id="g")``.

    Options have Kafka's names: keyword arguments with underscores, or a mapping with dots. One thread at a time may use
    the consumer; only ``wakeup``, which makes a waiting call raise Wakeup, is safe in any thread. Heartbeats are sent
    in the background; rebalances take effect, and listeners run, inside ``poll``. Raises ConfigError for an unknown
    option or an invalid value.

    Guides: docs/guides/consumer.md; for Arrow, docs/guides/arrow.md.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[ConsumerOptions]) -> None:
        self._lock = threading.RLock()
        super().__init__(self._lock)
        self.config = client_config(ConsumerConfig, config, options)
        self._machine = ConsumerMachine(self.config, system_rng())
        tls = tls_of(self.config)
        io = io_thread()
        self._driver = io.call_now(lambda: Driver(self._machine.engine, tls=tls, guard=self._lock))
        self._waits: ConsumerWaits = ConsumerWaits(self._machine, self._driver, self._lock, io)
        self._calls = ConsumerCalls(self._waits, self._commits)
        self._reader = reader_of(self._machine, self._lock, self._driver.kick_soon)
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

        The client evaluates a compiled pattern; the coordinator evaluates a ``SubscriptionPattern``
        (``group.protocol=consumer``). Replaces the previous subscription; an empty list of topics means
        ``unsubscribe``. The consumer gets partitions, and calls ``listener``, while it polls.

        Raises UsageError without a ``group.id``, after ``assign`` (until ``unsubscribe``), for a pattern of bytes or
        other values, and for a listener that lacks a method.
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
        """Return up to ``max.poll.records`` records of the assigned partitions.

        Waits up to ``timeout_ms`` milliseconds for records, then returns an empty list. Call it again within
        ``max.poll.interval.ms``, or the group rebalances without this member.

        Raises UsageError without a subscription or assignment, or if another thread or task polls; CorruptRecord if the
        next record is damaged; NoOffsetForPartition or LogTruncated if ``auto.offset.reset`` is none; ApiError for a
        permanent error of a broker; and the first error of a listener or of a ``commit_async`` callback.
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
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
        max_bytes: int = ARROW_BYTES,
    ) -> pyarrow.Table:
        """Return buffered records as an Arrow table, decoded without a Python object for each record.

        Waits up to ``timeout_ms`` milliseconds for records, then returns an empty table. The table has the records of
        complete batches, up to about ``max_bytes`` bytes as fetched. All its records count as consumed. ``columns``
        selects columns; the default is all of them except ``headers``:

        - ``topic``: string; ``partition``: int32; ``offset``: int64
        - ``timestamp``: timestamp[ms, UTC] or null; ``timestamp_type``: int32, 0 if the producer set the timestamp, 1
          if the broker did
        - ``key``, ``value``: binary or null
        - ``headers``: list<struct<key: string, value: binary>>

        ``schema`` selects columns with other types: keys and values as string, large_binary or large_string, the topic
        as a dictionary, timestamps as int64 or in another unit. ``json`` is the schema of values that are JSON objects,
        ``avro`` the format of Avro values (``kohort.AvroFormat``): their fields replace the column ``value``. With
        ``json_errors`` or ``avro_errors`` an invalid value becomes a row of nulls, with the reason in the column
        ``json_error`` or ``avro_error``.

        Raises the errors of ``poll``, UsageError for an unknown column or type, and MissingExtra without
        ``kohort[arrow]``. For an invalid value the call returns the rows before it; the next call raises
        UndecodableValue.
        """
        with needs("arrow", "poll_arrow"):
            import pyarrow  # noqa: F401
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
        with self._waits.polling():
            self._commits.run_due()
            batches = self._waits.until(lambda: self._reader.batches(layout, most_bytes), limit_ms) or []
        return layout.table(batches)

    def __iter__(self) -> Iterator[Record]:
        """Yield records until the consumer is closed. A yielded record counts as consumed.

        Raises the errors of ``poll``.
        """
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
        avro: AvroFormat | None = None,
        avro_errors: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield fetched records as Arrow batches until the consumer is closed.

        The arguments are those of ``poll_arrow``. A batch counts as consumed when it is yielded. A large fetch is split
        into several batches, which all count as consumed when the first of them is yielded. Raises the errors of
        ``poll_arrow``.
        """
        layout = layout_of(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
        while not self._waits.closing:
            with self._waits.polling():
                self._commits.run_due()
                batches = self._waits.until(lambda: self._reader.batches(layout, 1), FOREVER_MS)
            yield from batches or ()

    def wakeup(self) -> None:
        """Interrupt the waiting call, which raises Wakeup. If no call waits, the next waiting call raises it.

        Any thread may call ``wakeup``. ``close`` never raises Wakeup.
        """
        self._waits.wakeup()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and close the connections.

        Waits up to ``timeout_ms`` milliseconds for responses; default 30 s, but 2 s while no broker is reachable.
        A failed commit raises no error: the group reads the uncommitted records again. A second call, and a call in a
        child process after ``fork()``, has no effect. Raises UsageError if another thread uses the consumer, and the
        listener's error.
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
