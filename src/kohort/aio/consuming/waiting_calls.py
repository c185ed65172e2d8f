"""Calls of a consumer that wait for the cluster: the same in the blocking and in the asyncio face.

Each call is a generator of its waits (``calls.py``), from which ``blocking`` and ``awaiting`` make the methods of the
faces. ``poll`` and the iterations are the faces' own: two generators more would slow them down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from kohort.aio.calls import Call, WaitFor, WaitLast, Waits, WaitUntil, leave_group
from kohort.aio.consuming.immediate_calls import CommitCallbacks
from kohort.client.reading.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp
from kohort.client.requests.close_timeout import CloseTimeout
from kohort.client.user_input import checked_ms, checked_partition, checked_partitions, whole_number
from kohort.errors import ApiTimeout, KohortError, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition

Listed = dict[TopicPartition, OffsetAndTimestamp | None]
COMMIT_TOO_LATE: Final = "the commit was not answered in time"


class ConsumerCalls:
    """The calls of one consumer. A ``timeout_ms`` of None stands for ``default.api.timeout.ms``."""

    def __init__(self, waits: Waits, callbacks: CommitCallbacks) -> None:
        self._waits = waits
        self._machine = waits.machine
        self._callbacks = callbacks
        self._config = waits.machine.config

    # What is read, and where

    def unsubscribe(self) -> Call[None]:
        """Leave the group and read nothing. The listener hears of it as of any revocation.

        Waits for the group's answer as ``close`` does. Raises UsageError for a closed consumer, and what the listener
        raised.
        """
        yield from leave_group(
            self._waits, "the consumer unsubscribed from all topics", self.close_timeout(self._limit(None))
        )

    def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> Call[int]:
        """Return how many partitions ``topic`` has, asked of the cluster if need be.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, ApiError for a topic that the cluster refuses, UsageError for a name that no topic can have.
        """
        found: int | None = yield WaitUntil(lambda: self._machine.partitions(topic), self._limit(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the partitions of {topic!r} were not found in time; is there such a topic?")
        return found

    def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> Call[int]:
        """Return the offset of the next record of ``partition``, looked up first if need be.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, UsageError if ``partition`` is not assigned, NoOffsetForPartition and LogTruncated if
        ``auto.offset.reset`` is none.
        """
        found: int | None = yield WaitUntil(lambda: self._machine.position(partition), self._limit(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the position of {TopicPartition(*partition)} was not found in time")
        return found

    # Offsets

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, *, timeout_ms: int | None = None
    ) -> Call[None]:
        """Commit ``offsets``, or the positions of all assigned partitions, and wait until that is written.

        A bare number is an offset without metadata, as in ``send_offsets_to_transaction``.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``; for earlier commits, too. Raises
        CommitFailed if the group has gone on without this member, ApiTimeout when the time is over, ApiError for what
        the coordinator refuses, UsageError without a ``group.id`` and for anything else than offsets.
        """
        limit_ms = self._limit(timeout_ms)
        with self._waits.guard:
            earlier = self._callbacks.promises()
            promise = self._machine.commit(offsets, self._waits.now_ms() + limit_ms)
        yield from self._timed("commit", WaitFor(promise, limit_ms, COMMIT_TOO_LATE))
        for before in earlier:
            with suppress(KohortError):  # its callback is told
                yield WaitFor(before, limit_ms, "an earlier commit was not answered in time", check=False)
        self._callbacks.tell()

    def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return what the group committed last for each partition; None where nothing.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, ApiError for what the coordinator refuses, UsageError without a ``group.id``.
        """
        limit_ms = self._limit(timeout_ms)
        with self._waits.guard:
            promise = self._machine.committed(partitions, self._waits.now_ms() + limit_ms)
        too_late = "the committed offsets were not read in time"
        found: dict[TopicPartition, OffsetAndMetadata | None] = yield from self._timed(
            "committed", WaitFor(promise, limit_ms, too_late)
        )
        return found

    def _timed(self, what: str, wait: WaitFor) -> Call[Any]:
        began_ms = self._waits.now_ms()
        try:
            return (yield wait)
        finally:
            self._machine.metrics.blocked_ms[what] += self._waits.now_ms() - began_ms

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, int]]:
        """Return the first offset of each partition.

        Waits for ``timeout_ms`` milliseconds, by default ``default.api.timeout.ms``. Raises ApiTimeout when that is
        over, ApiError for what the cluster refuses, UsageError for anything else than partitions.
        """
        return self._offsets_at(partitions, EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, int]]:
        """Return the offset behind the last record of each partition that can be read (``isolation.level``).

        Waits, and raises, as ``beginning_offsets``.
        """
        return self._offsets_at(partitions, LATEST, timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return the first record at or after each time (milliseconds since the epoch); None where there is none.

        Waits, and raises, as ``beginning_offsets``; UsageError for a negative time, too.
        """
        return self._list_offsets(checked_times(timestamps), timeout_ms)

    def _offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: int | None
    ) -> Call[dict[TopicPartition, int]]:
        targets = dict.fromkeys(checked_partitions("offsets", partitions), timestamp)
        listed = yield from self._list_offsets(targets, timeout_ms)
        return {p: found.offset for p, found in listed.items() if found is not None}

    def _list_offsets(self, targets: dict[TopicPartition, int], timeout_ms: int | None) -> Call[Listed]:
        limit_ms = self._limit(timeout_ms)
        with self._waits.guard:
            promise = self._machine.list_offsets(targets, self._waits.now_ms() + limit_ms)
        found: Listed = yield WaitFor(promise, limit_ms, "the offsets were not found in time")
        return found

    # The end

    def close_timeout(self, timeout_ms: int | None) -> CloseTimeout:
        """Return the time that the end of the consumer may take, from now. Raises UsageError for what is no time."""
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        return CloseTimeout(self._machine.engine, self._waits.now_ms(), limit_ms)

    def finish(self, close_timeout: CloseTimeout) -> Call[None]:
        """Commit if auto-commit is on, leave the group and stop fetching. Raises the listener's error."""
        left = self._callbacks.promises()
        if self._config.enable_auto_commit:
            with self._waits.guard:
                left.append(self._machine.commit(None, close_timeout.deadline_ms, before_revocation=True))
        for promise in left:  # what is not committed is read again: that is the promise of auto-commit
            yield WaitLast(promise, close_timeout)
        self._callbacks.tell()
        try:
            yield from leave_group(self._waits, "the consumer is being closed", close_timeout)
        finally:
            with self._waits.guard:
                self._machine.stop_fetching()
            self._waits.kick()

    def _limit(self, timeout_ms: int | None) -> int:
        return self._config.default_api_timeout_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)


def checked_times(timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return times that may be asked for. Raises UsageError for a negative one: these mean something else."""
    found: dict[TopicPartition, int] = {}
    for partition, timestamp in timestamps.items():
        place = checked_partition("offsets_for_times", partition)
        at_ms = found[place] = whole_number(f"offsets_for_times: the time for {place}", timestamp)
        if at_ms < 0:
            raise UsageError(f"offsets_for_times: {at_ms} ms for {place} is negative")
    return found
