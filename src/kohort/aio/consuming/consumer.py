"""The blocking consumer: Kafka's calls in Python's spelling, on the one I/O thread of the process.

The machine is shared with the I/O thread under one lock. What the user waits for is checked after every step of the
engine; listeners run, and records are decoded, in the caller's thread and outside of the lock.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.consuming.immediate_calls import ImmediateCalls, checked_listener, checked_times, topics_of
from kohort.aio.consuming.record_reader import RecordReader, layout_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.driver import Driver
from kohort.aio.finalizers import say_goodbye
from kohort.aio.io_thread import io_thread
from kohort.aio.system import system_rng
from kohort.client.consumer import ConsumerMachine
from kohort.client.group.rebalance import RebalanceListener
from kohort.client.reading.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp
from kohort.client.requests.close_timeout import Parting
from kohort.client.user_input import checked_ms, checked_partitions, whole_number
from kohort.config.client import ConsumerConfig, client_config
from kohort.errors import ApiTimeout, KohortError, UsageError
from kohort.extras import needs
from kohort.model import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kohort.columns.layout import Layout

ARROW_BYTES: Final = 64 << 20
"""How much ``poll_arrow`` takes at once, of what is buffered."""
FOREVER_MS: Final = 3_600_000


class Consumer(ImmediateCalls):
    """``Consumer(bootstrap_servers="localhost:9092", group_id="g")``; options by Kafka's names, with underscores or in
    a mapping.

    One thread at a time may use it, but for ``wakeup``. Membership is kept up in the background; rebalances take
    effect, and listeners run, inside ``poll``.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self._lock = threading.RLock()
        super().__init__(self._lock)
        self.config = client_config(ConsumerConfig, config, options)
        self._machine = ConsumerMachine(self.config, system_rng())
        self._io = io_thread()
        self._driver = self._io.call_now(lambda: Driver(self._machine.engine, guard=self._lock))
        self._waits = ConsumerWaits(self._machine, self._driver, self._lock, self._io)
        self._reader = RecordReader(self._machine, self._lock, self._driver.kick_soon)
        self._closed = False
        self._io.close_at_exit(self)

    # What to read

    def subscribe(
        self, topics: str | Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Read topics, or every topic whose whole name matches a compiled pattern, as a member of the group.

        Replaces an earlier subscription; without topics it is ``unsubscribe``. The group assigns partitions while this
        consumer polls.
        """
        wanted = topics_of(topics)
        checked_listener(listener)
        if not wanted:
            self.unsubscribe()
            return
        with self._use() as machine, self._held:
            machine.subscribe(wanted)
            self._waits.listener = listener

    def unsubscribe(self) -> None:
        """Leave the group and read nothing. The listener hears of it as of any revocation."""
        with self._waits.using():
            self._waits.leave("the consumer unsubscribed from all topics", self._parting(self._timeout(None)))

    def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> int:
        """How many partitions ``topic`` has, asked of the cluster if need be."""
        with self._use() as machine, self._held:
            found = self._waits.wait(lambda: machine.partitions(topic), self._timeout(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the partitions of {topic!r} were not found in time; is there such a topic?")
        return found

    # Records

    def poll(self, timeout_ms: int = 0, *, max_records: int | None = None) -> list[Record]:
        """Records of the assigned partitions, at most ``max.poll.records``; none if the time passes without any.

        Must be called again within ``max.poll.interval.ms``, or the group goes on without this member.
        """
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        most = self.config.max_poll_records if max_records is None else whole_number("max_records", max_records)
        if most < 1:
            raise UsageError(f"poll: max_records={most}, expected at least 1")
        with self._waits.polling():
            self._run_commit_callbacks()
            return self._waits.until(partial(self._reader.records, most), limit_ms) or []

    def poll_arrow(
        self,
        timeout_ms: int = 0,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        max_bytes: int = ARROW_BYTES,
    ) -> pyarrow.Table:
        """Everything buffered, as an Arrow table: whole fetched batches, decoded without an object per record.

        ``columns`` names what to decode (by default all but the headers), or ``schema`` says it with types. ``json`` is
        the schema of values that are JSON objects: its fields become columns instead of ``value``. The table is empty
        if the time passes without records. Raises UndecodableValue for a value that is something else, once what comes
        before it was returned. Needs ``kohort[arrow]``.
        """
        with needs("arrow", "poll_arrow"):
            import pyarrow
        limit_ms, most_bytes = checked_ms("timeout_ms", timeout_ms), whole_number("max_bytes", max_bytes)
        layout = layout_of(schema, columns, json)
        with self._waits.polling():
            self._run_commit_callbacks()
            batches = self._waits.until(lambda: self._arrow(layout, most_bytes), limit_ms) or []
        return pyarrow.Table.from_batches(batches, schema=layout.schema)

    def __iter__(self) -> Iterator[Record]:
        """Records one by one, for as long as the consumer is open. Only those yielded count as read."""
        while not self._closed:
            with self._waits.polling():
                self._run_commit_callbacks()
                fetched = self._waits.until(self._reader.next_fetched, FOREVER_MS)
            if fetched is not None:
                yield from self._reader.one_by_one(fetched, self.config.max_poll_records)

    def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Arrow batches as they were fetched, for as long as the consumer is open; options as of ``poll_arrow``.

        What was yielded counts as read. One fetched piece is mostly one batch; of a piece that decompresses to very
        much, and so comes in several batches, all counts as read with the first.
        """
        layout = layout_of(schema, columns, json)
        while not self._closed:
            with self._waits.polling():
                self._run_commit_callbacks()
                batches = self._waits.until(lambda: self._arrow(layout, 1), FOREVER_MS)
            yield from batches or ()

    def _arrow(self, layout: Layout, max_bytes: int) -> list[pyarrow.RecordBatch] | None:
        taken = self._reader.take_whole(max_bytes)
        return self._reader.arrow(taken, layout) or None if taken else None

    # Positions

    def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """The offset of the next record of ``partition``; waits for it to be found if need be."""
        with self._use() as machine, self._held:
            found = self._waits.wait(lambda: machine.position(partition), self._timeout(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the position of {TopicPartition(*partition)} was not found in time")
        return found

    # Offsets

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit ``offsets``, or the positions of all assigned partitions, and wait until that is written.

        Raises CommitFailed if the group has gone on without this member.
        """
        timeout = self._timeout(timeout_ms)
        with self._use() as machine, self._held:
            earlier = [promise for promise, _ in self._commit_callbacks]
            promise = machine.commit(offsets, self._waits.now_ms() + timeout)
            self._waits.wait_for(promise, timeout, "the commit was not answered in time")
            for before in earlier:
                with suppress(KohortError):  # its callback is told
                    self._waits.wait_for(before, timeout, "an earlier commit was not answered in time", check=False)
            self._run_commit_callbacks()

    def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed last; None where nothing."""
        timeout = self._timeout(timeout_ms)
        with self._use() as machine, self._held:
            promise = machine.committed(partitions, self._waits.now_ms() + timeout)
            return self._waits.wait_for(promise, timeout, "the committed offsets were not read in time")

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._ends(partitions, EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition that can be read."""
        return self._ends(partitions, LATEST, timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds); None where there is none."""
        return self._list(checked_times(timestamps), timeout_ms)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        listed = self._list(dict.fromkeys(checked_partitions("offsets", partitions), timestamp), timeout_ms)
        return {p: found.offset for p, found in listed.items() if found is not None}

    def _list(
        self, targets: dict[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        timeout = self._timeout(timeout_ms)
        with self._use() as machine, self._held:
            promise = machine.list_offsets(targets, self._waits.now_ms() + timeout)
            return self._waits.wait_for(promise, timeout, "the offsets were not found in time")

    # The end

    def wakeup(self) -> None:
        """Make the call that waits, or the next one that would, raise Wakeup; not ``close``. Safe from any thread."""
        self._waits.wakeup()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Commit if auto-commit is on, leave the group, and end the connections. A second call does nothing,
        nor does one in a child process that has it by a fork.

        Waits for the answers for ``timeout_ms``; by default for 30 s, but only for 2 s while no broker can be reached.
        """
        if self._closed or not self._io.is_here:
            return
        parting = self._parting(timeout_ms)
        with self._waits.using():
            self._closed = True
            try:
                self._finish(parting)
            finally:
                self._waits.closed = True
                self._io.forget(self)
                self._io.call(self._driver.close)

    def _finish(self, parting: Parting) -> None:
        machine = self._machine
        left = [promise for promise, _ in self._commit_callbacks]
        if self.config.enable_auto_commit:
            with self._lock:
                left.append(machine.commit(None, parting.deadline_ms))
        for promise in left:  # what is not committed is read again: that is the promise of auto-commit
            self._waits.wait_last(promise, parting)
        self._run_commit_callbacks()
        try:
            self._waits.leave("the consumer is being closed", parting)
        finally:
            with self._lock:
                machine.stop_fetching()
            self._driver.kick_soon()

    def inherited(self) -> None:
        """See ``Closeable``."""
        self._waits.inherited()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Inside

    @contextmanager
    def _use(self) -> Iterator[ConsumerMachine]:
        """The machine, for the one thread that may; the engine looks at what changed afterwards."""
        with self._waits.using():
            yield self._machine
        self._driver.kick_soon()

    def _timeout(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)

    def _parting(self, timeout_ms: int | None) -> Parting:
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        return Parting(self._machine.engine, self._waits.now_ms(), limit_ms)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._io.is_here:
            say_goodbye("a Consumer", self._machine, self._driver, self._lock, self._io.finish)
