"""AlterReplicaLogDirs (34), versions 1-2: logs to another folder of their broker, where there is only one. KIP-113.

To move a log to the folder that it is in succeeds, as in Kafka; any other folder is LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.leaders import topic_with
from kohort.broker.refusals import refusal_of
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.steps import Pace, SpreadDict
from kohort.wire.messages.log_dirs import (
    AlteredLogDirPartition,
    AlteredLogDirTopic,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)

MOVE_US: Final = 4


def alter_replica_log_dirs(state: BrokerState, request: Request) -> AnswerInSteps:
    message: AlterReplicaLogDirsRequest = request.message
    known: SpreadDict[str, AlteredLogDirTopic] = SpreadDict()
    results: list[AlteredLogDirTopic] = []
    pace = Pace()
    for wanted in message.dirs:
        for topic in wanted.topics:
            made = AlteredLogDirTopic(topic_name=topic.name)
            if known.add(topic.name, made):
                results.append(made)
            partitions = known.part(topic.name)[topic.name].partitions
            for index in topic.partitions:
                code = _move(state, wanted.path, topic.name, index)
                partitions.append(AlteredLogDirPartition(partition_index=index, error_code=code))
                if pace.is_due(MOVE_US):
                    yield
            if pace.is_due(MOVE_US):
                yield
    yield from known.let_go(pace)
    return AlterReplicaLogDirsResponse(results=results)


def _move(state: BrokerState, path: str, name: str, index: int) -> int:
    try:
        _check(state, path, name, index)
    except KohortError as error:
        return refusal_of(error).code
    return ErrorCode.NONE


def _check(state: BrokerState, path: str, name: str, index: int) -> None:
    """Raise unless the log is in that folder of this node."""
    if path != state.topics.place:
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)
    if state.node.node_id not in state.cluster.placement(topic_with(state, name, index), index).replicas:
        raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
