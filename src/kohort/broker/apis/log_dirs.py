"""DescribeLogDirs (35), versions 1-5: disk space and log sizes of the data folder. KIP-113, KIP-827.
AlterReplicaLogDirs (34), versions 1-2. KIP-113.

The broker has one data folder. A node reports the partitions of which it is a replica, without lag and never as future
replicas. As in Kafka, a move of a log to the data folder succeeds. Any other folder is rejected with LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import guard_cluster, refused_by_topic
from kohort.broker.leaders import topic_with
from kohort.broker.request import AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode, KohortError, StorageError
from kohort.security.acls import Operation
from kohort.steps import Pace, Steps
from kohort.wire.messages import log_dirs as wire
from kohort.wire.schema import Message

ITEM_US: Final = 1
MEASURE_US: Final = 2
MOVE_US: Final = 4


def describe_log_dirs(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeLogDirsRequest = request.message
    pace = Pace()
    requested: set[tuple[str, int]] = set()
    for entry in message.topics or ():
        for index in entry.partitions:
            requested.add((entry.topic, index))
            if pace.is_due(ITEM_US):
                yield
    try:
        room = state.topics.storage.disk_space()
    except StorageError as error:
        return wire.DescribeLogDirsResponse(results=[wire.DescribeLogDirsResult(error_code=refusal_of(error).code)])
    result = wire.DescribeLogDirsResult(
        log_dir=state.topics.storage.place,
        topics=(yield from _topics(state, None if message.topics is None else requested, pace)),
        total_bytes=room.total_bytes,
        usable_bytes=room.usable_bytes,
    )
    return wire.DescribeLogDirsResponse(results=[result])


def _topics(
    state: BrokerState, requested: set[tuple[str, int]] | None, pace: Pace
) -> Steps[list[wire.DescribeLogDirsTopic]]:
    """Describe this node's replicas among the requested partitions (None: all partitions)."""
    topics = []
    for topic in list(state.topics):
        partitions = []
        for index, placed in enumerate(state.cluster.placements(topic)):
            if state.node.node_id in placed.replicas and (requested is None or (topic.name, index) in requested):
                size = topic.partitions[index].size_bytes
                partitions.append(wire.DescribeLogDirsPartition(partition_index=index, partition_size=size))
            if pace.is_due(MEASURE_US):
                yield
        if partitions:
            topics.append(wire.DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return topics


def alter_replica_log_dirs(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.AlterReplicaLogDirsRequest = request.message
    results: dict[str, wire.AlteredLogDirTopic] = {}
    pace = Pace()
    for requested in message.dirs:
        for topic in requested.topics:
            if topic.name not in results:
                results[topic.name] = wire.AlteredLogDirTopic(topic_name=topic.name)
            partitions = results[topic.name].partitions
            for index in topic.partitions:
                code = _move(state, requested.path, topic.name, index)
                partitions.append(wire.AlteredLogDirPartition(partition_index=index, error_code=code))
                if pace.is_due(MOVE_US):
                    yield
            if pace.is_due(MOVE_US):
                yield
    return wire.AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(state: BrokerState, path: str, name: str, index: int) -> int:
    """Return the error code of a move: ``path`` must be the data folder, and this node a replica."""
    if path != state.topics.storage.place:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        placement = state.cluster.placement(topic_with(state, name, index), index)
    except KohortError as error:
        return refusal_of(error).code
    return ErrorCode.NONE if state.node.node_id in placement.replicas else ErrorCode.REPLICA_NOT_AVAILABLE


def _not_moved(message: wire.AlterReplicaLogDirsRequest, code: int, _words: str) -> Steps[Message]:
    topics = yield from refused_by_topic(
        chain.from_iterable(folder.topics for folder in message.dirs),
        lambda topic: topic.partitions,
        lambda p: wire.AlteredLogDirPartition(partition_index=p, error_code=code),
        lambda topic, made: wire.AlteredLogDirTopic(topic_name=topic.name, partitions=made),
    )
    return wire.AlterReplicaLogDirsResponse(results=topics)


DESCRIBE_LOG_DIRS = BrokerApi(
    wire.DescribeLogDirsRequest,
    describe_log_dirs,
    guard_cluster(Operation.DESCRIBE, lambda _message, code, _text: wire.DescribeLogDirsResponse(error_code=code)),
    Cost(AnswerBound.STATE),
    names={"topics.topic": NameKind.TOPIC},
)
ALTER_REPLICA_LOG_DIRS = BrokerApi(
    wire.AlterReplicaLogDirsRequest,
    alter_replica_log_dirs,
    guard_cluster(Operation.ALTER, _not_moved),
    Cost(AnswerBound.REQUEST),
    names={"dirs.topics.name": NameKind.TOPIC},
)
