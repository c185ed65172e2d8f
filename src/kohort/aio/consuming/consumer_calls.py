"""Consumer methods that the blocking and the asyncio API share: immediate methods, and calls that wait for brokers.

Each waiting call is a generator of wait requests (``calls.py``); ``blocking`` and ``awaiting`` make it a method.
Each API has its own ``poll`` and iterators: two more generators would slow them down.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from kohort.aio.calls import Call, WaitFor, WaitLast, Waits, WaitUntil, leave_group
from kohort.aio.other_names import OF_CONSUMERS, OtherNames
from kohort.client.consumer import CloseTimeout, ConsumerMachine
from kohort.client.group.commits import Offsets
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import consumer_metrics
from kohort.client.reading.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp
from kohort.client.reading.subscription import Position
from kohort.client.requests.source import Promise
from kohort.client.user_input import checked_ms, checked_partition, checked_partitions, whole_number
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiTimeout, KohortError, UsageError
from kohort.model import GroupMetadata, OffsetAndMetadata, SubscriptionPattern, TopicPartition

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KohortError | None], None]


class CommitCallbacks(deque[tuple[Promise[Offsets], CommitCallback | None]]):
    """Pending commits of ``commit_async`` in the order of the calls, with their callbacks."""

    def promises(self) -> list[Promise[Offsets]]:
        return [promise for promise, _ in self]

    def run_due(self) -> None:
        """Run the callbacks of finished ``commit_async`` calls in this thread. Raises errors of callbacks."""
        while self and self[0][0].done:
            promise, callback = self.popleft()
            if callback is not None:
                callback({} if promise.error is not None else promise.result(), promise.error)


LISTENER_METHODS: Final = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


class ImmediateCalls(OtherNames, ABC):
    """Consumer methods that do not wait. All raise UsageError for a closed consumer.

    Methods enter the lock ``_held`` separately from ``_use``: if ``_use`` entered it, an interrupt (Ctrl-C) there could
    leave the lock taken until the interrupt's traceback is freed.
    """

    other_names = OF_CONSUMERS
    _machine: ConsumerMachine
    _waits: Waits

    def __init__(self, held: AbstractContextManager[Any]) -> None:
        self._held = held
        self._commits = CommitCallbacks()

    @abstractmethod
    def _use(self) -> AbstractContextManager[ConsumerMachine]:
        """Give one caller exclusive access to the consumer's state. Wake the request engine afterwards."""

    def metrics(self) -> MetricsSnapshot:
        """Return the metrics of this consumer, under Kafka's names (docs/guides/client-metrics.md).

        Sends no request. May be called from any thread, also after ``close``.
        """
        with self._waits.guard:
            return consumer_metrics(self._machine, self._waits.now_ms())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions without group management. Replaces the previous ``assign``.

        A pair (topic, number) is a partition, too. As in Java, a partition may not exist yet: polls return no records
        of it, and a warning is logged.

        Raises UsageError after ``subscribe`` (until ``unsubscribe``), and for values that are no partition.
        """
        with self._use() as machine, self._held:
            machine.assign(partitions)

    def group_metadata(self) -> GroupMetadata:
        """Return group id, member id and generation of this member, for transactions and logs (KIP-447).

        With the group protocol consumer (KIP-848) ``generation_id`` is the member epoch. Before the first assignment it
        is -1, and ``member_id`` is empty. After the coordinator has removed the member, the last values are returned
        until the next assignment, and coordinators reject them. Raises UsageError without a ``group.id``.
        """
        with self._use() as machine, self._held:
            return machine.group_metadata()

    def enforce_rebalance(self, reason: str = "") -> None:
        """Rejoin the group at the next poll, for example after a change of data that the assignor uses.

        The coordinator logs ``reason``.

        Raises UsageError without a subscription, and with ``group.protocol=consumer``, where members cannot request a
        rebalance.
        """
        with self._use() as machine, self._held:
            machine.enforce_rebalance(reason)

    def subscription(self) -> set[str]:
        """Return the subscribed topics; for a pattern, the known topics that match it."""
        with self._use() as machine, self._held:
            return set(machine.subscription.topics) if machine.subscription.mode.is_group else set()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned to this consumer."""
        with self._use() as machine, self._held:
            return set(machine.subscription.assigned)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Set the position: the next poll reads ``partition`` from ``offset``.

        The client validates the leader epoch of an OffsetAndMetadata (KIP-320). Raises UsageError if ``partition`` is
        not assigned, and for a negative offset.
        """
        at = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        place = checked_partition("seek", partition)
        position = Position(whole_number(f"seek: the offset of {place}", at.offset), at.leader_epoch)
        with self._use() as machine, self._held:
            machine.subscription.seek(place, position)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Set the positions of ``partitions`` (default: all assigned partitions) to their log start offsets.

        Raises UsageError for a partition that is not assigned.
        """
        with self._use() as machine, self._held:
            machine.subscription.seek_to(partitions, "earliest")

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Set the positions of ``partitions`` (default: all assigned partitions) to their end offsets.

        Raises UsageError for a partition that is not assigned.
        """
        with self._use() as machine, self._held:
            machine.subscription.seek_to(partitions, "latest")

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of these partitions until ``resume``.

        Their buffered records are kept, and the consumer remains a member of the group. Raises UsageError for a
        partition that is not assigned.
        """
        with self._use() as machine, self._held:
            machine.subscription.set_paused(partitions, paused=True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume paused partitions. Raises UsageError for a partition that is not assigned."""
        with self._use() as machine, self._held:
            machine.subscription.set_paused(partitions, paused=False)

    def paused(self) -> set[TopicPartition]:
        """Return the assigned partitions that are paused."""
        with self._use() as machine, self._held:
            return {p for p, state in machine.subscription.assigned.items() if state.paused}

    def lag(self) -> dict[TopicPartition, int]:
        """Return the lag of each assigned partition, in offsets, at the time of its last fetch.

        Omits partitions that have not been fetched yet.
        """
        with self._use() as machine, self._held:
            return machine.lag()

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting and without retries; ``callback(offsets, error)`` runs in a later poll or commit.

        Callbacks run in the order of their commits, and before a later ``commit`` returns. After a failure ``error`` is
        the error that ``commit`` would raise, and ``offsets`` is empty; else ``error`` is None. Raises UsageError
        without a ``group.id``, and for values that are no offset.
        """
        with self._use() as machine, self._held:
            self._commits.append((machine.commit(offsets, None), callback))
            self._commits.run_due()


def checked_topics(
    topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
) -> list[str] | re.Pattern[str] | SubscriptionPattern:
    """Check the argument of ``subscribe``; return topic names or a pattern. An empty list means ``unsubscribe``.

    Raises UsageError for other values, and for a pattern of bytes.
    """
    if isinstance(topics, re.Pattern):
        if not isinstance(topics.pattern, str):
            raise UsageError("subscribe: the pattern is of bytes; use a pattern of str, because topic names are text")
        return topics
    if isinstance(topics, SubscriptionPattern):
        return topics
    if isinstance(topics, str):
        return [topics]
    if topics is None or isinstance(topics, bytes) or not isinstance(topics, Iterable):
        raise UsageError(
            f"subscribe: expected topic names, a compiled pattern or a SubscriptionPattern, not {topics!r}"
        )
    return list(topics)


def poll_limits(config: ConsumerConfig, timeout_ms: int, max_records: int | None) -> tuple[int, int]:
    """Check the arguments of ``poll``; return the timeout in ms and the maximum number of records.

    Raises UsageError for an invalid value.
    """
    limit_ms = checked_ms("timeout_ms", timeout_ms)
    most = config.max_poll_records if max_records is None else whole_number("max_records", max_records)
    if most < 1:
        raise UsageError(f"poll: max_records={most}: expected at least 1")
    return limit_ms, most


def checked_listener(listener: object) -> None:
    """Raise UsageError if a rebalance listener lacks a method."""
    missing = [name for name in LISTENER_METHODS if not callable(getattr(listener, name, None))]
    if listener is not None and missing:
        raise UsageError(
            f"subscribe: the listener {listener!r} has no method {missing[0]}; derive it from RebalanceListener"
        )


Listed = dict[TopicPartition, OffsetAndTimestamp | None]
COMMIT_TOO_LATE: Final = "the coordinator did not answer the commit in time"


class ConsumerCalls:
    """Consumer methods that wait for brokers. ``timeout_ms=None`` means ``default.api.timeout.ms``."""

    def __init__(self, waits: Waits, callbacks: CommitCallbacks) -> None:
        self._waits = waits
        self._machine = waits.machine
        self._callbacks = callbacks
        self._config = waits.machine.config

    def unsubscribe(self) -> Call[None]:
        """Leave the group and stop reading. Calls the listener's ``on_partitions_revoked`` or ``on_partitions_lost``.

        Waits for the response as ``close`` does. Raises UsageError for a closed consumer, and the listener's error.
        """
        yield from leave_group(
            self._waits, "the consumer unsubscribed from all topics", self.close_timeout(self._limit(None))
        )

    def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> Call[int]:
        """Return the number of partitions of ``topic``; request it from a broker if it is unknown.

        Raises ApiTimeout after ``timeout_ms`` milliseconds (default: ``default.api.timeout.ms``), ApiError if a broker
        refuses the topic, UsageError for an invalid topic name.
        """
        found: int | None = yield WaitUntil(lambda: self._machine.partitions(topic), self._limit(timeout_ms))
        if found is None:
            raise ApiTimeout(
                f"no broker returned the number of partitions of topic {topic!r} in time; does the topic exist?"
            )
        return found

    def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> Call[int]:
        """Return the offset from which the next poll reads ``partition``; request it from a broker if it is unknown.

        Raises ApiTimeout after ``timeout_ms`` milliseconds (default: ``default.api.timeout.ms``), UsageError if
        ``partition`` is not assigned, NoOffsetForPartition and LogTruncated if ``auto.offset.reset`` is none.
        """
        found: int | None = yield WaitUntil(lambda: self._machine.position(partition), self._limit(timeout_ms))
        if found is None:
            raise ApiTimeout(f"no broker returned the offset for the position of {TopicPartition(*partition)} in time")
        return found

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, *, timeout_ms: int | None = None
    ) -> Call[None]:
        """Commit ``offsets``, or the positions of all assigned partitions, and wait until the commit is persisted.

        An int is an offset without metadata. Also waits for all earlier ``commit_async`` calls. Raises CommitFailed if
        the group has rebalanced without this member, ApiTimeout after ``timeout_ms`` milliseconds (default:
        ``default.api.timeout.ms``), ApiError if the coordinator refuses, UsageError without a ``group.id`` and for
        values that are no offset.
        """
        limit_ms = self._limit(timeout_ms)
        with self._waits.guard:
            earlier = self._callbacks.promises()
            promise = self._machine.commit(offsets, self._waits.now_ms() + limit_ms)
        yield from self._timed("commit", WaitFor(promise, limit_ms, COMMIT_TOO_LATE))
        for before in earlier:
            with suppress(KohortError):  # the callback of the earlier commit_async() gets this error
                yield WaitFor(before, limit_ms, "the coordinator did not answer an earlier commit in time", check=False)
        self._callbacks.run_due()

    def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return the group's committed offset for each partition; None for a partition without a commit.

        Raises ApiTimeout after ``timeout_ms`` milliseconds (default: ``default.api.timeout.ms``), ApiError if the
        coordinator refuses, UsageError without a ``group.id``.
        """
        limit_ms = self._limit(timeout_ms)
        with self._waits.guard:
            promise = self._machine.committed(partitions, self._waits.now_ms() + limit_ms)
        too_late = "the coordinator did not return the committed offsets in time"
        found: dict[TopicPartition, OffsetAndMetadata | None] = yield from self._timed(
            "committed", WaitFor(promise, limit_ms, too_late)
        )
        return found

    def _timed(self, call: str, wait: WaitFor) -> Call[Any]:
        began_ms = self._waits.now_ms()
        try:
            return (yield wait)
        finally:
            self._machine.metrics.blocked_ms[call] += self._waits.now_ms() - began_ms

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, int]]:
        """Return the log start offset of each partition.

        Raises ApiTimeout after ``timeout_ms`` milliseconds (default: ``default.api.timeout.ms``), ApiError if a broker
        refuses, UsageError for values that are no TopicPartition.
        """
        return self._offsets_at(partitions, EARLIEST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, int]]:
        """Return the end offset of each partition: the high watermark or, with read_committed, the last stable offset.

        Timeout and errors are those of ``beginning_offsets``.
        """
        return self._offsets_at(partitions, LATEST, timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Call[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return, for each partition, offset and timestamp of the first record at or after the given timestamp.

        ``timestamps`` maps each partition to ms since 1970. The result is None for a partition without such a record.
        Timeout and errors are those of ``beginning_offsets``. Also raises UsageError for a negative timestamp.
        """
        targets: dict[TopicPartition, int] = {}
        for partition, timestamp in timestamps.items():
            place = checked_partition("offsets_for_times", partition)
            at_ms = targets[place] = whole_number(f"offsets_for_times: the time for {place}", timestamp)
            if at_ms < 0:  # Kafka uses negative timestamps as codes, such as -1 for the latest offset
                raise UsageError(f"offsets_for_times: the timestamp {at_ms} ms of {place} is negative")
        return self._list_offsets(targets, timeout_ms)

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
        found: Listed = yield WaitFor(promise, limit_ms, "the brokers did not return the offsets in time")
        return found

    def close_timeout(self, timeout_ms: int | None) -> CloseTimeout:
        """Return the deadline of a ``close()`` that starts now. Raises UsageError for an invalid timeout."""
        limit_ms = None if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        return CloseTimeout(self._machine.engine, self._waits.now_ms(), limit_ms)

    def finish(self, close_timeout: CloseTimeout) -> Call[None]:
        """Commit if auto-commit is on, leave the group and stop fetching. Raises the listener's error."""
        left = self._callbacks.promises()
        if self._config.enable_auto_commit:
            with self._waits.guard:
                left.append(self._machine.commit(None, close_timeout.deadline_ms, before_revocation=True))
        # close() ignores a failed auto-commit: the group reads uncommitted records again (at least once)
        for promise in left:
            yield WaitLast(promise, close_timeout)
        self._callbacks.run_due()
        try:
            yield from leave_group(self._waits, "the consumer is being closed", close_timeout)
        finally:
            with self._waits.guard:
                self._machine.stop_fetching()
            self._waits.kick()

    def _limit(self, timeout_ms: int | None) -> int:
        return self._config.default_api_timeout_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
