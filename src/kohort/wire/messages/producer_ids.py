"""InitProducerId (22), DescribeProducers (61).

InitProducerId: an id for an idempotent producer, or for a transactional one and its next epoch. 2: flexible. 3: current
id and epoch of the producer (KIP-360). 4: PRODUCER_FENCED. 5: TRANSACTION_ABORTABLE. 6: two-phase commit (KIP-939;
unstable in Kafka, so neither served nor requested).
DescribeProducers: the producers of a partition (KIP-664).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


class DescribeProducersTopic(Message):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    topics: list[DescribeProducersTopic] = array(DescribeProducersTopic)


class ActiveProducer(Message):
    """Producer id with the time of its last batch (``last_timestamp``, in ms); -1 if unknown."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class ActiveProducersPartition(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ActiveProducer] = array(ActiveProducer)


class ActiveProducersTopic(Message):
    name: str = string()
    partitions: list[ActiveProducersPartition] = array(ActiveProducersPartition)


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[ActiveProducersTopic] = array(ActiveProducersTopic)
