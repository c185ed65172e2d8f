"""State of a session of a consumer group with handlers: fetched records, first error, commits of marked offsets.

Handlers get the state wrapped in a ``GroupSession`` or an ``AsyncGroupSession``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from kohort.aio.calls import Call, WaitFor, WaitLast, Waits
from kohort.aio.consuming.consumer_calls import COMMIT_TOO_LATE
from kohort.aio.consuming.record_reader import log_skipped
from kohort.client.consumer import CloseTimeout
from kohort.client.group.commits import Offsets
from kohort.client.partition_claims import Claims, ClaimState
from kohort.client.reading.deserializing import Deserializers
from kohort.client.reading.fetched import Fetched
from kohort.client.requests.source import Promise
from kohort.client.user_input import checked_ms
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiTimeout, HandlerFailed, KohortError
from kohort.model import OffsetAndMetadata, Record, TopicPartition
from kohort.schemas.serde import SchemaNeeded

log = logging.getLogger(__name__)
WAIT_SLICE_S: Final = 1.0
"""Longest sleep of a waiting handler thread, in seconds."""
MAX_PROCESSING_TIME_MS: Final = 100
"""Default of ``max_processing_time_ms``, as in sarama.

Fetching of a partition pauses when its handler has taken no records for this time in ms.
"""


class SessionState:
    """State of a group session, from ``setup`` to ``cleanup``. Create it under the client's lock.

    ``new_guard`` creates a lock for the marked offset of each claim.
    """

    def __init__(
        self,
        waits: Waits,
        config: ConsumerConfig,
        max_processing_time_ms: int,
        new_guard: Callable[[], AbstractContextManager[Any]],
        deserializers: Deserializers | None,
    ) -> None:
        self.generation = waits.machine.group.membership.generation
        self.claims = Claims(waits.machine, max_processing_time_ms, new_guard)
        self.waits = waits
        self.deserializers = deserializers
        self.check_crcs = config.check_crcs
        self.failure: HandlerFailed | None = None
        self.ending = False
        self.helpers: set[Any] = set()
        """Threads or tasks that handle records for a claim handler."""
        self._commit_ms = config.default_api_timeout_ms
        self._auto_ms = config.auto_commit_interval_ms if config.enable_auto_commit else None
        self._auto_at_ms: int | None = None
        self._auto: Promise[Offsets] | None = None
        self._wake: dict[ClaimState, Callable[[], None]] = {}

    def wake_by(self, claim: ClaimState, wake: Callable[[], None]) -> None:
        """Register ``wake``, to be called under the lock when the claim gets records or the session ends."""
        self._wake[claim] = wake

    def feed(self) -> bool | None:
        """Pass fetched batches to the handlers of their partitions. Return True if the session is over, else None."""
        if self.ending:
            return True
        with self.waits.guard:
            now_ms = self.waits.now_ms()
            fed, freed = self.claims.feed(now_ms)
            self._commit_by_clock(now_ms)
            for claim in fed:
                self._wake[claim]()
        if freed:
            self.waits.kick()
        return None

    def has_work(self) -> bool:
        return self.ending or self.claims.has_work()

    def wait_ms(self, most_ms: int) -> int:
        now_ms = self.waits.now_ms()
        times = [t for t in (self.claims.wake_at_ms, self._auto_at_ms) if t is not None]
        return max(0, min([*(t - now_ms for t in times), most_ms]))

    def decode(self, fetched: Fetched) -> list[Record]:
        """Return the records before the first record that is damaged, or that a deserializer rejects.

        Raises SchemaNeeded in asyncio: get the schema, and decode again.
        """
        records = fetched.decode_records(check_crcs=self.check_crcs)
        if self.deserializers is None:
            return records
        found, read, error = self.deserializers.until_error(records)
        if isinstance(error, SchemaNeeded):
            raise error
        fetched.undecodable = error
        if len(found) < read:
            log_skipped(records[:read], found)
        return found

    def count(self, fetched: Fetched, records: int) -> None:
        with self.waits.guard:
            self.waits.machine.count_records(fetched, records)

    def check_damage(self, claim: ClaimState, fetched: Fetched) -> None:
        """Fetch damaged batches again; raise CorruptRecord if they are still damaged.

        Raises UndecodableValue if a deserializer rejected a record of the batches, and the registry's error.
        """
        if fetched.undecodable is not None:
            raise fetched.undecodable
        if fetched.error is None:
            return
        with self.waits.guard:
            is_asked = self.claims.ask_again(claim, fetched)
        if not is_asked:
            raise fetched.error
        self.waits.kick()

    def end(self) -> None:
        with self.waits.guard:
            self.ending = True
            for wake in self._wake.values():
                wake()
        self.waits.wake_waiting()

    def fail(self, claim: ClaimState, error: BaseException) -> None:
        """Store the error of a partition's handler.

        The session raises its first error, with the messages of later errors as notes.
        """
        failed = HandlerFailed(str(claim.partition), error)
        failed.__cause__ = error
        if self.failure is None:
            self.failure = failed
        else:
            self.failure.add_note(str(failed))

    def commit(self, timeout_ms: int | None = None, *, before_revocation: bool = False) -> Call[None]:
        """Commit the marked offsets, and wait for the response."""
        limit_ms = self._commit_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        with self.waits.guard:
            deadline_ms = self.waits.now_ms() + limit_ms
            offsets, promise = self._begin_commit(deadline_ms, before_revocation=before_revocation)
        self.waits.kick()
        yield WaitFor(promise, limit_ms, COMMIT_TOO_LATE, check=False)
        self.claims.committed(offsets)

    def commit_last(self) -> Call[None]:
        """Commit the marked offsets at the end of the session, without waiting for unreachable brokers."""
        close_timeout = CloseTimeout(self.waits.machine.engine, self.waits.now_ms(), most_ms=self._commit_ms)
        with self.waits.guard:
            offsets, promise = self._begin_commit(close_timeout.deadline_ms, before_revocation=True)
        self.waits.kick()
        yield WaitLast(promise, close_timeout)
        if not promise.done:
            raise ApiTimeout("the commit at the end of the session got no response in time")
        promise.result()
        self.claims.committed(offsets)

    def warn_of_uncommitted_marks(self, error: KohortError) -> None:
        """Log that the commit at the end of the session failed: the marked records will be handled again."""
        names = ", ".join(f"{p} up to {o.offset}" for p, o in self.claims.to_commit().items())
        log.warning("cannot commit the handled records of %s: %s", names, error)

    def _begin_commit(
        self, deadline_ms: int | None, *, before_revocation: bool = False
    ) -> tuple[Offsets, Promise[Offsets]]:
        """Start to commit the marked offsets; return the offsets and the promise of the commit. Call under the lock."""
        offsets = self.claims.to_commit()
        return offsets, self.waits.machine.commit(offsets, deadline_ms, before_revocation=before_revocation)

    def _commit_by_clock(self, now_ms: int) -> None:
        """Commit marked offsets every ``auto.commit.interval.ms``, without waiting. Call it under the lock."""
        if self._auto_ms is None:
            return
        if self._auto is not None and self._auto.done:
            if self._auto.error is None:
                self.claims.committed(self._auto.result())
            else:
                member_id = self.generation.member_id
                log.warning("cannot commit the marked offsets of %s, will retry: %s", member_id, self._auto.error)
            self._auto = None
        if self._auto_at_ms is None:
            self._auto_at_ms = now_ms + self._auto_ms
        elif now_ms >= self._auto_at_ms and self._auto is None:
            self._auto_at_ms = now_ms + self._auto_ms
            offsets, promise = self._begin_commit(None)
            self._auto = promise if offsets else None


class Session:
    def __init__(self, state: SessionState) -> None:
        self.member_id = state.generation.member_id
        self.generation_id = state.generation.generation_id
        self.partitions = tuple(state.claims.by_partition)
        self._state = state
        self._marks = state.claims

    @property
    def ending(self) -> bool:
        """True after the session has ended. Handlers that work for a long time should check it."""
        return self._state.ending

    def mark_message(self, record: Record, metadata: str = "") -> None:
        """Mark ``record`` and all previous records of its partition as handled; the next commit includes this mark.

        The marked offset never decreases. ``metadata`` is committed with the offset. Raises UsageError for a partition
        that is not in the session, and for metadata that is no string.
        """
        self._marks.mark_record(record, metadata)

    def mark_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Mark all records before ``offset`` as handled; the next session reads from ``offset``.

        The marked offset never decreases. Raises the errors of ``mark_message``, and UsageError for a negative offset.
        """
        self._marks.mark(partition, OffsetAndMetadata(offset, metadata))

    def reset_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Set the marked offset, even to a lower value. The next session reads from ``offset``.

        Raises the errors of ``mark_offset``.
        """
        self._marks.reset(partition, OffsetAndMetadata(offset, metadata))


class SessionClaim:
    """Partition that is claimed by (assigned to) the member of a session.

    ``initial_offset`` is the offset from which the session reads.
    """

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        self.topic = state.partition.topic
        self.partition = state.partition.partition
        self.initial_offset = state.start.offset
        self._session = session
        self._state = state

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition of the claim."""
        return self._state.partition

    @property
    def high_watermark(self) -> int | None:
        """High watermark of the partition as of its last fetch; None before the first fetch."""
        return self._state.state.high_watermark
