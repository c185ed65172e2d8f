"""Delivery check: users get all records of owned partitions, in order and once; commits never exceed them."""

from __future__ import annotations

from collections.abc import Callable

from kohort.model import Record, TopicPartition
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.watcher import Exchange, WatchedConsumer, Watcher

TopicName = Callable[[bytes], str | None]


class HandedOut(Watcher):
    """Records that the group has read: each partition without gaps.

    ``once`` (a run without faults): no record is read twice. After an expiry of the group's offset (see ``life``),
    reading restarts from the beginning.
    """

    def __init__(self, group_id: str, topic_name: TopicName, life: GroupLife, *, once: bool) -> None:
        self.values: dict[TopicPartition, list[bytes]] = {}
        """Values by partition, in offset order."""
        self._group_id = group_id
        self._topic_name = topic_name
        self._once = once
        self._life = life
        self._farthest: dict[TopicPartition, int] = {}
        self._next: dict[tuple[str, TopicPartition], int] = {}
        self._committed: dict[TopicPartition, tuple[int, int]] = {}
        """Committed offset, and the number of earlier expiries of the partition's offset."""
        self._starts: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self._last_commits: dict[tuple[str, str, int, TopicPartition], tuple[int, int]] = {}
        """Last acknowledged commit of each member and generation, with its time."""
        self._lowest_reset: dict[TopicPartition, int] = {}
        """Lowest offset of a seek; a commit from there may be persisted without response."""

    def requested(self, exchange: Exchange) -> None:
        """Record a commit request: it may be persisted even without response."""
        if isinstance(exchange.request, OffsetCommitRequest) and exchange.request.group_id == self._group_id:
            for topic in exchange.request.topics:
                name = topic.name or self._topic_name(topic.topic_id)
                for p in topic.partitions if name is not None else ():
                    partition = TopicPartition(name or "", p.partition_index)
                    self._farthest[partition] = max(self._farthest.get(partition, 0), p.committed_offset)

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if not isinstance(request, OffsetCommitRequest) or not isinstance(answer, OffsetCommitResponse):
            return
        if request.group_id != self._group_id:
            return
        taken = {
            (topic.name, topic.topic_id, p.partition_index)  # the order of the response is arbitrary
            for topic in answer.topics
            for p in topic.partitions
            if not p.error_code
        }
        for topic in request.topics:
            name = topic.name or self._topic_name(topic.topic_id)
            for p in topic.partitions:
                if name is not None and (topic.name, topic.topic_id, p.partition_index) in taken:
                    partition = TopicPartition(name, p.partition_index)
                    self.check_commit(exchange.client, partition, p.committed_offset)
                    self.check_goes_on(exchange, request, partition, p.committed_offset)
                    self._committed[partition] = (p.committed_offset, self._life.expired(partition))

    def check_commit(self, who: str, partition: TopicPartition, offset: int) -> None:
        """Check that all records before a committed offset were delivered."""
        end = len(self.values.get(partition, ()))
        if offset > end:
            raise CheckFailed(f"{who} commits {offset} for {partition}, but only {end} records were delivered")

    def check_goes_on(
        self, exchange: Exchange, request: OffsetCommitRequest, partition: TopicPartition, offset: int
    ) -> None:
        """Check that commits of a member do not decrease within a generation, except after a seek."""
        member = (exchange.client, request.member_id, request.generation_id_or_member_epoch, partition)
        before, answered_ms = self._last_commits.get(member, (-1, -1))
        is_later = exchange.sent_ms > answered_ms
        if request.member_id and is_later and offset < before and partition not in self._lowest_reset:
            raise CheckFailed(f"{exchange.client} commits {offset} for {partition} after {before} was acknowledged")
        self._last_commits[member] = (offset, exchange.answered_ms)

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        del generation_id
        for partition in owned:
            if (consumer.name, partition) not in self._next:
                self._starts.setdefault((consumer.name, partition), self._committed.get(partition, (0, 0)))

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        del kind
        for partition in partitions:
            self._next.pop((consumer.name, partition), None)
            self._starts.pop((consumer.name, partition), None)

    def sought(self, consumer: WatchedConsumer, partition: TopicPartition, offset: int) -> None:
        self._starts.pop((consumer.name, partition), None)
        self._next[consumer.name, partition] = offset
        self._lowest_reset[partition] = min(offset, self._lowest_reset.get(partition, offset))

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        assigned = consumer.assigned
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if partition not in assigned:
                raise CheckFailed(f"{consumer.name} receives a record of {partition} without owning it")
            self.check_order(consumer.name, partition, record.offset)
            self.check_record(partition, record)

    def check_order(self, who: str, partition: TopicPartition, offset: int) -> None:
        """Check that records start at the committed offset and follow each other."""
        expected = self._next.get((who, partition))
        start, expired = self._starts.pop((who, partition), (None, 0))
        if expected is not None and offset != expected:
            raise CheckFailed(f"{who} receives offset {offset} of {partition}, expected {expected}")
        if expected is None and start is not None:
            if offset > self._farthest.get(partition, 0):
                raise CheckFailed(f"{who} starts {partition} at {offset}; the highest commit was {start}")
            lowest = min(start, self._lowest_reset.get(partition, start))
            if offset < lowest and expired == self._life.expired(partition):
                raise CheckFailed(f"{who} starts {partition} at {offset}, before the committed offset {start}")
        self._next[who, partition] = offset + 1

    def check_record(self, partition: TopicPartition, record: Record) -> None:
        """Check that the group skips no offset, and that each offset keeps its value."""
        values = self.values.setdefault(partition, [])
        value = record.value or b""
        if record.offset > len(values):
            raise CheckFailed(f"{partition}: offset {record.offset} is read, but offset {len(values)} was never read")
        if record.offset == len(values):
            values.append(value)
        elif values[record.offset] != value:
            raise CheckFailed(f"{partition}: offset {record.offset} was {values[record.offset]!r} and is {value!r} now")
        elif self._once:
            raise CheckFailed(f"{partition}: offset {record.offset} is read twice in a run without faults")
