"""Metadata (3), versions 0-13: brokers, topics, who leads what. KIP-516 (topic ids), KIP-430 (authorized operations).

Deviation: a topic that is created by asking for it is there at once, so the first answer already describes it, where
Kafka answers UNKNOWN_TOPIC_OR_PARTITION until its controller is done (facts 5.12).
"""

from __future__ import annotations

from typing import Final

from kohort.broker.cluster.placement import NO_LEADER
from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topics import Topic
from kohort.model import NO_UUID
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NOT_ASKED: Final = -0x80000000
TOPIC_OPERATIONS: Final = sum(1 << op for op in (3, 4, 5, 6, 7, 8, 10, 11))
"""READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS: nobody is refused anything."""
CLUSTER_OPERATIONS: Final = sum(1 << op for op in (5, 7, 8, 9, 10, 11, 12))
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


def metadata(state: BrokerState, request: Request) -> Answer:
    message: MetadataRequest = request.message
    cluster = state.cluster
    everything = message.topics is None or (request.version == 0 and not message.topics)
    operations = TOPIC_OPERATIONS if message.include_topic_authorized_operations else NOT_ASKED
    if everything:
        topics = [_describe(state, topic, operations) for topic in state.topics]
    else:
        topics = [_asked(state, request, asked, operations) for asked in message.topics or ()]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in (cluster.nodes[node_id] for node_id in sorted(cluster.live))
        ],
        cluster_id=state.topics.cluster_id,
        controller_id=cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _asked(state: BrokerState, request: Request, asked: MetadataRequestTopic, operations: int) -> MetadataResponseTopic:
    by_id = asked.topic_id != NO_UUID
    try:
        if by_id:
            if request.version < 12:
                raise ApiError(ErrorCode.INVALID_REQUEST, "topics are looked up by id from version 12 on")
            topic = state.topics.by_id(asked.topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            topic = _by_name(state, request, asked.name or "")
    except KohortError as error:
        return MetadataResponseTopic(
            error_code=refusal_of(error).code,
            name=asked.name if asked.name is not None or request.version >= 12 else "",
            topic_id=asked.topic_id,
            topic_authorized_operations=operations,
        )
    return _describe(state, topic, operations)


def _by_name(state: BrokerState, request: Request, name: str) -> Topic:
    topic = state.topics.get(name)
    if topic is not None:
        return topic
    message: MetadataRequest = request.message
    allowed = request.version < 4 or message.allow_auto_topic_creation
    if not (allowed and state.config.auto_create_topics_enable):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if name in state.own_topics:
        return state.own_topics[name](request.now_ms)
    return state.topics.create(name, state.config.num_partitions, {}, request.now_ms)


def _describe(state: BrokerState, topic: Topic, operations: int) -> MetadataResponseTopic:
    live = state.cluster.live
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if placed.leader == NO_LEADER else ErrorCode.NONE,
                partition_index=index,
                leader_id=placed.leader,
                leader_epoch=topic.partitions[index].leader_epoch,
                replica_nodes=placed.replicas,
                isr_nodes=placed.in_sync(live),
                offline_replicas=placed.offline(live),
            )
            for index, placed in enumerate(state.cluster.placements(topic))
        ],
        topic_authorized_operations=operations,
    )
