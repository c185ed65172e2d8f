"""A transactional producer with raw requests, before and after KIP-890, on any connection with ``ask``."""

from __future__ import annotations

from typing import Any

from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches

COMMITTED = 1


class Transactional:
    """One producer. ``new``: a write adds its partition, and every end bumps the epoch (KIP-890)."""

    def __init__(self, peer: Any, transactional_id: str = "t", *, new: bool = False, timeout_ms: int = 60_000) -> None:
        self.peer = peer
        self.transactional_id = transactional_id
        self.new = new
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, *, recover: bool = False) -> int:
        had = (self.producer_id, self.epoch) if recover else (-1, -1)
        answer = self.peer.ask(
            InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=had[0],
                producer_epoch=had[1],
            ),
            5,
        )
        if not answer.error_code:
            self._go_on(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def _go_on(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add(self, topic: str, *partitions: int) -> int:
        answer = self.peer.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
            ),
            3,
        )
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def batch(self, topic: str, values: tuple[bytes, ...], partition: int = 0, key: bytes | None = None) -> bytes:
        return build_batch(
            [NewRecord(key, value, (), 1_700_000_000_000) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get((topic, partition), 0),
            is_transactional=True,
        )

    def write(self, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None) -> Any:
        """Produce; return the partition's part of the response."""
        data = PartitionProduceData(index=partition, records=self.batch(topic, values, partition, key))
        answer = self.peer.ask(
            ProduceRequest(
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=1000,
                topic_data=[TopicProduceData(name=topic, partition_data=[data])],
            ),
            12 if self.new else 10,
        )
        result = answer.responses[0].partition_responses[0]
        if not result.error_code:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return result

    def send(self, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None) -> int:
        """Add the partition to the transaction, then produce. Return the base offset."""
        if not self.new:
            assert self.add(topic, partition) == 0
        result = self.write(topic, *values, partition=partition, key=key)
        assert result.error_code == 0, result
        return int(result.base_offset)

    def end(self, *, commit: bool) -> int:
        answer = self.peer.ask(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            ),
            5 if self.new else 3,
        )
        if self.new and not answer.error_code:
            self._go_on(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def commit_offsets(
        self, group: str, topic: str, offset: int, *, generation: int = -1, member: str = "", adds: bool = True
    ) -> int:
        if adds and not self.new:
            added = self.peer.ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group,
                ),
                3,
            )
            if added.error_code:
                return int(added.error_code)
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        answer = self.peer.ask(
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                generation_id=generation,
                member_id=member,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
            ),
            5 if self.new else 3,
        )
        return int(answer.topics[0].partitions[0].error_code)


def fetched(peer: Any, topic: str, offset: int = 0, *, isolation: int = COMMITTED, max_wait_ms: int = 0) -> Any:
    """Fetch partition 0; return the partition's part of the response."""
    request_partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    answer = peer.ask(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[request_partition])],
        ),
        12,
    )
    return answer.responses[0].partitions[0]


def committed_values(peer: Any, topic: str) -> list[bytes]:
    """Return the values that a ``read_committed`` consumer gets; each segment is fetched separately."""
    values: list[bytes] = []
    offset = 0
    while (data := fetched(peer, topic, offset)).records:
        records = bytes(data.records)
        aborted = sorted((a.first_offset, a.producer_id) for a in data.aborted_transactions or ())
        taken_back: set[int] = set()
        for at, header in split_batches(records):
            while aborted and aborted[0][0] <= header.last_offset:
                taken_back.add(aborted.pop(0)[1])
            if header.is_control:
                taken_back.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in taken_back):
                values += [record.value for record in read_batch(records, at)]
            offset = header.next_offset
    return values


def latest(peer: Any, topic: str, *, isolation: int = COMMITTED) -> int:
    request_partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=topic, partitions=[request_partition])]
    answer = peer.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), 4)
    return int(answer.topics[0].partitions[0].offset)


def committed_offset(peer: Any, group: str, topic: str, *, stable: bool = False) -> tuple[int, int]:
    """Return error code and offset of partition 0."""
    request_topic = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    groups = [OffsetFetchRequestGroup(group_id=group, topics=[request_topic])]
    answer = peer.ask(OffsetFetchRequest(groups=groups, require_stable=stable), 8)
    found = answer.groups[0].topics[0].partitions[0]
    return int(found.error_code), int(found.committed_offset)
