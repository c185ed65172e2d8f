"""Durability checks: acknowledged data is in the log, and a broker's state equals its log at each start and death."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from kohort.broker.broker import Broker
from kohort.coordinator.records import (
    GroupWritten,
    InTransaction,
    LogItem,
    OffsetCommitted,
    TransactionEnded,
    parse_record,
)
from kohort.errors import KohortError
from kohort.log.partition import PartitionLog
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.record_batch import BatchHeader, ReadRecord, parse_marker, read_batch, split_batches
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.group_invariants import check_log
from kohort_lab.sim.checks.log_invariants import check_invariants
from kohort_lab.sim.checks.watcher import WatchedConsumer, WatchedProcess, Watcher

OFFSETS_TOPIC = "__consumer_offsets"


class Durability(Watcher):
    """Check of users' acknowledged commits, and of state against log around every restart."""

    def __init__(self) -> None:
        self._commits: list[Mapping[TopicPartition, OffsetAndMetadata]] = []

    def committed(self, consumer: WatchedConsumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        del consumer
        self._commits.append(offsets)

    def broker_started(self, broker: WatchedProcess) -> None:
        self._compare(broker)

    def broker_dies(self, broker: WatchedProcess, *, writing: bool) -> None:
        if not writing:
            self._compare(broker)

    def _compare(self, broker: WatchedProcess) -> None:
        for node in broker.brokers:
            check_replay(node)

    def check_end(self, broker: Broker, acknowledged: Mapping[bytes, tuple[TopicPartition, int]]) -> None:
        """Check at the end that all acknowledged records and commits exist."""
        check_records(broker, acknowledged)
        check_commits(broker, self._commits)
        check_replay(broker)
        check_logs(broker)


def log_of(broker: Broker, partition: TopicPartition) -> PartitionLog:
    log = broker.state.topics.log(partition.topic, partition.partition)
    if log is None:
        raise CheckFailed(f"partition {partition} does not exist")
    return log


def batches_on(log: PartitionLog, start: int = 0) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield every batch of the log from the offset ``start`` on."""
    at = max(start, log.log_start_offset)
    while at < log.log_end_offset:
        try:
            data = b"".join(bytes(b) for b in log.read(at, 1 << 20))
        except KohortError as error:
            raise CheckFailed(f"{log} is unreadable at {at}: {error}") from error
        if not data:
            raise CheckFailed(f"{log} ends at {log.log_end_offset}, but has no data at {at}")
        for start, header in split_batches(data):
            if header.next_offset <= at:
                raise CheckFailed(f"{log}: a batch that ends before {header.next_offset} is read at {at}")
            yield data[start : start + header.size], header
            at = header.next_offset


def records_on(log: PartitionLog) -> Iterator[ReadRecord]:
    """Yield every record of the log, without control records."""
    for batch, header in batches_on(log):
        if not header.is_control:
            yield from records_of(batch)


def items_on(log: PartitionLog) -> Iterator[LogItem]:
    """Yield the items of a coordinator log, as in a replay."""
    for batch, header in batches_on(log):
        if header.is_control:
            marker = parse_marker(batch, header)
            if marker is not None:
                yield b"", TransactionEnded(marker.producer_id, marker.committed)
            continue
        pairs = [(r.key or b"", r.value) for r in records_of(batch)]
        if header.is_transactional:
            yield b"", InTransaction(header.producer_id, pairs)
        else:
            yield from pairs


@lru_cache(maxsize=8_192)
def records_of(batch: bytes) -> tuple[ReadRecord, ...]:
    """Parse the records of a batch; cached, since restarts read the same batches."""
    return tuple(read_batch(batch, 0))


def check_records(broker: Broker, acknowledged: Mapping[bytes, tuple[TopicPartition, int]]) -> None:
    """Check that each acknowledged record is at its offset, and idempotent producers' records are unique."""
    by_partition: dict[TopicPartition, dict[int, bytes]] = {}
    for value, (partition, offset) in acknowledged.items():
        if offset >= 0:
            by_partition.setdefault(partition, {})[offset] = value
    for partition, expected in by_partition.items():
        found: dict[bytes, int] = {}
        for record in records_on(log_of(broker, partition)):
            value = record.value or b""
            if value in found:
                raise CheckFailed(f"{partition}: {value!r} is at {found[value]} and again at {record.offset}")
            found[value] = record.offset
        for offset, value in expected.items():
            if found.get(value) != offset:
                raise CheckFailed(f"{partition}: {value!r} was acknowledged at {offset} but is at {found.get(value)}")


def check_commits(broker: Broker, commits: list[Mapping[TopicPartition, OffsetAndMetadata]]) -> None:
    """Check that each acknowledged commit is in ``__consumer_offsets``, or a later commit of the same key."""
    topic = broker.state.topics.get(OFFSETS_TOPIC)
    on_log: set[tuple[str, int, int]] = set()
    compacted: set[tuple[str, int]] = set()
    for log in topic.partitions if topic is not None else []:
        records = list(records_on(log))
        has_gaps = len(records) < log.log_end_offset - log.log_start_offset
        with_members: dict[str, bool] = {}
        for record in records:
            parsed = parse_record(record.key or b"", record.value)
            if isinstance(parsed, GroupWritten):
                with_members[parsed.group_id] = parsed.value is not None and bool(parsed.value.members)
            elif isinstance(parsed, OffsetCommitted) and parsed.value is None:
                check_may_be_forgotten(parsed, has_members=with_members.get(parsed.group_id, False))
            if isinstance(parsed, OffsetCommitted) and parsed.value is not None:
                on_log.add((parsed.topic, parsed.partition, parsed.value.offset))
                if has_gaps:
                    compacted.add((parsed.topic, parsed.partition))
    for offsets in commits:
        for partition, committed in offsets.items():
            is_there = (partition.topic, partition.partition, committed.offset) in on_log
            if not is_there and (partition.topic, partition.partition) not in compacted:
                raise CheckFailed(
                    f"the commit of {committed.offset} for {partition} was acknowledged but is not in the log"
                )


def check_may_be_forgotten(tombstone: OffsetCommitted, *, has_members: bool) -> None:
    """Check that an offset tombstone was written only while the group had no members."""
    if has_members:
        where = TopicPartition(tombstone.topic, tombstone.partition)
        raise CheckFailed(f"the offset of {where} was deleted while group {tombstone.group_id} had members")


def check_replay(broker: Broker) -> None:
    """Check that a replay of each led ``__consumer_offsets`` partition equals the coordinator's state."""
    cluster, here = broker.state.cluster, broker.node.node_id
    topic = broker.state.topics.get(OFFSETS_TOPIC)
    for number, log in enumerate(topic.partitions if topic is not None and not cluster.inbox(here) else []):
        if topic is not None and cluster.leader_of(topic, number) == here:
            unmarked = cluster.transactions.unmarked_in(TopicPartition(OFFSETS_TOPIC, number))
            check_log(broker.state.coordinator, number, items_on(log), unmarked)


def check_logs(broker: Broker) -> None:
    """Check every log, its segments and its indexes."""
    for topic in broker.state.topics:
        for log in topic.partitions:
            check_invariants(log)
