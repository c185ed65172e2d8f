"""What the sessions of both handler-style groups have in common: who this member is, marks, commits by the clock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from kohort.client.consumer import ConsumerMachine
from kohort.client.group.commits import Offsets
from kohort.client.partition_claims import Claims, ClaimState
from kohort.client.requests.promise import Promise
from kohort.errors import HandlerFailed, KohortError
from kohort.model import OffsetAndMetadata, Record, TopicPartition

log = logging.getLogger(__name__)
MAX_PROCESSING_TIME_MS: Final = 100
"""How long a claim may take nothing before its partition is fetched no more (sarama's default)."""


class Session:
    """One membership of one generation, from ``setup`` to ``cleanup``.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims.
    """

    def __init__(
        self,
        machine: ConsumerMachine,
        max_processing_time_ms: int,
        auto_commit_ms: int | None,
        new_guard: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        generation = machine.group.membership.generation
        self.member_id = generation.member_id
        self.generation_id = generation.generation_id
        self.claimed = Claims(machine, max_processing_time_ms, new_guard)
        self.partitions = tuple(self.claimed.by_partition)
        self.failure: HandlerFailed | None = None
        self._ending = False
        self._machine = machine
        self._auto_ms = auto_commit_ms
        self._auto_at_ms: int | None = None
        self._auto: Promise[Offsets] | None = None

    @property
    def ending(self) -> bool:
        """Whether the session is over for its claims: handlers that work on something long should look now and then."""
        return self._ending

    # Marks

    def mark_message(self, record: Record, metadata: str = "") -> None:
        """``record``, and all before it in its partition, is handled: what a commit says. A mark never goes back."""
        self.claimed.mark_record(record, metadata)

    def mark_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Everything before ``offset`` is handled: it is the next one to read."""
        self.claimed.mark(partition, OffsetAndMetadata(offset, metadata))

    def reset_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Let the next session begin at ``offset``, also if that is behind what was marked."""
        self.claimed.reset(partition, OffsetAndMetadata(offset, metadata))

    # For the group

    def fail(self, claim: ClaimState, error: BaseException) -> None:
        """The handler of this claim raised. The first error is told; the others are notes on it."""
        failed = HandlerFailed(str(claim.partition), error)
        failed.__cause__ = error
        if self.failure is None:
            self.failure = failed
        else:
            self.failure.add_note(str(failed))

    def begin_commit(self, deadline_ms: int | None) -> tuple[Offsets, Promise[Offsets]]:
        """Under the guard: what is marked, on its way."""
        offsets = self.claimed.to_commit()
        return offsets, self._machine.commit(offsets, deadline_ms)

    def commit_by_clock(self, now_ms: int) -> None:
        """Under the guard: commit what is marked whenever ``auto.commit.interval.ms`` is over, without waiting."""
        if self._auto_ms is None:
            return
        if self._auto is not None and self._auto.done:
            if self._auto.error is None:
                self.claimed.committed(self._auto.result())
            else:
                log.warning("the marks of %s were not committed yet: %s", self.member_id, self._auto.error)
            self._auto = None
        if self._auto_at_ms is None:
            self._auto_at_ms = now_ms + self._auto_ms
        elif now_ms >= self._auto_at_ms and self._auto is None:
            self._auto_at_ms = now_ms + self._auto_ms
            offsets, promise = self.begin_commit(None)
            self._auto = promise if offsets else None

    def wait_ms(self, now_ms: int, most_ms: int) -> int:
        """How long nothing has to be done, as far as the clock is concerned."""
        times = [t for t in (self.claimed.wake_at_ms, self._auto_at_ms) if t is not None]
        return max(0, min([*(t - now_ms for t in times), most_ms]))

    def not_committed(self, error: KohortError) -> None:
        """The last commit of the session failed: what was handled will be handled again, here or elsewhere."""
        names = ", ".join(f"{p} up to {o.offset}" for p, o in self.claimed.to_commit().items())
        log.warning("what was handled of %s could not be committed: %s", names, error)
