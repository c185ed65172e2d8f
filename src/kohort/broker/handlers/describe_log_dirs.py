"""DescribeLogDirs (35), versions 1-5: the data folder, the room on its disk, the size of each log. KIP-113, KIP-827.

A node of several on shared storage tells of the partitions of which it is a replica. No log is ever moved to another
folder, so none is behind: the lag is 0 and no key is a future one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import StorageError
from kohort.wire.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def describe_log_dirs(state: BrokerState, request: Request) -> Answer:
    message: DescribeLogDirsRequest = request.message
    wanted = (
        None if message.topics is None else {(asked.topic, i) for asked in message.topics for i in asked.partitions}
    )
    try:
        room = state.topics.room()
    except StorageError as error:
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=refusal_of(error).code)])
    result = DescribeLogDirsResult(
        log_dir=state.topics.place,
        topics=list(_topics(state, wanted)),
        total_bytes=room.total_bytes,
        usable_bytes=room.usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _topics(state: BrokerState, wanted: set[tuple[str, int]] | None) -> Iterator[DescribeLogDirsTopic]:
    """The logs that are kept here, of all topics or of those that are wanted; others are passed over in silence."""
    for topic in state.topics:
        partitions = [
            DescribeLogDirsPartition(partition_index=index, partition_size=topic.partitions[index].size_bytes)
            for index, placed in enumerate(state.cluster.placements(topic))
            if state.node.node_id in placed.replicas and (wanted is None or (topic.name, index) in wanted)
        ]
        if partitions:
            yield DescribeLogDirsTopic(name=topic.name, partitions=partitions)
