"""Claims: partitions that are assigned to a consumer group session.

Each claim has a marked offset, and an inbox of undecoded batches, so that a slow handler delays no other partition. A
partition is paused when its inbox has been full for ``max_processing_time_ms``, until a batch leaves the inbox. Marked
offsets are committed. At the end of the session each partition's position moves back to its marked offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.client.consumer import ConsumerMachine
from kohort.client.group.commits import Offsets
from kohort.client.reading.fetched import Fetched
from kohort.client.reading.subscription import PartitionState, Position
from kohort.client.user_input import checked_offset, is_text, shown
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, Record, TopicPartition

INBOX: Final = 2
"""Maximum number of batches in a partition's inbox: one that the handler reads, and the next one."""


Mark = tuple[int, str, int]
"""Marked offset with the fields of OffsetAndMetadata. It is a plain tuple, because each handled record creates one."""


@dataclass(slots=True, eq=False)
class ClaimState:
    partition: TopicPartition
    state: PartitionState
    start: Position
    guard: AbstractContextManager[Any]
    """Lock of the partition's marked offset; each partition has its own, so handler threads do not block each other."""
    inbox: deque[Fetched] = field(default_factory=deque)
    full_since_ms: int | None = None
    held: bool = False
    marked: Mark | None = None
    committed: Mark | None = None

    @property
    def has_room(self) -> bool:
        return len(self.inbox) < INBOX

    def begin_again(self, fetched: Fetched) -> None:
        self.state, self.start = fetched.state, Position(fetched.start_offset)
        self.inbox.clear()
        self.marked = self.committed = None


class Claims:
    """All claimed partitions of one group session.

    Call the methods under the client's lock, except ``mark``, ``mark_record`` and ``reset``.
    """

    def __init__(
        self,
        machine: ConsumerMachine,
        max_processing_time_ms: int,
        new_guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._machine = machine
        self._patience_ms = max_processing_time_ms
        self.by_partition: dict[TopicPartition, ClaimState] = {}
        for partition, state in machine.subscription.assigned.items():
            assert state.position is not None, "a session begins when every position is known"
            self.by_partition[partition] = ClaimState(partition, state, state.position, new_guard())

    def feed(self, now_ms: int) -> tuple[list[ClaimState], bool]:
        """Move fetched batches to the handlers of their partitions.

        Returns the claims that got batches, and True if more batches may be fetched.
        """
        fed: list[ClaimState] = []
        freed = False
        for claim in self.by_partition.values():
            if claim.has_room:
                claim.full_since_ms = None
                if claim.held:
                    claim.held = claim.state.paused = False
                    freed = True
        while (fetched := self._machine.take_batch_of(self._accepts)) is not None:
            claim = self.by_partition[fetched.partition]
            if fetched.state is not claim.state:
                claim.begin_again(fetched)
            claim.inbox.append(fetched)
            fed.append(claim)
        for claim in self.by_partition.values():
            if not claim.has_room:
                self._hold_back(claim, now_ms)
        return fed, freed or bool(fed)

    def has_work(self) -> bool:
        return any(c.held and c.has_room for c in self.by_partition.values()) or self._machine.has_data_of(
            self._accepts
        )

    @property
    def wake_at_ms(self) -> int | None:
        times = [c.full_since_ms for c in self.by_partition.values() if c.full_since_ms is not None and not c.held]
        return min(times) + self._patience_ms if times else None

    def _accepts(self, partition: TopicPartition) -> bool:
        claim = self.by_partition.get(partition)
        return claim is not None and claim.has_room

    def _hold_back(self, claim: ClaimState, now_ms: int) -> None:
        if claim.full_since_ms is None:
            claim.full_since_ms = now_ms
        if not claim.held and now_ms >= claim.full_since_ms + self._patience_ms:
            claim.held = claim.state.paused = True

    def ask_again(self, claim: ClaimState, fetched: Fetched) -> bool:
        """Repeat the fetch of a damaged batch and of later batches; return False if the damage error must be raised."""
        is_asked = self._machine.refetch_damaged(fetched)
        if is_asked:
            claim.inbox.clear()
        return is_asked

    def mark_record(self, record: Record, metadata: str) -> None:
        if metadata and not is_text(metadata):
            raise UsageError(f"mark_message: the metadata must be text, not {shown(metadata)}")
        self._mark((record.topic, record.partition), (record.offset + 1, metadata, record.leader_epoch))

    def mark(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        """Mark ``offset`` for the next commit if it is higher than the partition's marked offset.

        Raises UsageError for an unassigned partition.
        """
        self._mark(*checked_offset("mark_offset", partition, offset))

    def _mark(self, partition: tuple[str, int], mark: Mark) -> None:
        claim = self._claim(partition)
        with claim.guard:
            now_at = claim.start.offset if claim.marked is None else claim.marked[0]
            if mark[0] > now_at:
                claim.marked = mark

    def reset(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        place, mark = checked_offset("reset_offset", partition, offset)
        claim = self._claim(place)
        with claim.guard:
            claim.marked = mark

    def to_commit(self) -> Offsets:
        return {
            partition: OffsetAndMetadata(*claim.marked)
            for partition, claim in self.by_partition.items()
            if claim.marked is not None
            and claim.marked != claim.committed
            and self._machine.subscription.assigned.get(partition, claim.state) is claim.state
        }

    def committed(self, offsets: Offsets) -> None:
        for partition, offset in offsets.items():
            if partition in self.by_partition:
                self.by_partition[partition].committed = offset

    def _claim(self, partition: tuple[str, int]) -> ClaimState:
        claim: ClaimState | None = self.by_partition.get(partition)  # type: ignore[call-overload]  # any pair equals it
        if claim is None:
            raise UsageError(f"{TopicPartition(*partition)} is not assigned to this group session")
        return claim

    def put_back(self) -> None:
        """Move each partition's position back to its marked offset, so that the next session starts there."""
        for partition, claim in self.by_partition.items():
            claim.inbox.clear()
            if self._machine.subscription.assigned.get(partition) is not claim.state:
                continue
            if claim.held:
                claim.held = claim.state.paused = False
            mark = claim.marked
            to = claim.start if mark is None else Position(mark[0], mark[2])
            if claim.state.position is None or claim.state.position.offset != to.offset:
                claim.state.seek(to)
