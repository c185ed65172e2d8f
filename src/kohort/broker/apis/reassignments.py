"""AlterPartitionReassignments (45), versions 0-1, ListPartitionReassignments (46), version 0. KIP-455, KIP-860.

All nodes share one storage, so a reassignment is pending only until all added nodes are up; removed nodes may be down.
As in Kafka, added nodes may be down, and ``replicas`` of null cancels a pending reassignment.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import PARTITIONS, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import guard_cluster, refused_by_topic
from kohort.broker.cluster.placement import Placement, cancelled, reassigned
from kohort.broker.leaders import topic_with
from kohort.broker.request import Answer, AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topics import Topic
from kohort.security.acls import Operation
from kohort.steps import Pace, Steps
from kohort.wire.messages import reassignments as wire
from kohort.wire.schema import Message

ITEM_US: Final = 1


def alter_partition_reassignments(state: BrokerState, request: Request) -> Answer:
    message: wire.AlterPartitionReassignmentsRequest = request.message
    changes: dict[tuple[bytes, int], tuple[Topic, int, Placement]] = {}
    responses = [
        wire.ReassignableTopicResponse(
            name=requested.name,
            partitions=[_alter(state, message, requested.name, p, changes) for p in requested.partitions],
        )
        for requested in message.topics
    ]
    try:
        state.cluster.change_all(list(changes.values()))
    except KohortError as error:
        for response in responses:
            response.partitions[:] = [
                p if p.error_code else _refused(p.partition_index, error) for p in response.partitions
            ]
    return wire.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change, error_message=None, responses=responses
    )


def _alter(
    state: BrokerState,
    message: wire.AlterPartitionReassignmentsRequest,
    name: str,
    requested: wire.ReassignablePartition,
    changes: dict[tuple[bytes, int], tuple[Topic, int, Placement]],
) -> wire.ReassignablePartitionResponse:
    """Check the reassignment of a partition and add it to ``changes``, which are stored with one write."""
    index = requested.partition_index
    try:
        topic = topic_with(state, name, index)
        key = topic.topic_id, index
        now = changes[key][2] if key in changes else state.cluster.placement(topic, index)
        changes[key] = topic, index, _wanted(state, message, now, requested.replicas)
    except KohortError as error:
        return _refused(index, error)
    return wire.ReassignablePartitionResponse(partition_index=index, error_message=None)


def _refused(index: int, error: KohortError) -> wire.ReassignablePartitionResponse:
    return wire.ReassignablePartitionResponse(partition_index=index, **refusal_of(error).fields)


def _wanted(
    state: BrokerState, message: wire.AlterPartitionReassignmentsRequest, now: Placement, target: list[int] | None
) -> Placement:
    if target is None:
        return cancelled(now)
    made = reassigned(now, target, state.cluster.nodes, state.cluster.live)
    present = len([node for node in now.replicas if node not in now.adding])
    if len(target) != present and not message.allow_replication_factor_change:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"got {len(target)} replicas, expected {present}: the request does not allow a new replication factor",
        )
    return made


def list_partition_reassignments(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.ListPartitionReassignmentsRequest = request.message
    pace = Pace()
    requested: dict[str, frozenset[int]] = {}
    for entry in message.topics or ():
        requested[entry.name] = frozenset(entry.partition_indexes)
        if pace.is_due(ITEM_US * (1 + len(entry.partition_indexes))):
            yield
    topics = []
    for topic in list(state.topics):
        if pace.is_due(ITEM_US * len(topic.partitions)):
            yield
        pending = [
            wire.OngoingPartitionReassignment(
                partition_index=index,
                replicas=placed.replicas,
                adding_replicas=placed.adding,
                removing_replicas=placed.removing,
            )
            for index, placed in enumerate(state.cluster.placements(topic))
            if placed.is_pending and (message.topics is None or index in requested.get(topic.name, ()))
        ]
        if pending:
            topics.append(wire.OngoingTopicReassignment(name=topic.name, partitions=pending))
    return wire.ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _not_reassigned(message: wire.AlterPartitionReassignmentsRequest, code: int, words: str) -> Steps[Message]:
    refused = yield from refused_by_topic(
        message.topics,
        lambda topic: topic.partitions,
        lambda p: wire.ReassignablePartitionResponse(
            partition_index=p.partition_index, error_code=code, error_message=words
        ),
        lambda topic, made: wire.ReassignableTopicResponse(name=topic.name, partitions=made),
    )
    return wire.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=code,
        error_message=words,
        responses=refused,
    )


ALTER_PARTITION_REASSIGNMENTS = BrokerApi(
    wire.AlterPartitionReassignmentsRequest,
    alter_partition_reassignments,
    guard_cluster(Operation.ALTER, _not_reassigned),
    Cost(AnswerBound.REQUEST, parts=Parts(PARTITIONS, ("responses", "partitions"), 20, writes=True)),
    names={"topics.name": NameKind.TOPIC},
)
LIST_PARTITION_REASSIGNMENTS = BrokerApi(
    wire.ListPartitionReassignmentsRequest,
    list_partition_reassignments,
    guard_cluster(
        Operation.DESCRIBE,
        lambda _message, code, text: wire.ListPartitionReassignmentsResponse(error_code=code, error_message=text),
    ),
    Cost(AnswerBound.STATE),
    names={"topics.name": NameKind.TOPIC},
)
