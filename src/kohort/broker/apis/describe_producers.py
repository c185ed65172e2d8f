"""DescribeProducers (61), version 0: producers and open transactions of a partition. KIP-664.

Any replica of the partition serves the request, as in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.api import PARTITIONS, TOO_LARGE, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import DENIAL_TEXTS, TOPIC_DENIED, TopicsRule
from kohort.broker.leaders import topic_with
from kohort.broker.request import Answer, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.partition import PartitionLog
from kohort.log.topic_names import check_topic_name
from kohort.security.acls import Operation
from kohort.wire.messages import producer_ids as wire

PRODUCERS_IN_A_UNIT: Final = 8


def describe_producers(state: BrokerState, request: Request) -> Answer:
    message: wire.DescribeProducersRequest = request.message
    return wire.DescribeProducersResponse(
        topics=[
            wire.ActiveProducersTopic(
                name=entry.name, partitions=[_partition(state, entry.name, index) for index in entry.partition_indexes]
            )
            for entry in message.topics
        ]
    )


def _partition(state: BrokerState, name: str, index: int) -> wire.ActiveProducersPartition:
    try:
        check_topic_name(name)
        topic = topic_with(state, name, index)
        if state.node.node_id not in state.cluster.placement(topic, index).replicas:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    except KohortError as error:
        return wire.ActiveProducersPartition(partition_index=index, **refusal_of(error).fields)
    return wire.ActiveProducersPartition(partition_index=index, active_producers=_active(topic.partitions[index]))


def _active(log: PartitionLog) -> list[wire.ActiveProducer]:
    return [
        wire.ActiveProducer(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.open_since,
        )
        for producer_id, producer in sorted(log.producers)
    ]


def refuse_producers(request: Request, message: str) -> wire.DescribeProducersResponse:
    entry: wire.DescribeProducersRequest = request.message
    return wire.DescribeProducersResponse(
        topics=[
            wire.ActiveProducersTopic(
                name=topic.name,
                partitions=[
                    wire.ActiveProducersPartition(partition_index=p, error_code=TOO_LARGE, error_message=message)
                    for p in topic.partition_indexes
                ],
            )
            for topic in entry.topics
        ]
    )


def producers_of_partition(state: BrokerState, chain: tuple[Any, ...]) -> int:
    if len(chain) < 2:
        return 0
    topic, partition = chain
    log = state.topics.log(topic.name, partition)
    return 0 if log is None else len(log.producers) // PRODUCERS_IN_A_UNIT


DESCRIBE_PRODUCERS = BrokerApi(
    wire.DescribeProducersRequest,
    describe_producers,
    TopicsRule(
        Operation.READ,
        wire.DescribeProducersResponse,
        lambda p: wire.ActiveProducersPartition(
            partition_index=p, error_code=TOPIC_DENIED, error_message=DENIAL_TEXTS[TOPIC_DENIED]
        ),
        lambda topic, made: wire.ActiveProducersTopic(name=topic.name, partitions=made),
        partitions_of=lambda topic: topic.partition_indexes,
    ),
    Cost(
        AnswerBound.UNREAD,
        parts=Parts(
            ("topics", "partition_indexes"),
            PARTITIONS,
            500,
            extra_units=producers_of_partition,
            refuse=refuse_producers,
        ),
    ),
    names={"topics.name": NameKind.TOPIC},
)
