"""What a group knows of one session: its claims' data, who failed, and the commits of what was marked.

The users' handlers hold a ``GroupSession`` or an ``AsyncGroupSession``, which show of it what is theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from kohort.aio.calls import Call, WaitFor, WaitLast, Waits
from kohort.aio.consuming.consumer_calls import COMMIT_TOO_LATE
from kohort.client.consumer import CloseTimeout
from kohort.client.group.commits import Offsets
from kohort.client.partition_claims import Claims, ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.client.requests.source import Promise
from kohort.client.user_input import checked_ms
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiTimeout, HandlerFailed, KohortError
from kohort.model import OffsetAndMetadata, Record, TopicPartition

log = logging.getLogger(__name__)
MAX_PROCESSING_TIME_MS: Final = 100
"""How long a claim may take nothing before its partition is fetched no more (sarama's default)."""


class SessionState:
    """One membership of one generation, from ``setup`` to ``cleanup``. Made under the guard.

    ``new_guard`` makes what is held to mark a claim.
    """

    def __init__(
        self,
        waits: Waits,
        config: ConsumerConfig,
        max_processing_time_ms: int,
        new_guard: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.generation = waits.machine.group.membership.generation
        self.claims = Claims(waits.machine, max_processing_time_ms, new_guard)
        self.waits = waits
        self.check_crcs = config.check_crcs
        self.failure: HandlerFailed | None = None
        self.ending = False
        self._commit_ms = config.default_api_timeout_ms
        self._auto_ms = config.auto_commit_interval_ms if config.enable_auto_commit else None
        self._auto_at_ms: int | None = None
        self._auto: Promise[Offsets] | None = None
        self._wake: dict[ClaimState, Callable[[], None]] = {}

    def wake_by(self, claim: ClaimState, wake: Callable[[], None]) -> None:
        """Call ``wake``, under the guard, whenever the claim's inbox was filled, and when the session is over."""
        self._wake[claim] = wake

    # Data

    def feed(self) -> bool | None:
        """Hand on to the claims what came. Returns True when the session is over."""
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
        """Tell whether ``feed`` would do something now."""
        return self.ending or self.claims.has_work()

    def wait_ms(self, most_ms: int) -> int:
        """Return for how long nothing has to be done, as far as the clock is concerned."""
        now_ms = self.waits.now_ms()
        times = [t for t in (self.claims.wake_at_ms, self._auto_at_ms) if t is not None]
        return max(0, min([*(t - now_ms for t in times), most_ms]))

    def count(self, fetched: Fetched, records: int) -> None:
        """Note that a handler was given so many records of ``fetched``."""
        with self.waits.guard:
            self.waits.machine.count_records(fetched, records)

    def check_damage(self, claim: ClaimState, fetched: Fetched) -> None:
        """Raise CorruptRecord for damage that is there when it is fetched once more, too."""
        if fetched.error is None:
            return
        with self.waits.guard:
            is_asked = self.claims.ask_again(claim, fetched)
        if not is_asked:
            raise fetched.error
        self.waits.kick()

    # The end

    def end(self) -> None:
        """Stop the claims' iterations."""
        with self.waits.guard:
            self.ending = True
            for wake in self._wake.values():
                wake()
        self.waits.look_again()

    def fail(self, claim: ClaimState, error: BaseException) -> None:
        """Keep what the handler of this claim raised. The first error is told; the others are notes on it."""
        failed = HandlerFailed(str(claim.partition), error)
        failed.__cause__ = error
        if self.failure is None:
            self.failure = failed
        else:
            self.failure.add_note(str(failed))

    # Commits of what was marked

    def commit(self, timeout_ms: int | None = None, *, before_revocation: bool = False) -> Call[None]:
        """Commit the marked offsets, and wait for the answer."""
        limit_ms = self._commit_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        with self.waits.guard:
            deadline_ms = self.waits.now_ms() + limit_ms
            offsets, promise = self._begin_commit(deadline_ms, before_revocation=before_revocation)
        self.waits.kick()
        yield WaitFor(promise, limit_ms, COMMIT_TOO_LATE, check=False)
        self.claims.committed(offsets)

    def commit_last(self) -> Call[None]:
        """Do as ``commit``, but without waiting for a broker that cannot be reached: the session is the last one."""
        close_timeout = CloseTimeout(self.waits.machine.engine, self.waits.now_ms(), most_ms=self._commit_ms)
        with self.waits.guard:
            offsets, promise = self._begin_commit(close_timeout.deadline_ms, before_revocation=True)
        self.waits.kick()
        yield WaitLast(promise, close_timeout)
        if not promise.done:
            raise ApiTimeout("no broker answered in time")
        promise.result()
        self.claims.committed(offsets)

    def warn_of_lost_marks(self, error: KohortError) -> None:
        """Say that the last commit failed: what was handled will be handled again, here or elsewhere."""
        names = ", ".join(f"{p} up to {o.offset}" for p, o in self.claims.to_commit().items())
        log.warning("what was handled of %s could not be committed: %s", names, error)

    def _begin_commit(
        self, deadline_ms: int | None, *, before_revocation: bool = False
    ) -> tuple[Offsets, Promise[Offsets]]:
        """Send the marked offsets, under the guard; return them with their promise."""
        offsets = self.claims.to_commit()
        return offsets, self.waits.machine.commit(offsets, deadline_ms, before_revocation=before_revocation)

    def _commit_by_clock(self, now_ms: int) -> None:
        """Commit what is marked whenever ``auto.commit.interval.ms`` is over, under the guard, without waiting."""
        if self._auto_ms is None:
            return
        if self._auto is not None and self._auto.done:
            if self._auto.error is None:
                self.claims.committed(self._auto.result())
            else:
                member_id = self.generation.member_id
                log.warning("the marks of %s were not committed yet: %s", member_id, self._auto.error)
            self._auto = None
        if self._auto_at_ms is None:
            self._auto_at_ms = now_ms + self._auto_ms
        elif now_ms >= self._auto_at_ms and self._auto is None:
            self._auto_at_ms = now_ms + self._auto_ms
            offsets, promise = self._begin_commit(None)
            self._auto = promise if offsets else None


class Session:
    """One membership of one generation, from ``setup`` to ``cleanup``.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims.
    """

    def __init__(self, state: SessionState) -> None:
        self.member_id = state.generation.member_id
        self.generation_id = state.generation.generation_id
        self.partitions = tuple(state.claims.by_partition)
        self._state = state
        self._marks = state.claims

    @property
    def ending(self) -> bool:
        """True once the session is over: a handler of long work should check it now and then."""
        return self._state.ending

    def mark_message(self, record: Record, metadata: str = "") -> None:
        """Say that ``record``, and all before it in its partition, is handled: what a commit tells the group.

        A mark never goes back. ``metadata`` is a text that is committed with it. Raises UsageError for a partition that
        the session does not claim, and for metadata that is no text.
        """
        self._marks.mark_record(record, metadata)

    def mark_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Say that everything before ``offset`` is handled: it is the next one to read.

        A mark never goes back. Raises as ``mark_message``, and UsageError for a negative offset.
        """
        self._marks.mark(partition, OffsetAndMetadata(offset, metadata))

    def reset_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Let the next session begin at ``offset``, also where the mark is behind it. Raises as ``mark_offset``."""
        self._marks.reset(partition, OffsetAndMetadata(offset, metadata))


class SessionClaim:
    """One partition during one session: ``topic``, ``partition``, and where the session began, ``initial_offset``."""

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
        """The offset behind the last record of the log, as the last fetch told it; None before."""
        return self._state.state.high_watermark
