"""Lives of a group, from ``__consumer_offsets``: a tombstone ends a life; the next one restarts at generation 1.

An empty group without offsets is deleted, and its generations restart. Checks use this to distinguish a deleted group
from a coordinator that counts wrongly.
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
    """Lives of ``group_id``; ``topics``: the running process's logs, None while it is down.

    Each query reads the log up to its end, so a response is judged by the records before it.
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
        """Number of deletions of the group so far."""
        self._follow()
        return self._number

    @property
    def stretches(self) -> int:
        """Number of deletions and protocol conversions of the group so far."""
        self._follow()
        return self._number + self._conversions

    @property
    def is_written(self) -> bool:
        """True if the log has a generation of this life. Otherwise a deletion leaves no tombstone."""
        self._follow()
        return self._is_written

    def of(self, member_id: str) -> int:
        """Return the life in which a member joined; UNKNOWN without a generation."""
        return self._born.get(member_id, UNKNOWN)

    def has_written(self, generation_id: int, member_id: str) -> bool:
        """Return True if the current life has a persisted generation with this number and member.

        After a crash the number of a volatile generation is used again, maybe with other members.
        """
        self._follow()
        return member_id in self._written_members.get(generation_id, ())

    def expired(self, partition: TopicPartition) -> int:
        """Return the number of expiries of the group's offset of a partition."""
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
