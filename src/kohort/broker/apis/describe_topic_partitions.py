"""DescribeTopicPartitions (75), version 0: topics in name order, in pages with a cursor. KIP-966.

As in Kafka, an unknown topic does not count against the limit of partitions, and a partition without a leader has
leader -1 and no error. No replica is in the list of eligible leader replicas, as all share one storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import Rights, unguarded
from kohort.broker.cluster.placement import NO_LEADER
from kohort.broker.request import AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode, KohortError
from kohort.log.topic_names import check_topic_name
from kohort.log.topics import Topic
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, in_order
from kohort.wire.messages import topics as wire

TOPIC_US: Final = 10


def describe_topic_partitions(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeTopicPartitionsRequest = request.message
    room = max(1, min(message.response_partition_limit, state.config.max_request_partition_size_limit))
    if _has_invalid_cursor(message):
        refused = [
            wire.DescribedTopicPartitions(error_code=ErrorCode.INVALID_REQUEST, name=t.name) for t in message.topics
        ]
        return wire.DescribeTopicPartitionsResponse(topics=refused)
    topics: list[wire.DescribedTopicPartitions] = []
    denied: list[wire.DescribedTopicPartitions] = []
    following: wire.TopicPartitionsCursor | None = None
    pace = Pace()
    for name, begin in (yield from _pages(state, message)):
        if pace.is_due(TOPIC_US):
            yield
        if not Rights(state, request).may(Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=not message.topics):
            if message.topics:
                denied.append(_denied(state, name))
            continue
        if room == 0:
            following = wire.TopicPartitionsCursor(topic_name=name, partition_index=0)
            break
        topic = state.topics.get(name)
        if topic is None:
            topics.append(_missing(state, request, name))
            continue
        end = min(begin + room, len(topic.partitions))
        topics.append(_described(state, request, topic, begin, end))
        if end < len(topic.partitions):
            following = wire.TopicPartitionsCursor(topic_name=name, partition_index=end)
            break
        room -= max(0, end - begin)
    return wire.DescribeTopicPartitionsResponse(topics=[*topics, *denied], next_cursor=following)


def _has_invalid_cursor(message: wire.DescribeTopicPartitionsRequest) -> bool:
    cursor = message.cursor
    if cursor is None:
        return False
    unknown = bool(message.topics) and all(entry.name != cursor.topic_name for entry in message.topics)
    return unknown or cursor.partition_index < 0


def _pages(state: BrokerState, message: wire.DescribeTopicPartitionsRequest) -> Steps[Iterator[tuple[str, int]]]:
    cursor = message.cursor
    begin = "" if cursor is None else cursor.topic_name
    requested = (entry.name for entry in message.topics) if message.topics else (topic.name for topic in state.topics)
    names = yield from in_order(name for name in requested if name >= begin)
    return ((name, cursor.partition_index if cursor is not None and name == cursor.topic_name else 0) for name in names)


def _denied(state: BrokerState, name: str) -> wire.DescribedTopicPartitions:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return wire.DescribedTopicPartitions(error_code=code, name=name, is_internal=name in state.internal_topics)


def _missing(state: BrokerState, request: Request, name: str) -> wire.DescribedTopicPartitions:
    try:
        check_topic_name(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except KohortError as error:
        code = refusal_of(error).code
    return wire.DescribedTopicPartitions(
        error_code=code, name=name, topic_authorized_operations=_operations(state, request, name)
    )


def _operations(state: BrokerState, request: Request, name: str) -> int:
    return Rights(state, request).operations_of(ResourceType.TOPIC, name)


def _described(
    state: BrokerState, request: Request, topic: Topic, begin: int, end: int
) -> wire.DescribedTopicPartitions:
    live = state.cluster.live_at(request.caller.listener)
    return wire.DescribedTopicPartitions(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[
            wire.DescribedTopicPartition(
                partition_index=index,
                leader_id=placed.leader if placed.leader in live else NO_LEADER,
                leader_epoch=topic.partitions[index].leader_epoch,
                replica_nodes=placed.replicas,
                isr_nodes=placed.in_sync(live),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=placed.offline(live),
            )
            for index, placed in islice(enumerate(state.cluster.placements(topic)), begin, end)
        ],
        topic_authorized_operations=_operations(state, request, topic.name),
    )


DESCRIBE_TOPIC_PARTITIONS = BrokerApi(
    wire.DescribeTopicPartitionsRequest,
    describe_topic_partitions,
    unguarded,  # the handler checks DESCRIBE on each topic of the response page
    Cost(AnswerBound.PAGE),
    names={"topics.name": NameKind.TOPIC},
)
