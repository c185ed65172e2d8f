"""DescribeLogDirs (35), versions 1-5: the data folder, the room on its disk, the size of each log. KIP-113, KIP-827.

A node of several on shared storage tells of the partitions of which it is a replica. No log is ever moved to another
folder, so none is behind: the lag is 0 and no key is a future one.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.refusals import refusal_of
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import StorageError
from kohort.steps import Pace, SpreadDict, Steps
from kohort.wire.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

LOOK_US: Final = 1
MEASURE_US: Final = 2


def describe_log_dirs(state: BrokerState, request: Request) -> AnswerInSteps:
    message: DescribeLogDirsRequest = request.message
    pace = Pace()
    wanted: SpreadDict[tuple[str, int], None] | None = None if message.topics is None else SpreadDict()
    for asked in message.topics or ():
        for index in asked.partitions:
            assert wanted is not None
            wanted.add((asked.topic, index), None)
            if pace.is_due(LOOK_US):
                yield
    try:
        room = state.topics.room()
    except StorageError as error:
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=refusal_of(error).code)])
    result = DescribeLogDirsResult(
        log_dir=state.topics.place,
        topics=(yield from _topics(state, wanted, pace)),
        total_bytes=room.total_bytes,
        usable_bytes=room.usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _topics(
    state: BrokerState, wanted: SpreadDict[tuple[str, int], None] | None, pace: Pace
) -> Steps[list[DescribeLogDirsTopic]]:
    """Return the logs that are kept here, of all topics or of those that are wanted; others are passed over in
    silence."""
    topics = []
    for topic in list(state.topics):
        partitions = []
        for index, placed in enumerate(state.cluster.placements(topic)):
            if state.node.node_id in placed.replicas and (wanted is None or wanted.has((topic.name, index))):
                size = topic.partitions[index].size_bytes
                partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=size))
            if pace.is_due(MEASURE_US):
                yield
        if partitions:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    if wanted is not None:
        yield from wanted.let_go(pace)
    return topics
