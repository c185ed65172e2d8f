"""What a consumer has to wait for the cluster to answer: the same in the blocking and in the asyncio face.

Each call is a generator of its waits (``calls.py``); the faces add signatures and what their users read. ``poll`` and
the iterations are not here: they are the faces' own, for what two generators more would cost them.
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


class WaitingCalls:
    """The calls of one consumer. A ``timeout_ms`` of None stands for ``default.api.timeout.ms``."""

    def __init__(self, waits: Waits, callbacks: CommitCallbacks) -> None:
        self._waits = waits
        self._machine = waits.machine
        self._callbacks = callbacks
        self._config = waits.machine.config

    # What is read, and where

    def unsubscribe(self) -> Call[None]:
        yield from leave_group(
            self._waits, "the consumer unsubscribed from all topics", self.close_timeout(self._limit(None))
        )

    def partitions_for(self, topic: str, timeout_ms: int | None) -> Call[int]:
        found: int | None = yield WaitUntil(lambda: self._machine.partitions(topic), self._limit(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the partitions of {topic!r} were not found in time; is there such a topic?")
        return found

    def position(self, partition: TopicPartition, timeout_ms: int | None) -> Call[int]:
        found: int | None = yield WaitUntil(lambda: self._machine.position(partition), self._limit(timeout_ms))
        if found is None:
            raise ApiTimeout(f"the position of {TopicPartition(*partition)} was not found in time")
        return found

    # Offsets

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None, timeout_ms: int | None
    ) -> Call[None]:
        """Commit, and wait for the commits that were sent before without waiting."""
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
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> Call[dict[TopicPartition, OffsetAndMetadata | None]]:
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
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> Call[dict[TopicPartition, int]]:
        return self._offsets_at(partitions, EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> Call[dict[TopicPartition, int]]:
        return self._offsets_at(partitions, LATEST, timeout_ms)

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None) -> Call[Listed]:
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
