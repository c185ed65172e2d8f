"""One group's lives, as ``__consumer_offsets`` tells them: a tombstone ends one, and the next begins at generation 1.

A group that is empty and has no offsets any more is forgotten, and its numbers come again. Checks that remember what
members were told ask here which life it was of: nothing else tells a forgotten group from a coordinator that counts
wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.records import EpochWritten, GroupWritten, OffsetCommitted, parse_record, partition_of
from kohort.log.partition import PartitionLog
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort.wire.messages.group_classic import JoinGroupResponse
from kohort_lab.sim.checks.durability import OFFSETS_TOPIC, batches_on, records_of
from kohort_lab.sim.checks.watcher import Exchange, Watcher

UNKNOWN: Final = -1


class GroupLife(Watcher):
    """The lives of ``group_id``. ``topics`` gives the logs of the process that is up, None while there is none.

    The log is read as far as it goes whenever somebody asks, so an answer is judged by what was written before it left.
    """

    def __init__(self, group_id: str, topics: Callable[[], Topics | None]) -> None:
        self._group_id = group_id
        self._topics = topics
        self._read_to = 0
        self._number = 0
        self._is_written = False
        self._born: dict[str, int] = {}
        self._conversions = 0
        self._expired: dict[TopicPartition, int] = {}
        self._written_members: dict[int, frozenset[str]] = {}

    @property
    def number(self) -> int:
        """How often the group was forgotten so far."""
        self._follow()
        return self._number

    @property
    def stretches(self) -> int:
        """How often the group was forgotten, or went from one group protocol to the other, so far."""
        self._follow()
        return self._number + self._conversions

    @property
    def is_written(self) -> bool:
        """Whether the log holds a generation of this life. A group without one leaves no tombstone when it goes."""
        self._follow()
        return self._is_written

    def of(self, member_id: str) -> int:
        """Return the life that a member was let into; UNKNOWN for one that was never told of a generation."""
        return self._born.get(member_id, UNKNOWN)

    def has_written(self, generation_id: int, member_id: str) -> bool:
        """Tell whether a member is in the generation of this number that is written, in the life of now.

        A number that was given out, but not written before a crash, is given out again, maybe to others.
        """
        self._follow()
        return member_id in self._written_members.get(generation_id, ())

    def expired(self, partition: TopicPartition) -> int:
        """Count how often the group's offset of a partition was taken away."""
        self._follow()
        return self._expired.get(partition, 0)

    def answered(self, exchange: Exchange) -> None:
        answer = exchange.answer
        if isinstance(answer, JoinGroupResponse) and not answer.error_code:
            self._born[answer.member_id] = self.number

    def _log(self) -> PartitionLog | None:
        topics = self._topics()
        topic = topics.get(OFFSETS_TOPIC) if topics is not None else None
        if topic is None:
            return None
        partitions = topic.partitions
        return partitions[partition_of(self._group_id, len(partitions))]

    def _follow(self) -> None:
        log = self._log()
        if log is None or log.log_end_offset == self._read_to:
            return
        for batch, header in batches_on(log, self._read_to):
            for record in () if header.is_control else records_of(batch):
                self._note(parse_record(record.key or b"", record.value))
        self._read_to = log.log_end_offset

    def _note(self, record: object) -> None:
        if isinstance(record, GroupWritten) and record.group_id == self._group_id:
            self._is_written = record.value is not None
            self._number += record.value is None
            if record.value is None:
                self._written_members.clear()
            else:
                members = frozenset(member.member_id for member in record.value.members)
                self._written_members[record.value.generation] = members
        elif isinstance(record, EpochWritten) and record.group_id == self._group_id:
            self._conversions += record.value is None
        elif isinstance(record, OffsetCommitted) and record.group_id == self._group_id and record.value is None:
            partition = TopicPartition(record.topic, record.partition)
            self._expired[partition] = self._expired.get(partition, 0) + 1
